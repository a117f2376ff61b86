import { readdirSync, readFileSync } from 'node:fs';
import { BodyReader } from '../../../src/core/body.js';
import { SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { hmac, providersByName, type HmacOptions } from '../../../src/sources/index.js';
import { verifySignature } from '../../support/verify-signature.js';
import { signWebhook, testKeys, type SignedWebhook, type SignOptions } from '../../../src/testing/index.js';
import {
  NOW,
  ORIGIN,
  signedRequest,
  signerOf,
  signers,
  sourceOf,
  toRequest,
  URL_PATH,
  type Signer,
} from '../../support/signers/index.js';

const verify = (signer: Signer, request: WebhookRequest, secrets = [signer.secret], now = NOW) => {
  const { provider } = sourceOf(signer, secrets);
  return verifySignature(provider, request, secrets, provider.toleranceMs, now * 1000);
};
const reasonOf = (outcome: Promise<unknown>) =>
  outcome.then(
    () => 'accepted',
    (error: unknown) => (error instanceof SignatureRejection ? error.reason : error),
  );
const identify = (signer: Signer, request: WebhookRequest) =>
  sourceOf(signer).provider.identify(request, new BodyReader(request.rawBody));

/** A vendor's own list of event types: a folder of its package, the files there, and how a type is written in them. */
interface OwnList {
  readonly folder: string;
  readonly file: RegExp;
  readonly type?: RegExp;
  /** What is written so and is no event type. */
  readonly not?: RegExp;
}
const OWN_LISTS: Readonly<Record<string, OwnList>> = {
  adyen: {
    folder: '@adyen/api-library/lib/src/typings/notification',
    file: /^notificationRequestItem\.d\.ts$/,
    type: /= "([A-Z_]+)"/g,
    not: /^CANCEL$/,
  },
  clerk: { folder: '@clerk/backend/dist/api/resources', file: /^Webhooks\.d\.ts$/ },
  github: {
    folder: '@octokit/webhooks-types',
    file: /^schema\.d\.ts$/,
    type: /^  ([a-z0-9_]+): \w+Event;/gm,
  },
  mux: { folder: '@mux/mux-node/resources/webhooks', file: /^webhooks\.d\.ts$/, not: /\.(mp4|m4a)$/ },
  openai: { folder: 'openai/resources/webhooks', file: /^webhooks\.d\.ts$/ },
  paddle: { folder: '@paddle/paddle-node-sdk/dist/types/notifications/helpers', file: /^types\.d\.ts$/ },
  polar: { folder: '@polar-sh/sdk/dist/esm/models/components', file: /^webhookeventtype\.d\.ts$/ },
  square: {
    folder: 'square/api/types',
    file: /Event\.d\.ts$/,
    type: /[`"]([a-z_]+(?:\.[a-z_]+)+)[`"]/g,
    not: /\.status$/,
  },
  stripe: { folder: 'stripe/esm/resources', file: /^WebhookEndpoints\.d\.ts$/ },
  workos: { folder: '@workos-inc/node/lib', file: /\.d\.mts$/, type: /event: ['"](\w+(?:\.\w+)+)['"]/g },
};
const DOTTED = /['"]([a-zA-Z_0-9]+(?:\.[a-zA-Z_0-9]+)+)['"]/g;

it.each(Object.keys(OWN_LISTS))('knows each event type that the package of %s lists', (name) => {
  const { folder, file, type = DOTTED, not = /^$/ } = OWN_LISTS[name]!;
  const files = readdirSync(`node_modules/${folder}`).filter((one) => file.test(one));
  const types = files.flatMap((one) => {
    const text = readFileSync(`node_modules/${folder}/${one}`, 'utf8');
    return [...text.matchAll(type)].map(([, found]) => found!);
  });
  const { provider } = sourceOf(signerOf(name));
  expect(types.length).toBeGreaterThan(10);
  expect(types.filter((one) => !not.test(one) && provider.types?.includes(one) !== true)).toEqual([]);
});

it('every provider of the catalogue has a signer', () => {
  expect([...providersByName.keys()].toSorted()).toEqual(signers.map(({ provider }) => provider).toSorted());
});

/** Types that no vendor's sample has. */
const OTHER_TYPES: Readonly<Record<string, string>> = {
  braintree: 'order_changed',
  'x-twitter': 'follow_events',
  twilio: 'message.delivered',
};

/** A request of `signWebhook`, as the source receives it. */
const received = ({ headers, body }: SignedWebhook): WebhookRequest => toRequest({ headers }, body);

describe.each(signers)('signWebhook($provider)', (signer) => {
  const keys = testKeys(signer.provider);
  const { provider } = sourceOf(signer, [keys.secret], keys.fetch && { fetch: keys.fetch });
  const own: SignOptions = { keys, url: ORIGIN + URL_PATH, options: signer.options };
  const accepted = async (signed: SignedWebhook, now = Date.now()) =>
    (await verifySignature(provider, received(signed), [keys.secret], provider.toleranceMs, now)).inWindow;

  it('is accepted by the source that has the keys, with the sample and with a body of the test', async () => {
    const sample = signWebhook(signer.provider, own);
    expect(await accepted(sample)).toBe(true);
    expect(await accepted(signWebhook(signer.provider, { ...own, body: sampleBodyOf(signer) }))).toBe(true);
  });

  it('signs the time of the test where it signs one', async () => {
    const at = new Date(NOW * 1000);
    const signed = signWebhook(signer.provider, { ...own, at });
    expect(signed.signsTime).toBe(provider.signed.time);
    expect(await accepted(signed, at.getTime())).toBe(true);
    if (provider.toleranceMs !== undefined) expect(await accepted(signed)).toBe(false);
  });

  it('carries the type that is asked for', () => {
    const typeOf = (type?: string) => {
      const request = received(
        signWebhook(signer.provider, { ...own, ...(type === undefined ? {} : { type }) }),
      );
      return provider.identify(request, new BodyReader(request.rawBody))[0]?.type;
    };
    expect(typeOf()).toBe(signWebhook(signer.provider, own).type);
    if (['dropbox', 'sns'].includes(signer.provider))
      expect(() => typeOf('order.changed')).toThrow('has no types');
    else {
      const other = OTHER_TYPES[signer.provider] ?? 'order.changed';
      expect(typeOf(other)).toBe(other);
    }
  });
});

/** A body as a test writes it: an object, or text where the vendor sends no JSON. */
function sampleBodyOf(signer: Signer): object | string {
  const text = signer.body('evt_own');
  return text.startsWith('{') ? (JSON.parse(text) as object) : text;
}

describe('signWebhook', () => {
  it.each<[string, Omit<HmacOptions, 'secrets' | 'signatureHeader'>]>([
    ['pairs', { idPath: 'id', pairs: { signature: 'v1', timestamp: 't', separator: ';' } }],
    [
      'a prefix, in base64url, of SHA-512',
      { idPath: 'a.id', prefix: 'v0=', encoding: 'base64url', algorithm: 'sha512' },
    ],
    ['milliseconds', { idPath: 'id', timestampHeader: 'x-time', timestampUnit: 'milliseconds' }],
    ['text of dates', { idPath: 'id', timestampHeader: 'x-time', timestampUnit: 'iso8601' }],
    [
      'a template with id, method, URL and a header',
      {
        idHeader: 'x-id',
        typeHeader: 'x-type',
        signedPayload: '${id}|${method}|${url}|${header:x-shop}|${header:x-type}|${body}',
      },
    ],
    [
      'a key in hex, of a batch',
      { idPath: 'id', typePath: 'kind', eventsPath: 'data.events', secretEncoding: 'hex' },
    ],
    ['a key in base64, of a batch at the root', { idPath: 'id', eventsPath: '', secretEncoding: 'base64' }],
  ])('signs for hmac() with %s', async (_, own) => {
    const options = { ...own, signatureHeader: 'x-signature' };
    const secret = 'abcdef0123456789abcdef0123456789';
    const { provider } = hmac({ ...options, secrets: [secret] });
    const headers = { 'x-shop': 'a' };
    const url = ORIGIN + URL_PATH;
    const signed = signWebhook('hmac', { secret, options, id: 'evt_7', type: 'order.made', headers, url });
    await expect(
      verifySignature(provider, received(signed), [secret], provider.toleranceMs, Date.now()),
    ).resolves.toMatchObject({ inWindow: true });
    const [event] = provider.identify(received(signed), new BodyReader(signed.body));
    expect(event?.id).toBe('evt_7');
    if (own.typePath !== undefined || own.typeHeader !== undefined) expect(event?.type).toBe('order.made');
  });

  it('sends a header of the test in place of the vendor’s', () => {
    const { headers } = signWebhook('shopify', { headers: { 'x-shopify-shop-domain': 'b.myshopify.com' } });
    const shops = Object.entries(headers).filter(([name]) => name.toLowerCase() === 'x-shopify-shop-domain');
    expect(shops).toEqual([['x-shopify-shop-domain', 'b.myshopify.com']]);
  });

  it.each([
    ['stripes', {}, "No provider 'stripes'; did you mean 'stripe'?"],
    ['discord', {}, "signWebhook('discord').keys: the provider signs with a private key"],
    ['square', {}, "signWebhook('square').url: the provider signs the public URL"],
    ['stripe', { secrets: ['a'] }, "unknown option 'secrets'; did you mean 'secret'?"],
    ['stripe', { at: '2026' }, "signWebhook('stripe').at: expected a Date"],
    ['stripe', { body: 7 }, "signWebhook('stripe').body: expected an object, text or a Buffer, received 7"],
  ])('for %s with %j says what is expected', (provider, options, message) => {
    expect(() => signWebhook(provider, options as never)).toThrow(message);
  });
});

describe.each(signers)('$provider', (signer) => {
  const { provider } = sourceOf(signer);

  it('accepts what the vendor signed', async () => {
    await expect(verify(signer, signedRequest(signer))).resolves.toMatchObject({ secret: 0, inWindow: true });
  });

  it('finds one event, with the same id on every attempt', () => {
    const first = identify(signer, signedRequest(signer, 'evt_1', NOW));
    const again = identify(signer, signedRequest(signer, 'evt_1', NOW + 60));
    expect(first).toHaveLength(1);
    expect(first[0]?.type).not.toBe('');
    expect(again[0]?.id).toBe(first[0]?.id);
  });

  it('R01: another event has another id', () => {
    const ids = ['evt_1', 'evt_2', 'evt_3'].map((id) => identify(signer, signedRequest(signer, id))[0]?.id);
    expect(new Set(ids).size).toBe(3);
  });

  it('tells which of several secrets verified', async () => {
    const secrets = [signer.otherSecret, signer.secret];
    // Any credentials of Plaid fetch the same key.
    const expected = signer.provider === 'plaid' ? 0 : 1;
    await expect(verify(signer, signedRequest(signer), secrets)).resolves.toMatchObject({ secret: expected });
  });

  it('refuses what another key than the vendor’s has signed', async () => {
    if (signer.otherKey === undefined) return;
    const stranger = sourceOf(signer, [signer.secret], signer.otherKey).provider;
    const outcome = Promise.resolve(stranger.verify(signedRequest(signer), [signer.secret]));
    expect(await reasonOf(outcome)).toBe('wrong-signature');
  });

  it('refuses another secret', async () => {
    // Plaid's secret fetches its key, and any that does so will do.
    if (signer.provider === 'plaid') return;
    expect(await reasonOf(verify(signer, signedRequest(signer), [signer.otherSecret]))).toBe(
      'wrong-signature',
    );
  });

  it('refuses without a usable secret', async () => {
    for (const secrets of [[], ['']]) {
      expect(await reasonOf(verify(signer, signedRequest(signer), secrets))).not.toBe('accepted');
    }
  });

  it('refuses a request without its signature', async () => {
    const bare = { ...signedRequest(signer), headers: RequestHeaders.from({}), rawBody: Buffer.from('{}') };
    expect(await reasonOf(verify(signer, bare))).toMatch(/missing|malformed|wrong/);
  });

  it('case 4: refuses a body that was parsed and written again, or changed by one byte', async () => {
    if (!signer.signsBody) return;
    const request = signedRequest(signer);
    for (const rawBody of [Buffer.concat([request.rawBody, Buffer.from(' ')]), flip(request.rawBody)]) {
      expect(await reasonOf(verify(signer, { ...request, rawBody }))).not.toBe('accepted');
    }
  });

  it('case 21: takes a signed time as seriously in the future as in the past', async () => {
    if (!signer.signsTime || provider.toleranceMs === undefined) return;
    const request = signedRequest(signer);
    const window = Math.floor(provider.toleranceMs / 1000);
    for (const [now, inWindow] of [
      [NOW - window, true],
      [NOW + window, true],
      [NOW - window - 2, false],
      [NOW + window + 2, false],
      [NOW - 315_360_000, false],
    ] as const) {
      // A token that expires is over before the window is.
      if (signer.provider === 'monday' && now > NOW) continue;
      await expect(verify(signer, request, [signer.secret], now)).resolves.toMatchObject({ inWindow });
    }
  });

  it('accepts its own secret at boot, and refuses blanks and placeholders', () => {
    expect(provider.checkSecret?.(signer.secret)).toBeUndefined();
    // White space around a public key in base64 does no harm.
    const copied = signer.provider === 'sendgrid' ? [] : [`${signer.secret}\n`];
    for (const secret of ['', '  ', '\n', 'changeme', '<your secret>', 'xxxxxxxx', ...copied]) {
      expect(provider.checkSecret?.(secret)).toEqual(expect.any(String));
    }
  });

  it('says where its facts are from, and in which unit it writes the time it signs', () => {
    expect(provider.timeUnit !== undefined).toBe(provider.signed.time);
    expect(provider.scheme).not.toBe('');
    if (signer.provider !== 'hmac' && signer.provider !== 'convoy')
      expect(provider.docs).toMatch(/^https:\/\//);
  });
});

function flip(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[copy.length >> 1]! ^= 1;
  return copy;
}
