import type { WokenNames } from './wake-up.js';

/** PostgreSQL takes less than 8,000 bytes. */
const MAX_BYTES = 7_000;

/** What a notification of a commit says: who sent it, and the names of the rows. */
export function wakePayload(owner: string, names: WokenNames): string {
  const payload = JSON.stringify([owner, ...(names ?? [])]);
  return Buffer.byteLength(payload) > MAX_BYTES ? JSON.stringify([owner]) : payload;
}

/** Reads it. What is no such thing, such as that of another version, is a commit of rows that are not known. */
export function readWakePayload(payload: string | undefined): {
  owner: string | undefined;
  names: WokenNames;
} {
  const [owner, ...names] = parts(payload);
  const areNames = names.length > 0 && names.every((name) => typeof name === 'string');
  return { owner: typeof owner === 'string' ? owner : payload, names: areNames ? names : undefined };
}

function parts(payload: string | undefined): unknown[] {
  try {
    const read: unknown = JSON.parse(payload ?? '');
    return Array.isArray(read) ? read : [];
  } catch {
    return [];
  }
}
