import { hash, randomBytes } from 'node:crypto';

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
