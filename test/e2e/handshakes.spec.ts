import { createHash, createHmac, sign } from 'node:crypto';
import { providersByName, zoom, type UntypedOptions } from '../../src/sources/index.js';
import { ADAPTERS } from '../support/application.js';
import type { RawReply } from '../support/http.js';
import { Receiver } from '../support/receiver.js';
import {
  servedCertificate,
  snsPrivateKey,
  signerOf,
  sourceOf,
  type SignedRequest,
} from '../support/signers/index.js';

/** What the answer must be; headers beside these are free. */
type Expected = Pick<RawReply, 'status' | 'text'> & { readonly headers?: Readonly<Record<string, string>> };

interface Exchange {
  readonly provider: string;
  readonly title: string;
  readonly request: () => SignedRequest;
  readonly answer: Expected;
}

const now = () => Math.floor(Date.now() / 1000);

const REFUSED: Expected = { status: 401, text: '{"status":"unauthorized"}' };
const EMPTY: Expected = { status: 200, text: '' };
const text = (body: string): Expected => ({
  status: 200,
  text: body,
  headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
});
const json = (body: object): Expected => ({
  status: 200,
  text: JSON.stringify(body),
  headers: { 'content-type': 'application/json; charset=utf-8' },
});

const get = (query = '', headers = {}) => ({ method: 'GET', url: query, headers });
const post = (body: string, headers = {}) => ({ headers, body: Buffer.from(body) });
const signed = (provider: string, body: string, at = now()): SignedRequest => ({
  body: Buffer.from(body),
  ...signerOf(provider).sign(Buffer.from(body), at, 'handshake-1'),
});
const hmac = (
  secret: string,
  ...[content, encoding, algorithm = 'sha256']: [string, 'hex' | 'base64', string?]
) => createHmac(algorithm, secret).update(content).digest(encoding);

/** One that is made for everybody. */
const open = (provider: string, title: string, request: () => SignedRequest, answer: Expected): Exchange => ({
  provider,
  title,
  request,
  answer,
});

interface Vendor {
  readonly refusal?: Expected;
  readonly sign?: typeof signed;
  /** Changes something that is signed. */
  readonly tamper?: (body: string) => string;
}

/** One that the vendor signs, and the same from whoever cannot, which is refused. */
function verified(
  provider: string,
  title: string,
  body: string,
  answer: Expected,
  { refusal = REFUSED, sign = signed, tamper = (sent) => `${sent} ` }: Vendor = {},
): Exchange[] {
  const forged = (how: string, request: () => SignedRequest) =>
    open(provider, `${title}, ${how}`, request, refusal);
  return [
    open(provider, title, () => sign(provider, body), answer),
    forged('not signed', () => post(body)),
    forged('under the signature of another body', () => {
      const genuine = sign(provider, body);
      return { ...genuine, body: Buffer.from(tamper(genuine.body!.toString())) };
    }),
    ...(sourceOf(signerOf(provider)).provider.toleranceMs === undefined
      ? []
      : [forged('of an hour ago', () => sign(provider, body, now() - 3600))]),
  ];
}

const visited: string[] = [];
const SUBSCRIBE_URL = 'https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t1';
const CONFIRMATION = JSON.stringify({
  Type: 'SubscriptionConfirmation',
  MessageId: 'm1',
  TopicArn: signerOf('sns').secret,
  Message: 'You have chosen to subscribe',
  SubscribeURL: SUBSCRIBE_URL,
  Token: 't1',
});

function signedConfirmation(_provider: string, body: string): SignedRequest {
  const message: Record<string, string> = {
    ...(JSON.parse(body) as Record<string, string>),
    Timestamp: new Date().toISOString(),
    SignatureVersion: '2',
    SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem',
  };
  const content = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
    .map((key) => `${key}\n${message[key]}\n`)
    .join('');
  const Signature = sign('sha256', Buffer.from(content), snsPrivateKey).toString('base64');
  return post(JSON.stringify({ ...message, Signature }));
}

