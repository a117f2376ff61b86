import { createPublicKey, verify, type KeyObject } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import { decodeSecret } from './digest.js';
import { refuseTooMany } from './mac.js';

/** DER of an Ed25519 SubjectPublicKeyInfo up to the 32 bytes of the key (RFC 8410). */
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex');

/** An Ed25519 public key from its 32 bytes, or undefined. */
export function ed25519Key(bytes: Buffer | undefined): KeyObject | undefined {
  if (bytes?.length !== 32) return undefined;
  return spkiKey(Buffer.concat([ED25519_SPKI, bytes]));
}

/** A public key from DER, or undefined. */
export function spkiKey(der: Buffer): KeyObject | undefined {
  try {
    return createPublicKey({ key: der, format: 'der', type: 'spki' });
  } catch {
    return undefined;
  }
}

/** A public key from the base64 of its DER, with or without PEM lines, or undefined. */
export function publicKeyFromText(text: string): KeyObject | undefined {
  const base64 = text.replace(/-----(?:BEGIN|END) PUBLIC KEY-----/g, '').replace(/\s/g, '');
  const der = base64 === '' ? undefined : decodeSecret(base64);
  return der && spkiKey(der);
}

/** Whether the key made the signature. Malformed signatures are wrong, not errors. */
export function verifies(
  algorithm: string | null,
  content: Buffer,
  key: KeyObject,
  signature: Buffer,
): boolean {
  try {
    return verify(algorithm, content, key, signature);
  } catch {
    return false;
  }
}

/** ECDSA over P-256 as JWS writes it: r and s side by side, not DER. */
export function verifiesEs256(content: string, key: KeyObject, signature: Buffer): boolean {
  try {
    return verify('sha256', Buffer.from(content), { key, dsaEncoding: 'ieee-p1363' }, signature);
  } catch {
    return false;
  }
}

/**
 * The index of the key that made the signature.
 * @throws SignatureRejection
 */
export function matchKey(
  algorithm: string | null,
  content: Buffer,
  signature: Buffer,
  keys: readonly (KeyObject | undefined)[],
): number {
  refuseTooMany(keys);
  if (keys.every((key) => key === undefined))
    throw new SignatureRejection('unusable-key', 'the source has no usable public key');
  const index = keys.findIndex((key) => key !== undefined && verifies(algorithm, content, key, signature));
  if (index < 0)
    throw new SignatureRejection('wrong-signature', `no key of ${keys.length} made this signature`);
  return index;
}
