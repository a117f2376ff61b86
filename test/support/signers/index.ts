import { generateKeyPairSync } from 'node:crypto';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { providersByName } from '../../../src/sources/index.js';
import { vendorSigners } from '../../../src/sources/signers/sign-webhook.js';
import { p256 } from '../../../src/sources/signers/key-signers.js';
import { SAMPLE_SECONDS, type KeyPair, type VendorSigner } from '../../../src/sources/signers/signer.js';

/** A request as a vendor would send it. */
export interface SignedRequest {
  readonly method?: string;
  /** Path and query. @default '/hooks' */
  readonly url?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** @default the body that was to be signed */
  readonly body?: Buffer;
}

/** A vendor's side of a scheme, with the secrets of these tests. */
export interface Signer {
  /** Name in `providersByName`. */
  readonly provider: string;
  /** The source is configured with it. */
  readonly secret: string;
  /** Another secret of the same form. */
  readonly otherSecret: string;
  /** Options under which the vendor publishes another key, where no secret tells a forger from the vendor. */
  readonly otherKey?: Readonly<Record<string, unknown>>;
  /** Further options of the source. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** A body of the vendor with one event of that id. */
  body(id: string): string;
  /** Signs with `secret`, at a time in Unix seconds. */
  sign(body: Buffer, at: number, id: string): SignedRequest;
  /** Whether the signature covers the body. */
  readonly signsBody: boolean;
  /** Whether a time is signed. */
  readonly signsTime: boolean;
}

export const ORIGIN = 'https://hooks.example.com';
export const URL_PATH = '/hooks';

/** A time for signatures: 2026-01-01T00:00:00Z, in Unix seconds. */
export const NOW = SAMPLE_SECONDS;

/** Options that name what others call a secret. */
const SECRETS_OPTION: Readonly<Record<string, string>> = { sns: 'topicArns', paypal: 'webhookIds' };

const PUBLIC_URL = { publicUrl: ORIGIN };
const OPTIONS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  dropbox: { dedupe: { path: 'cursor' } },
  convoy: { idPath: 'id', typePath: 'type' },
  hmac: {
    signatureHeader: 'X-SESMetric-Signature',
    timestampHeader: 'X-SESMetric-Timestamp',
    idPath: 'id',
    typePath: 'type',
  },
  square: { notificationUrl: ORIGIN + URL_PATH },
  trello: { callbackUrl: ORIGIN + URL_PATH },
  hubspot: PUBLIC_URL,
  twilio: PUBLIC_URL,
  plaid: { dedupe: { path: 'item_id' } },
};

const OTHER_WHSEC = `whsec_${Buffer.from('fedcba9876543210fedcba9876543210').toString('base64')}`;
const WITH_WHSEC = ['standard-webhooks', 'svix', 'clerk', 'resend', 'openai', 'replicate', 'gitlab'];
const OTHER_SECRETS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(WITH_WHSEC.map((name) => [name, OTHER_WHSEC])),
  telegram: 'another_secret_token',
  postmark: 'user:other',
  adyen: 'DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00',
  braintree: 'public_key:another_private_key',
  contentful: 'e'.repeat(63) + 'd',
  plaid: 'client-id:other-secret',
  sns: 'arn:aws:sns:eu-west-1:123456789012:others',
  paypal: '5KH86294D6297924G',
};

/** Short keys for SNS and PayPal, which share them: a pair of 2,048 bits costs each spec that imports this file a quarter of a second. */
const rsa = (): KeyPair => generateKeyPairSync('rsa', { modulusLength: 1024 });
const [own, other] = [rsa(), rsa()];
const [plaidPair, otherPlaidPair] = [p256(), p256()];
const PAIRS = new Map([
  ['sns', [own, other] as const],
  ['paypal', [own, other] as const],
  ['plaid', [plaidPair, otherPlaidPair] as const],
]);

function testSigner(vendor: VendorSigner): Signer {
  const { provider } = vendor;
  const [pair, otherPair] = PAIRS.get(provider) ?? [];
  const keys = vendor.makeKeys?.(pair) ?? { secret: vendor.secret! };
  const others = vendor.makeKeys?.(otherPair);
  const options = OPTIONS[provider] ?? {};
  const { type } = vendor;
  return {
    provider,
    secret: keys.secret,
    otherSecret: OTHER_SECRETS[provider] ?? others?.secret ?? 'another-signing-key-0123456789',
    otherKey: others?.fetch && { fetch: others.fetch },
    options: keys.fetch === undefined ? options : { ...options, fetch: keys.fetch },
    body: (id) => vendor.body({ id, type, options }),
    sign: (body, at, id) =>
      vendor.sign(body, { id, type, at, keys, options, headers: {}, url: ORIGIN + URL_PATH }),
    signsBody: vendor.signsBody ?? true,
    signsTime: vendor.signsTime,
  };
}

/** The vendor's side of every provider of the catalogue. */
export const signers: readonly Signer[] = [...vendorSigners.values()].map(testSigner);

export function signerOf(provider: string): Signer {
  const found = signers.find((signer) => signer.provider === provider);
  if (found === undefined) throw new Error(`no signer for '${provider}'`);
  return found;
}

/** What a vendor publishes, for the fake hosts that serve it. */
export const servedCertificate = servedBy('sns', own);
export const servedPlaidKey = servedBy('plaid', plaidPair);
/** The key behind `servedCertificate`. */
export const snsPrivateKey = own.privateKey;

function servedBy(provider: string, pair: KeyPair): string {
  return vendorSigners.get(provider)!.makeKeys!(pair).published!;
}

/** The source of a signer, configured with these secrets. */
export function sourceOf(
  signer: Signer,
  secrets: readonly string[] = [signer.secret],
  options: Readonly<Record<string, unknown>> = {},
): SourceDefinition {
  const factory = providersByName.get(signer.provider);
  if (factory === undefined) throw new Error(`no provider '${signer.provider}'`);
  return factory({ ...signer.options, ...options, [SECRETS_OPTION[signer.provider] ?? 'secrets']: secrets });
}

/** A request of the vendor with one event of that id, signed at a time in Unix seconds. */
export function signedRequest(
  signer: Signer,
  id = 'evt_1',
  at = NOW,
  body = signer.body(id),
): WebhookRequest {
  return toRequest(signer.sign(Buffer.from(body), at, id), Buffer.from(body));
}

export function toRequest(signed: SignedRequest, body: Buffer): WebhookRequest {
  return {
    method: signed.method ?? 'POST',
    url: signed.url ?? URL_PATH,
    headers: RequestHeaders.from(signed.headers),
    rawBody: signed.body ?? body,
  };
}