/** Options without which a source has no handshake, or none that can be tested. */
const OPTIONS: Readonly<Record<string, UntypedOptions>> = {
  meta: { verifyToken: 'my-verify-token' },
  asana: { onHandshake: (secret: string) => secret === 'expected-hook-secret' },
  sns: {
    fetch: (url: string) => {
      visited.push(url);
      return Promise.resolve(new Response(servedCertificate));
    },
  },
};

const BT_CHALLENGE = '20f9f8ed05f77439fe955c977e4c8a53';
const META = '?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=';
const SLACK = '{"token":"t","challenge":"3eZbrw1aB10FEMAGAZd4FyFQ","type":"url_verification"}';
const TWITCH =
  '{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"id":"s","status":"pending"}}';
const ZOOM =
  '{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1}';

/** Every handshake of every provider. */
const EXCHANGES: readonly Exchange[] = [
  open('meta', 'the challenge as text', () => get(`${META}my-verify-token`), text('1158201444')),
  open('meta', 'nothing for another verify token', () => get(`${META}other`), REFUSED),
  open('dropbox', 'the challenge as text', () => get('?challenge=abc123'), text('abc123')),
  open('dropbox', 'nothing for a GET without a challenge', () => get(), REFUSED),
  open(
    'braintree',
    'public key and HMAC',
    () => get(`?bt_challenge=${BT_CHALLENGE}`),
    text(`public_key|${braintreeHmac(BT_CHALLENGE)}`),
  ),
  open('braintree', 'nothing for what is no challenge', () => get('?bt_challenge=an%20event'), REFUSED),
  open(
    'x-twitter',
    'the HMAC of the token',
    () => get('?crc_token=uzwcfYtzr9'),
    json({ response_token: `sha256=${hmac(signerOf('x-twitter').secret, 'uzwcfYtzr9', 'base64')}` }),
  ),
  open('x-twitter', 'nothing for an event as the token', () => get('?crc_token=%7B%22a%22%3A1%7D'), REFUSED),
  open(
    'okta',
    'the header’s value as JSON',
    () => get('', { 'X-Okta-Verification-Challenge': 'my verification' }),
    json({ verification: 'my verification' }),
  ),
  open('okta', 'nothing for a GET without the header', () => get(), REFUSED),
  open('trello', '200 to HEAD', () => ({ method: 'HEAD', headers: {} }), EMPTY),
  open('trello', '401 to a POST that is not signed', () => post('{}'), REFUSED),
  open('intercom', '200 to HEAD', () => ({ method: 'HEAD', headers: {} }), EMPTY),
  open('intercom', '401 to a POST that is not signed', () => post('{}'), REFUSED),
  open(
    'monday',
    'the same JSON',
    () => post('{"challenge":"3eZbrw1aBm2"}'),
    json({ challenge: '3eZbrw1aBm2' }),
  ),
  open('monday', 'nothing where there is more', () => post('{"challenge":"c","event":{}}'), REFUSED),
  open('woocommerce', '200 to the ping', () => post('webhook_id=12'), EMPTY),
  open('woocommerce', 'nothing where there is more', () => post('webhook_id=12&x=1'), REFUSED),
  open('asana', 'the secret back', () => post('', { 'X-Hook-Secret': 'expected-hook-secret' }), {
    ...EMPTY,
    headers: { 'x-hook-secret': 'expected-hook-secret' },
  }),
  open('asana', 'nothing for another secret', () => post('', { 'X-Hook-Secret': 'another-secret' }), REFUSED),
  ...verified('slack', 'the challenge as text', SLACK, text('3eZbrw1aB10FEMAGAZd4FyFQ')),
  ...verified('twitch', 'the challenge as text', TWITCH, text('pogchamp-kappa-360noscope-vohiyo')),
  ...verified('discord', 'a pong to interactions', '{"id":"1","type":1}', json({ type: 1 })),
  ...verified('discord', '204 to webhook events', '{"version":1,"type":0}', { status: 204, text: '' }),
  ...verified(
    'zoom',
    'the token and its HMAC',
    ZOOM,
    json({
      plainToken: 'qgg8vlvZRS6UYooatFL8Aw',
      encryptedToken: hmac(signerOf('zoom').secret, 'qgg8vlvZRS6UYooatFL8Aw', 'hex'),
    }),
  ),
  ...verified('sns', '200 when SubscribeURL was visited', CONFIRMATION, EMPTY, {
    sign: signedConfirmation,
    tamper: (sent) => sent.replaceAll('t1', 't2'),
  }),
  ...verified('line', '200 to the console’s POST without events', '{"destination":"U1","events":[]}', {
    status: 200,
    text: '{"status":"ok"}',
  }),
  ...verified('xero', 'an empty 200 to the intent to receive', '{"events":[],"entropy":"x"}', EMPTY, {
    refusal: { status: 401, text: '' },
  }),
];

