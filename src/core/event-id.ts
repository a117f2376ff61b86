import { createHash } from 'node:crypto';
import type { BodyReader } from './body.js';
import { EventIdUnusable } from './errors.js';

const MAX_BYTES = 255;
// Control characters and the bidirectional overrides that make two ids look alike in a log.
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

/**
 * The id as a key: 1..255 bytes of well-formed text. Longer ids are stored as their SHA-256.
 * Lone surrogates are refused, since two of them would both be stored as U+FFFD and one event would be lost.
 * @throws EventIdUnusable
 */
export function eventId(value: unknown, where: string): string {
  if (typeof value !== 'string' || value.trim() === '') {
    throw new EventIdUnusable(`${where}: expected a non-blank event id, received ${describe(value)}`);
  }
  if (!value.isWellFormed() || FORBIDDEN.test(value)) {
    throw new EventIdUnusable(`${where}: the event id holds control characters or broken surrogates`);
  }
  return Buffer.byteLength(value) <= MAX_BYTES
    ? value
    : `sha256:${createHash('sha256').update(value).digest('hex')}`;
}

/**
 * The event id at a dotted path of the body. The number 0 is refused: it is what a missing id becomes in many languages.
 * @throws EventIdUnusable
 */
export function eventIdAt(body: BodyReader, path: string): string {
  if (body.json() === undefined) {
    const received =
      body.bytes.length === 0 ? 'an empty body' : `${body.bytes.length} bytes that are no JSON`;
    throw new EventIdUnusable(`body.${path}: expected JSON with an event id, received ${received}`);
  }
  const value = body.at(path);
  return eventId(typeof value === 'number' && value !== 0 ? body.textAt(path) : value, `body.${path}`);
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  return typeof value === 'string' ? 'blank text' : typeof value;
}
