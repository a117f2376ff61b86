import { createHash, hash, randomBytes } from 'node:crypto';
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

// One call for 256 ids: each has a cost of its own, which shows in the profile of a busy receiver.
let random = Buffer.alloc(0);
let lastMs = 0;
let counter = 0;

/**
 * A UUIDv7 (RFC 9562, method 1): milliseconds since 1970, a counter within the millisecond, then random bits. Ids of one process
 * ascend in the order in which they were made, and new keys land at the right edge of an index.
 */
export function uuidV7(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    counter = 0;
  } else if (++counter > 0xfff) {
    lastMs += 1;
    counter = 0;
  }
  const bytes = sixteenRandom();
  bytes.writeUIntBE(lastMs, 0, 6);
  bytes.writeUInt16BE(counter, 6);
  return format(bytes);
}

/**
 * The id of an outbox row owed for `parent`, which is a claim's id or the row whose run enqueued it. The same parts always give the same
 * id. It is a UUIDv8 whose first half is the parent's, so that rows stay in the order of arrival.
 * @param generation above 0 when a person asked for an effect to be done once more
 */
export function outboxId(parent: string, name: string, key = '', generation = 0): string {
  const parts = generation === 0 ? [parent, name, key] : [parent, name, key, generation];
  const digest = hash('sha256', JSON.stringify(parts), 'hex');
  const variant = ((parseInt(digest[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${parent.slice(0, 14)}8${parent.slice(15, 19)}${variant}${digest.slice(17, 20)}-${digest.slice(20, 32)}`;
}

function format(bytes: Buffer): string {
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Random bytes that may be overwritten. */
function sixteenRandom(): Buffer {
  if (random.length === 0) random = randomBytes(4_096);
  const bytes = random.subarray(0, 16);
  random = random.subarray(16);
  return bytes;
}
