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

function nonEmpty(bytes: Buffer | undefined): Buffer | undefined {
  return bytes?.length === 0 ? undefined : bytes;
}
