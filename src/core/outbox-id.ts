import { createHash, randomBytes } from 'node:crypto';

/**
 * A UUIDv7 (RFC 9562): milliseconds since 1970, then random bits, so that new keys land at the right edge of an index.
 */
export function uuidV7(nowMs: number = Date.now()): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  return format(bytes, 7);
}

/**
 * The id of an outbox row owed for `parent` (a claim's id, or the row whose run enqueued it): the same parts give the same id,
 * whatever runs again. A UUIDv8 whose first 48 bits are the parent's time, so that rows stay in the order of arrival.
 */
export function outboxId(parent: string, name: string, key = ''): string {
  const bytes = createHash('sha256')
    .update(JSON.stringify([parent, name, key]))
    .digest()
    .subarray(0, 16);
  Buffer.from(parent.replaceAll('-', '').slice(0, 12), 'hex').copy(bytes, 0);
  return format(bytes, 8);
}

function format(bytes: Buffer, version: number): string {
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
