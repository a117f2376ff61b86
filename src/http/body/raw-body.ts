import type { IncomingMessage } from 'node:http';
import type { Answer } from '../../core/answer.js';
import type { SignatureRejection } from '../../core/errors.js';
import type { Holding } from './holding.js';

/** The bytes of a request, or why they were not taken. */
export type RawBody =
  | { readonly bytes: Buffer; readonly holding: Holding }
  | { readonly refused: Answer }
  /** No body would make it right: its headers are refused already. */
  | { readonly rejected: SignatureRejection };

const raw = new WeakMap<IncomingMessage, RawBody>();

export function keepRawBody(request: IncomingMessage, body: RawBody): void {
  raw.set(request, body);
}

/** The bytes that the reader kept of a request. Undefined when it never read the request. */
export function rawBodyOf(request: IncomingMessage): RawBody | undefined {
  return raw.get(request);
}
