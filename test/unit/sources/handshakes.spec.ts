import { createHmac } from 'node:crypto';
import type { Answer } from '../../../src/core/answer.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import {
  asana,
  braintree,
  discord,
  dropbox,
  intercom,
  line,
  meta,
  monday,
  okta,
  slack,
  sns,
  trello,
  twitch,
  wooCommerce,
  xero,
  xTwitter,
  zoom,
} from '../../../src/sources/index.js';
import { signedRequest, signerOf, sourceOf } from '../../support/signers/index.js';

const secrets = ['a-signing-secret'];

interface Challenge {
  readonly method?: string;
  readonly url?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

function requestOf({ method = 'GET', url = '/hooks', headers = {}, body = '' }: Challenge): WebhookRequest {
  return { method, url, headers: RequestHeaders.from(headers), rawBody: Buffer.from(body) };
}

function answer(
  { provider, secrets }: SourceDefinition,
  challenge: Challenge,
  verified = false,
): Answer | undefined {
  const request = requestOf(challenge);
  if (!provider.handshake?.methods.includes(request.method)) return undefined;
  return provider.handshake.answer(request, secrets as string[], verified);
}

const text = (body: string) => ({
  status: 200,
  body,
  headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
});

describe('challenges in the query', () => {
  it('Meta: the challenge as text, for the right verify token only', () => {
    const source = meta({ secrets, verifyToken: 'my-verify-token' });
    const url = (token: string, mode = 'subscribe') =>
      `/hooks?hub.mode=${mode}&hub.challenge=1158201444&hub.verify_token=${token}`;
    expect(answer(source, { url: url('my-verify-token') })).toEqual(text('1158201444'));
    for (const wrong of [
      url('wrong'),
      url(''),
      url('my-verify-token', 'other'),
      '/hooks',
      `${url('my-verify-token')}&hub.verify_token=x`,
    ])
      expect(answer(source, { url: wrong })).toBeUndefined();
    expect(meta({ secrets }).provider.handshake).toBeUndefined();
  });

  it('Dropbox: the challenge as text', () => {
    const source = dropbox({ secrets, dedupe: { path: 'cursor' } });
    expect(answer(source, { url: '/hooks?challenge=abc%20d' })).toEqual(text('abc d'));
    for (const url of [
      '/hooks',
      '/hooks?challenge=',
      '/hooks?challenge=a&challenge=b',
      '/hooks?challenge=%0d%0aSet-Cookie:x',
      `/hooks?challenge=${'a'.repeat(1025)}`,
      '/hooks?challenge=%F0%9F%98%80',
    ])
      expect(answer(source, { url })).toBeUndefined();
  });

  it('Braintree: public key and HMAC, for challenges of its own form only', () => {
    const source = braintree({ secrets: ['integration_public_key:integration_private_key'] });
    const expected = 'integration_public_key|d9b899556c966b3f06945ec21311865d35df3ce4';
    expect(answer(source, { url: '/hooks?bt_challenge=20f9f8ed05f77439fe955c977e4c8a53' })).toEqual(
      text(expected),
    );
    expect(answer(source, { url: '/hooks?bt_challenge=bad%20challenge' })).toBeUndefined();
  });

  it('X: the HMAC of the token, but of nothing that could be an event', () => {
    const source = xTwitter({ secrets });
    const hmac = (token: string) => createHmac('sha256', secrets[0]!).update(token).digest('base64');
    expect(answer(source, { url: '/hooks?crc_token=uzwcfYtzr9' })).toEqual({
      status: 200,
      body: { response_token: `sha256=${hmac('uzwcfYtzr9')}` },
    });
    for (const forged of ['{"for_user_id":"1"}', '[1]', '"x"', 'a b', 'a\n', ''])
      expect(answer(source, { url: `/hooks?crc_token=${encodeURIComponent(forged)}` })).toBeUndefined();
  });
});

describe('challenges in headers and by HEAD', () => {
  it('Okta: the header’s value as JSON', () => {
    const source = okta({ secrets });
    expect(answer(source, { headers: { 'x-okta-verification-challenge': 'abc' } })).toEqual({
      status: 200,
      body: { verification: 'abc' },
    });
    expect(answer(source, {})).toBeUndefined();
  });

  it('Trello and Intercom: HEAD gets 200', () => {
    for (const source of [
      trello({ secrets, callbackUrl: 'https://hooks.example.com/t' }),
      intercom({ secrets }),
    ]) {
      expect(answer(source, { method: 'HEAD' })).toEqual({ status: 200, body: '' });
      expect(answer(source, { method: 'GET' })).toBeUndefined();
    }
  });
});

describe('challenges that the vendor signs are answered to nobody else', () => {
  it.each([
    ['Slack', slack({ secrets }), '{"type":"url_verification","challenge":"c1"}', text('c1')],
    ['Twitch', twitch({ secrets }), '{"challenge":"c1","subscription":{}}', text('c1')],
    ['Discord interactions', discord({ secrets }), '{"type":1}', { status: 200, body: { type: 1 } }],
    ['Discord webhook events', discord({ secrets }), '{"type":0}', { status: 204, body: '' }],
    [
      'Zoom',
      zoom({ secrets }),
      '{"event":"endpoint.url_validation","payload":{"plainToken":"p1"}}',
      {
        status: 200,
        body: {
          plainToken: 'p1',
          encryptedToken: createHmac('sha256', 'a-signing-secret').update('p1').digest('hex'),
        },
      },
    ],
  ])('%s', (_vendor, source, body, expected) => {
    expect(answer(source, { method: 'POST', body }, true)).toEqual(expected);
    expect(answer(source, { method: 'POST', body }, false)).toBeUndefined();
  });

  it('ordinary events are no challenges', () => {
    for (const source of [
      slack({ secrets }),
      twitch({ secrets }),
      discord({ secrets }),
      zoom({ secrets }),
      monday({ secrets }),
    ]) {
      for (const body of [
        '{"type":"event_callback","event_id":"e"}',
        '{"type":1,"event":{"type":"x"}}',
        '{"challenge":7}',
        'null',
        '[]',
        'junk',
        '',
      ])
        expect(answer(source, { method: 'POST', body }, true)).toBeUndefined();
    }
  });
});

describe('challenges that the vendor does not sign', () => {
  it('monday.com: the same JSON, and nothing that holds more', () => {
    const source = monday({ secrets });
    expect(answer(source, { method: 'POST', body: '{"challenge":"c1"}' })).toEqual({
      status: 200,
      body: { challenge: 'c1' },
    });
    expect(answer(source, { method: 'POST', body: '{"challenge":"c1","event":{}}' })).toBeUndefined();
  });

  it('WooCommerce: the ping on creation', () => {
    const source = wooCommerce({ secrets });
    expect(answer(source, { method: 'POST', body: 'webhook_id=12' })).toEqual({ status: 200, body: '' });
    for (const challenge of [
      { body: 'webhook_id=12&x=1' },
      { body: '{}' },
      { body: 'webhook_id=12', headers: { 'X-WC-Webhook-Signature': 'x' } },
    ])
      expect(answer(source, { method: 'POST', ...challenge })).toBeUndefined();
  });

  it('Asana: the secret is offered to the application, and confirmed where it agrees', async () => {
    const offered: string[] = [];
    const source = asana({
      secrets,
      onHandshake: (secret) => {
        offered.push(secret);
        return secret === 'expected-secret';
      },
    });
    const perform = (headers: Record<string, string>) =>
      source.provider.handshake?.perform?.(requestOf({ method: 'POST', headers }), secrets, false);
    await expect(perform({ 'X-Hook-Secret': 'expected-secret' })).resolves.toEqual({
      status: 200,
      body: '',
      headers: { 'X-Hook-Secret': 'expected-secret' },
    });
    await expect(perform({ 'X-Hook-Secret': 'unexpected-secret' })).resolves.toBeUndefined();
    await expect(perform({})).resolves.toBeUndefined();
    expect(offered).toEqual(['expected-secret', 'unexpected-secret']);
    expect(asana({ secrets }).provider.handshake).toBeUndefined();
  });
});

describe('Amazon SNS', () => {
  const confirmation = (SubscribeURL: string) =>
    JSON.stringify({ Type: 'SubscriptionConfirmation', SubscribeURL });
  const topicArns = ['arn:aws:sns:eu-west-1:123456789012:orders'];

  function visiting(status = 200) {
    const visited: string[] = [];
    const fetch: typeof globalThis.fetch = (url) => {
      visited.push(typeof url === 'string' ? url : '');
      return Promise.resolve(new Response('', { status }));
    };
    const source = sns({ topicArns, fetch });
    const perform = (body: string, verified: boolean) =>
      source.provider.handshake?.perform?.(requestOf({ method: 'POST', body }), topicArns, verified);
    return { visited, perform };
  }

  it('visits the SubscribeURL of a verified confirmation', async () => {
    const { visited, perform } = visiting();
    const url = 'https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t';
    await expect(perform(confirmation(url), true)).resolves.toEqual({ status: 200, body: '' });
    expect(visited).toEqual([url]);
  });

  it('visits nothing that is not verified, or not SNS', async () => {
    const { visited, perform } = visiting();
    const own = 'https://sns.eu-west-1.amazonaws.com/?x=1';
    await expect(perform(confirmation(own), false)).resolves.toBeUndefined();
    for (const url of [
      'http://sns.eu-west-1.amazonaws.com/',
      'https://sns.eu-west-1.amazonaws.com.evil.com/',
      'https://x@sns.eu-west-1.amazonaws.com/',
      'https://sns.eu-west-1.amazonaws.com:8443/',
      'https://bucket.s3.amazonaws.com/',
      'http://169.254.169.254/',
      'junk',
    ])
      await expect(perform(confirmation(url), true)).resolves.toBeUndefined();
    await expect(perform('{"Type":"Notification"}', true)).resolves.toBeUndefined();
    expect(visited).toEqual([]);
  });

  it('has a failed visit tried again', async () => {
    const { perform } = visiting(500);
    const url = 'https://sns.eu-west-1.amazonaws.com/?x=1';
    await expect(perform(confirmation(url), true)).rejects.toMatchObject({ reason: 'key-unavailable' });
  });

  it('can be told not to', () =>
    expect(sns({ topicArns, confirmSubscriptions: false }).provider.handshake).toBeUndefined());
});

it('Xero’s intent to receive: empty bodies for right and wrong signatures', async () => {
  const { provider } = xero({ secrets });
  expect(provider.ack).toEqual({ status: 200, body: '' });
  expect(provider.refusal).toEqual({ status: 401, body: '' });
  const signer = signerOf('xero');
  const request = signedRequest(signer, 'r', undefined, '{"events":[],"entropy":"x"}');
  await expect(
    Promise.resolve(sourceOf(signer).provider.verify(request, [signer.secret])),
  ).resolves.toMatchObject({ secret: 0 });
});

it('LINE’s verification is a signed body without events', () => {
  expect(line({ secrets }).provider.handshake).toBeUndefined();
});
