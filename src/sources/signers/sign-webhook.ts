import { randomUUID } from 'node:crypto';
import { types } from 'node:util';
import { z } from 'zod';
import { InputRefused } from '../../core/errors.js';
import { didYouMean } from '../../core/options/did-you-mean.js';
import { checkInput } from '../../core/options/schema.js';
import { bodySigners } from './body-signers.js';
import { keySigners } from './key-signers.js';
import { schemeSigners } from './scheme-signers.js';
import type { TestKeys, VendorRequest, VendorSigner } from './signer.js';
import { standardSigners } from './standard-signers.js';
import { timedSigners } from './timed-signers.js';
import { tokenSigners } from './token-signers.js';
import { urlSigners } from './url-signers.js';

/** How a request is signed. Each option has a default, so that `signWebhook('github')` is a request too. */
export interface SignOptions {
  /** One of the source's `secrets`. @default the `secret` of `testKeys(provider)`, for a provider without a key pair */
  readonly secret?: string;
  /** From `testKeys(provider)`. Needed for a provider that signs with a private key. @default none */
  readonly keys?: TestKeys;
  /** The event's id, in the header or the sample body where the provider writes it. @default a new one */
  readonly id?: string;
  /** The event's type, in the header or the sample body where the provider writes it. @default a common one of the provider */
  readonly type?: string;
  /** An object is written as JSON, or as a form where the provider sends forms. Text and bytes are sent as they are. @default a sample with `id` and `type` */
  readonly body?: object | string | Buffer;
  /** The time that is signed, where the scheme signs one. @default now */
  readonly at?: Date;
  /** The public URL of the source. Needed where the scheme signs it (Square, Trello, HubSpot, Twilio, Contentful). @default none */
  readonly url?: string;
  /** Further headers, or other values of the provider's. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** The options of the source, for `hmac` and `convoy`, whose scheme depends on them. @default {} */
  readonly options?: Readonly<Record<string, unknown>>;
}

/** A signed request. Send `body` as it is: another byte is another signature. */
export interface SignedWebhook {
  readonly method: 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** The event's id and type, as given or by default. A provider's own body may say otherwise. */
  readonly id: string;
  readonly type: string;
  /** Whether the signature covers a time, and the body. */
  readonly signsTime: boolean;
  readonly signsBody: boolean;
}

/** Every provider of the catalogue, as its vendor signs. */
export const vendorSigners: ReadonlyMap<string, VendorSigner> = new Map(
  [
    ...bodySigners,
    ...timedSigners,
    ...standardSigners,
    ...urlSigners,
    ...tokenSigners,
    ...keySigners,
    ...schemeSigners,
  ].map((signer) => [signer.provider, signer]),
);

const optionsSchema = z.strictObject({
  secret: z.string({ error: 'expected one of the secrets of the source, as text' }).optional(),
  keys: z.object({ secret: z.string() }, { error: 'expected the keys of testKeys()' }).optional(),
  id: z.string().optional(),
  type: z.string().optional(),
  body: z
    .custom((value) => typeof value === 'string' || (typeof value === 'object' && value !== null), {
      error: 'expected an object, text or a Buffer',
    })
    .optional(),
  at: z
    .custom<Date>((value) => types.isDate(value) && !Number.isNaN(value.getTime()), {
      error: "expected a Date, such as new Date('2026-11-30T12:00:00Z')",
    })
    .optional(),
  url: z.url({ error: 'expected the public URL of the source' }).optional(),
  headers: z.record(z.string(), z.string(), { error: 'expected an object of texts' }).optional(),
  options: z.record(z.string(), z.unknown()).optional(),
});

/**
 * Signs a request as the provider does. It shares no code with the verification.
 * @param provider its name in `providersByName`, such as 'stripe'
 * @throws InputRefused for an unknown provider or option, and for a key or a URL that the scheme needs
 */
export function signWebhook(provider: string, options: SignOptions = {}): SignedWebhook {
  const signer = vendorSigner(provider);
  checkInput(optionsSchema, options, `signWebhook('${provider}')`);
  if (options.type !== undefined && signer.takesType === false)
    throw new InputRefused(`signWebhook('${provider}').type: the provider has no types, leave it out`);
  if (options.url === undefined && signer.signsUrl === true)
    throw new InputRefused(
      `signWebhook('${provider}').url: the provider signs the public URL of the source, give it`,
    );
  const { id = `evt_${randomUUID()}`, type = signer.type, at = new Date(), url = '', headers = {} } = options;
  const event = { id, type, options: options.options ?? {} };
  const body = bytesOf(signer, options.body ?? signer.body(event));
  const keys = signingKeys(signer, options);
  const signed = signer.sign(body, { ...event, keys, url, headers, at: Math.floor(at.getTime() / 1000) });
  const { signsTime, signsBody = true } = signer;
  return {
    method: 'POST',
    headers: merged(signed, headers),
    body: signed.body ?? body,
    id,
    type,
    signsTime,
    signsBody,
  };
}

/**
 * Key material for tests: a secret in the provider's form, or a new key pair. Configure the source with `secret`, and with `fetch`
 * where there is one. Give the keys to `signWebhook`.
 * @throws InputRefused for an unknown provider
 */
export function testKeys(provider: string): TestKeys {
  const signer = vendorSigner(provider);
  return signer.makeKeys?.() ?? { secret: signer.secret! };
}

/** @throws InputRefused */
function vendorSigner(provider: string): VendorSigner {
  const signer = vendorSigners.get(provider);
  if (signer !== undefined) return signer;
  throw new InputRefused(`No provider '${provider}'${didYouMean(provider, [...vendorSigners.keys()])}`);
}

function signingKeys(signer: VendorSigner, { secret, keys }: SignOptions): TestKeys {
  const all = { ...(keys ?? { secret: signer.secret ?? '' }), ...(secret === undefined ? {} : { secret }) };
  if (signer.makeKeys === undefined || all.privateKey !== undefined) return all;
  throw new InputRefused(
    `signWebhook('${signer.provider}').keys: the provider signs with a private key. ` +
      `Make one with testKeys('${signer.provider}'), and configure the source with its secret`,
  );
}

function bytesOf(signer: VendorSigner, body: object | string): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : (signer.encode?.(body) ?? JSON.stringify(body)));
}

/** Header names differ in case only by habit: the caller's value replaces the provider's. */
function merged({ headers }: VendorRequest, own: Readonly<Record<string, string>>): Record<string, string> {
  const given = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const kept = Object.entries({ 'content-type': 'application/json', ...headers }).filter(
    ([name]) => !given.has(name.toLowerCase()),
  );
  return { ...Object.fromEntries(kept), ...own };
}
