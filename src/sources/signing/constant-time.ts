import { createHash, timingSafeEqual } from 'node:crypto';

/** Compares without telling where the first difference is. */
export function equalBytes(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Compares secrets of any length. Their hashes have one length, so the time reveals nothing about it. */
export function equalText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

/**
 * The place of a text among secrets, or -1. Each is compared, found or not. The text is hashed once: it may come from a body, and there
 * may be many secrets.
 */
export function placeOf(text: string, secrets: readonly string[]): number {
  const hash = sha256(text);
  return secrets.map((secret) => secret !== '' && timingSafeEqual(sha256(secret), hash)).indexOf(true);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
