import { SignatureRejection } from '../../core/errors.js';
import { decodeSecret, decodeStrict } from './digest-text.js';

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

function nonEmpty(bytes: Buffer | undefined): Buffer | undefined {
  return bytes?.length === 0 ? undefined : bytes;
}
