import { createHmac } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import { equalBytes } from './constant-time.js';
import { decodeStrict, type DigestEncoding } from './digest-text.js';
import { refuseTooMany, type KeyOf } from './secret-key.js';

/** The hash of an HMAC. */
export type MacAlgorithm = 'sha1' | 'sha256' | 'sha384' | 'sha512';

const SIZES: Readonly<Record<MacAlgorithm, number>> = { sha1: 20, sha256: 32, sha384: 48, sha512: 64 };
/** Longest text that is decoded, in characters: a signature in a body can be as long as that. */
const MAX_TEXT = 128;

export interface Mac {
  readonly algorithm: MacAlgorithm;
  readonly encoding: DigestEncoding;
  readonly key: KeyOf;
}

/**
 * The index of the secret that made one of the signatures. Every secret is tried against every signature, found or not, so that the time
 * does not reveal which one verified.
 * @throws SignatureRejection
 */
export function verifyMac(
  mac: Mac,
  content: readonly (string | Buffer)[],
  signatures: readonly string[],
  secrets: readonly string[],
): number {
  const keys = usableKeys(mac.key, secrets);
  const candidates = signatures
    .map((text) => (text.length > MAX_TEXT ? undefined : decodeStrict(text, mac.encoding)))
    .filter((bytes) => bytes?.length === SIZES[mac.algorithm]);
  if (candidates.length === 0)
    throw new SignatureRejection(
      'malformed-signature',
      `no signature is ${mac.encoding} of ${mac.algorithm}`,
    );
  let verified = -1;
  for (const [index, key] of keys) {
    const digest = digestOf(mac.algorithm, key, content);
    for (const candidate of candidates)
      if (candidate !== undefined && equalBytes(candidate, digest) && verified < 0) verified = index;
  }
  if (verified < 0)
    throw new SignatureRejection('wrong-signature', `no secret of ${keys.length} made this signature`);
  return verified;
}

/** HMAC over parts that are joined without a copy. */
export function digestOf(
  algorithm: MacAlgorithm,
  key: Buffer,
  content: readonly (string | Buffer)[],
): Buffer {
  const hmac = createHmac(algorithm, key);
  for (const part of content) hmac.update(part);
  return hmac.digest();
}

/**
 * Index and key of each secret that can be a key.
 * @throws SignatureRejection `unusable-key` when there is none, or too many
 */
export function usableKeys(keyOf: KeyOf, secrets: readonly string[]): [number, Buffer][] {
  refuseTooMany(secrets);
  const keys: [number, Buffer][] = [];
  for (const [index, secret] of secrets.entries()) {
    const key = keyOf(secret);
    if (key !== undefined) keys.push([index, key]);
  }
  if (keys.length === 0) throw new SignatureRejection('unusable-key', 'the source has no usable secret');
  return keys;
}