function braintreeHmac(challenge: string): string {
  const key = createHash('sha1').update('private_key').digest();
  return createHmac('sha1', key).update(challenge).digest('hex');
}

const NAMES = [...new Set(EXCHANGES.map(({ provider }) => provider))].toSorted();

it('every provider that declares a handshake is here', () => {
  const declaring = [...providersByName.keys()].filter((name) => {
    const { handshake, notes } = sourceOf(signerOf(name), undefined, OPTIONS[name]).provider;
    return handshake !== undefined || notes?.handshake !== undefined;
  });
  expect(declaring.toSorted()).toEqual(NAMES);
});

describe.each(ADAPTERS)('handshakes over HTTP on %s', (adapter) => {
  let receiver: Receiver;

  beforeAll(async () => {
    visited.length = 0;
    receiver = await Receiver.start({
      adapter,
      webhooks: {
        sources: {
          ...Object.fromEntries(
            NAMES.map((name) => [name, sourceOf(signerOf(name), undefined, OPTIONS[name])]),
          ),
          rotated: zoom({ secrets: ['the-secret-to-come', signerOf('zoom').secret] }),
          plain: sourceOf(signerOf('vercel')),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  const deliver = (source: string, { method, url = '', headers, body }: SignedRequest) =>
    receiver.send({
      method,
      path: `/webhooks/${source}${url}`,
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });

  it.each(EXCHANGES)('$provider: $title', async ({ provider, request, answer }) => {
    const { url, ...sent } = request();
    const reply = await deliver(provider, { ...sent, url: url?.startsWith('?') ? url : '' });
    expect(reply).toMatchObject(answer);
    if (sent.method !== 'HEAD' && reply.status !== 204)
      expect(reply.headers['content-length']).toBe(String(Buffer.byteLength(answer.text)));
  });

  it('Zoom: the HMAC is made with the secret that signed, while secrets are rotated', async () => {
    const { text: answer } = await deliver('rotated', signed('zoom', ZOOM));
    const { encryptedToken } = JSON.parse(answer) as { encryptedToken?: string };
    expect(encryptedToken).toBe(hmac(signerOf('zoom').secret, 'qgg8vlvZRS6UYooatFL8Aw', 'hex'));
  });

  it('SNS: only what was signed is visited, once', () =>
    expect(visited.filter((url) => !url.endsWith('.pem'))).toEqual([SUBSCRIBE_URL]));

  it('are those of sources that declare them: another answers none of the requests', async () => {
    const answers = EXCHANGES.map(async ({ request }) => (await deliver('plain', request())).status);
    expect(new Set(await Promise.all(answers))).toEqual(new Set([401, 405]));
  });

  it('X: the answer is no signature under which its token is taken in', async () => {
    const { text: answer } = await deliver('x-twitter', get('?crc_token=123456'));
    const { response_token: token } = JSON.parse(answer) as { response_token: string };
    const forged = post('123456', { 'X-Twitter-Webhooks-Signature': token });
    expect(await deliver('x-twitter', forged)).toMatchObject(REFUSED);
  });

  it('Braintree: the answer is no signature under which its challenge is taken in', async () => {
    const { text: answer } = await deliver('braintree', get(`?bt_challenge=${BT_CHALLENGE}`));
    const form = new URLSearchParams({ bt_signature: answer, bt_payload: BT_CHALLENGE });
    const forged = post(form.toString(), { 'content-type': 'application/x-www-form-urlencoded' });
    expect(await deliver('braintree', forged)).toMatchObject(REFUSED);
  });

  it('claim nothing', async () => expect(await receiver.claims()).toBe(0));
});
