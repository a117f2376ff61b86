import { createHmac } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import { decodeSecret, decodeStrict, equalBytes, type DigestEncoding } from './digest.js';

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

/** Most secrets of one source that are tried: each costs a pass over the body. */
const MAX_SECRETS = 10;

/** @throws SignatureRejection `unusable-key` */
export function refuseTooMany(secrets: readonly unknown[]): void {
  if (secrets.length > MAX_SECRETS)
    throw new SignatureRejection(
      'unusable-key',
      `${secrets.length} secrets: at most ${MAX_SECRETS} are tried`,
    );
}

/** How the vendor hands its secret out: used as text, or decoded to bytes. */
export type SecretEncoding = 'text' | 'hex' | 'base64';

/** The HMAC key of a secret, or undefined when it cannot be one. An empty key would be computed without complaint. */
export type KeyOf = (secret: string) => Buffer | undefined;

export const textKey: KeyOf = (secret) => (secret === '' ? undefined : Buffer.from(secret, 'utf8'));

/** Hex of either case: vendors print both. */
export const hexKey: KeyOf = (secret) => nonEmpty(decodeStrict(secret.toLowerCase(), 'hex'));

export const base64Key: KeyOf = (secret) => nonEmpty(decodeSecret(secret));

/** `whsec_` + base64 as Standard Webhooks and Svix have it: the key is what it decodes to. The prefix may be left out. */
export const whsecKey: KeyOf = (secret) =>
  base64Key(secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : secret);

export const keyOf: Readonly<Record<SecretEncoding, KeyOf>> = {
  text: textKey,
  hex: hexKey,
  base64: base64Key,
};

function nonEmpty(bytes: Buffer | undefined): Buffer | undefined {
  return bytes?.length === 0 ? undefined : bytes;
}
