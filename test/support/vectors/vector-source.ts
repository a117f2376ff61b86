import { providersByName, type UntypedOptions } from '../../../src/sources/index.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { bodyOf, type Vector } from './vector.js';

/** How a vector's parameters become the options of its provider. */
type Configure = (vector: Vector) => { readonly provider?: string; readonly options?: UntypedOptions };

/** Sample values for options that no verdict depends on. */
const ANY_ID = { path: 'id' };

const CONFIGURE: Readonly<Record<string, Configure>> = {
  adyen: ({ variant }) => ({ options: { webhooks: variant === 'header' ? 'platform' : 'payments' } }),
  asana: ({ variant }) => ({ options: variant === 'challenge' ? { onHandshake: () => true } : {} }),
  'awardee-style': separateHeaders,
  'sesmetric-style': separateHeaders,
  hmac: separateHeaders,
  braintree: (vector) => ({
    options: { secrets: secretsOf(vector).map((secret) => `${String(vector.public_key)}:${secret}`) },
  }),
  convoy: ({ variant, hash, encoding }) => ({
    options: { mode: variant, hash: hash?.toUpperCase(), encoding, dedupe: ANY_ID },
  }),
  discord: ({ public_key }) => ({ options: { secrets: [public_key] } }),
  dropbox: () => ({ options: { dedupe: ANY_ID } }),
  github: ({ legacy }) => ({ options: { legacySha1: legacy } }),
  'gitlab-signing': () => ({ provider: 'gitlab' }),
  hubspot: ({ url }) => ({ options: { publicUrl: originOf(url), versions: ['v1', 'v2', 'v3'] } }),
  meta: (vector) => ({ options: { verifyToken: secretsOf(vector)[0] } }),
  paypal: (vector) => ({
    options: { webhookIds: [vector.webhook_id], secrets: undefined, fetch: serving(vector.cert_pem) },
  }),
  plaid: ({ public_key }) => ({
    options: {
      secrets: ['client-id:api-secret'],
      fetch: serving(JSON.stringify({ key: public_key })),
      dedupe: ANY_ID,
    },
  }),
  qonto: ({ headers }) => ({
    options: { api: Object.keys(headers).some((name) => /^qonto-/i.test(name)) ? 'onboarding' : 'business' },
  }),
  sendgrid: ({ public_key }) => ({ options: { secrets: [public_key] } }),
  sns: (vector) => ({
    options: { topicArns: [topicOf(vector)], secrets: undefined, fetch: serving(vector.cert_pem) },
  }),
  square: ({ url }) => ({ options: { notificationUrl: url } }),
  trello: ({ url }) => ({ options: { callbackUrl: url } }),
  twilio: ({ url }) => ({ options: { publicUrl: originOf(url) } }),
};

/** Signature and timestamp in headers of their own, whatever the vendor calls them. */
function separateHeaders({ headers }: Vector): { provider: string; options: UntypedOptions } {
  const names = Object.keys(headers);
  return {
    provider: 'hmac',
    options: {
      signatureHeader: names.find((name) => /signature$/i.test(name)) ?? 'x-signature',
      timestampHeader: names.find((name) => /timestamp$/i.test(name)) ?? 'x-timestamp',
      idPath: 'id',
      typePath: 'type',
    },
  };
}

/** The source that a vector's request is sent to. */
export function vectorSource(vector: Vector): SourceDefinition {
  const { provider = vector.provider, options = {} } = CONFIGURE[vector.provider]?.(vector) ?? {};
  const factory = providersByName.get(provider);
  if (factory === undefined) throw new Error(`${vector.id}: unknown provider '${vector.provider}'`);
  const all = { secrets: secretsOf(vector), ...options };
  return factory(Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)));
}

/** Scheme and authority of a URL as text: `new URL` would change its case. */
export function originOf(url: string | undefined): string {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(url ?? '')?.[0] ?? 'https://example.com';
}

export function secretsOf({ secret, secrets, public_key }: Vector): readonly string[] {
  if (secrets !== undefined) return secrets;
  if (secret !== undefined) return [secret];
  return typeof public_key === 'string' ? [public_key] : [];
}

/** The topic that the message itself names stands for the one that would be configured. */
function topicOf(vector: Vector): string {
  try {
    const { TopicArn } = JSON.parse(bodyOf(vector).toString()) as { TopicArn?: unknown };
    return typeof TopicArn === 'string' ? TopicArn : '';
  } catch {
    return '';
  }
}

/** A fetch that answers every URL with one text, so that no vector needs the network. */
function serving(text: string | undefined): typeof globalThis.fetch {
  return () => Promise.resolve(new Response(text ?? '', { status: text === undefined ? 404 : 200 }));
}
