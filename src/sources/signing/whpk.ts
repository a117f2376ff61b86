import type { KeyObject } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import { decodeSecret, decodeStrict } from './digest.js';
import { ed25519Key, verifies } from './public-key.js';

const PREFIX = 'whpk_';
const SIGNATURE_BYTES = 64;
/** Most pairs of a key and a signature that are tried: each costs a pass over the body, where an HMAC costs one for a key. */
const MAX_TRIES = 20;

/** Whether a secret is a Standard Webhooks public key, `whpk_` + base64 of 32 bytes. */
export function isWhpk(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

export function whpkKey(secret: string): KeyObject | undefined {
  return ed25519Key(decodeSecret(secret.slice(PREFIX.length)));
}

/**
 * The index of the public key that one of the v1a signatures is from, or -1.
 * @throws SignatureRejection when there are too many to try
 */
export function matchWhpk(
  content: readonly (string | Buffer)[],
  signatures: readonly string[],
  secrets: readonly string[],
): number {
  const signed = Buffer.concat(content.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  const candidates = signatures
    .flatMap((text) => decodeStrict(text, 'base64') ?? [])
    .filter((bytes) => bytes.length === SIGNATURE_BYTES);
  const tries = candidates.length * secrets.filter(isWhpk).length;
  if (tries > MAX_TRIES)
    throw new SignatureRejection(
      'malformed-signature',
      `${candidates.length} v1a signatures for ${tries / candidates.length} public keys: at most ${MAX_TRIES} pairs are tried`,
    );
  return secrets.findIndex((secret) => {
    const key = isWhpk(secret) ? whpkKey(secret) : undefined;
    return key !== undefined && candidates.some((candidate) => verifies(null, signed, key, candidate));
  });
}
