import { createHash, timingSafeEqual } from 'node:crypto';

/** How a vendor writes a digest or a signature in a header. */
export type DigestEncoding = 'hex' | 'base64' | 'base64url';

/**
 * Bytes of canonical text, or undefined: lower-case hex, padded standard base64, unpadded base64url, nothing around it.
 * `Buffer.from` alone drops what it does not know, so that 'ab' and 'ab zz' would be one signature.
 */
export function decodeStrict(text: string, encoding: DigestEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  return bytes.toString(encoding) === text ? bytes : undefined;
}

/**
 * Bytes of a secret or a public key in standard base64, padded or not, or undefined. Vendors and their libraries do not agree on the
 * padding. A secret is the owner's, so this gives an attacker no second way to write a signature.
 */
export function decodeSecret(text: string): Buffer | undefined {
  const bare = text.replace(/={1,2}$/, '');
  const padded = bare.padEnd(Math.ceil(bare.length / 4) * 4, '=');
  return decodeStrict(padded, 'base64');
}

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
