import * as fc from 'fast-check';
import type { Answer } from '../../../src/core/answer.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { handshakeAnswer } from '../../../src/inbox/delivery.verifier.js';
import { providersByName } from '../../../src/sources/index.js';
import { verifySignature } from '../../support/verify-signature.js';
import { NOW, signerOf, sourceOf, toRequest, type Signer } from '../../support/signers/index.js';

/** Options without which a source answers no handshake. */
const OPTIONS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  meta: { verifyToken: 'my-verify-token' },
  asana: { onHandshake: () => true },
};

const NAMES = [...providersByName.keys()].filter(
  (name) => sourceOf(signerOf(name), undefined, OPTIONS[name]).provider.handshake !== undefined,
);

/** Whatever a caller without a secret can put a text into. */
function challenges(text: string): WebhookRequest[] {
  const query = (name: string) => `?${new URLSearchParams([[name, text]]).toString()}`;
  const meta = `?hub.mode=subscribe&hub.verify_token=my-verify-token&${query('hub.challenge').slice(1)}`;
  const bodies = [
    text,
    JSON.stringify({ challenge: text }),
    JSON.stringify({ type: 'url_verification', challenge: text }),
    JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken: text } }),
    JSON.stringify({ Type: 'SubscriptionConfirmation', SubscribeURL: text }),
  ];
  const headers = ['X-Hook-Secret', 'X-Okta-Verification-Challenge'];
  return [
    ...['challenge', 'crc_token', 'bt_challenge'].map((name) => requestOf('GET', query(name))),
    requestOf('GET', meta),
    ...headers.flatMap((name) => ['GET', 'POST'].map((method) => requestOf(method, '', { [name]: text }))),
    ...bodies.map((body) => requestOf('POST', '', {}, body)),
  ];
}

function requestOf(method: string, query = '', headers = {}, body = ''): WebhookRequest {
  return {
    method,
    url: `/hooks${query}`,
    headers: RequestHeaders.from(headers),
    rawBody: Buffer.from(body),
  };
}

const provider = (signer: Signer) => sourceOf(signer, undefined, OPTIONS[signer.provider]).provider;

const isAccepted = (signer: Signer, request: WebhookRequest) =>
  verifySignature(provider(signer), request, [signer.secret], undefined, NOW * 1000).then(
    () => true,
    () => false,
  );

/** The digests in the answers that anybody gets for a text. */
async function digestsFor(signer: Signer, text: string): Promise<Set<string>> {
  const found = new Set<string>();
  for (const request of challenges(text)) {
    // Its genuine delivery would not be one of a caller without the secret.
    if (await isAccepted(signer, request)) continue;
    const answer = await handshakeAnswer(provider(signer), request, [signer.secret], undefined);
    for (const digest of answer === undefined ? [] : digestsIn(answer)) found.add(digest);
  }
  return found;
}

const DIGEST = /[0-9a-f]{40,128}|[A-Za-z0-9+/_-]{27,88}={0,2}/g;

function digestsIn({ body, headers }: Answer): string[] {
  return [JSON.stringify(body), body, ...Object.values(headers ?? {})].flatMap((text) =>
    typeof text === 'string' ? (text.match(DIGEST) ?? []) : [],
  );
}

/** Deliveries with a digest as their signature: of the text, and of what is next to it. */
function forgeries(signer: Signer, text: string, digest: string): WebhookRequest[] {
  const genuine = signer.sign(Buffer.from(signer.body('evt_1')), NOW, 'evt_1');
  const headers = Object.fromEntries(
    Object.entries(genuine.headers).map(([name, value]) => [
      name,
      value.replaceAll(signer.secret, digest).replace(DIGEST, digest),
    ]),
  );
  const near = [text, `${text}\n`, `\n${text}`, ` ${text}`, `\ufeff${text}`, JSON.stringify(text)];
  const bodies = [...near, text.replace(/^v0:\d+:/, ''), text.replace(/^\d+\.?/, ''), text.trim()];
  const form = (payload: string) =>
    new URLSearchParams({ bt_signature: `public_key|${digest}`, bt_payload: payload }).toString();
  return [...bodies, ...near.map(form)].map((body) =>
    toRequest({ ...genuine, headers, body: undefined }, Buffer.from(body)),
  );
}

const TEXTS = [
  '123456',
  '-1',
  '1e5',
  'true',
  'null',
  'abc',
  'uzwcfYtzr9',
  '20f9f8ed05f77439fe955c977e4c8a53',
  'a'.repeat(20),
  '0'.repeat(32),
  'PG5vdGlmaWNhdGlvbi8+',
  '{"for_user_id":"1","tweet_create_events":[]}',
  '[1]',
  '"x"',
  `v0:${NOW}:{"event":"meeting.started"}`,
  `v0:${NOW}:1`,
  `${NOW}.{}`,
  '',
];

describe.each(NAMES)('what the handshake of %s answers', (name) => {
  const signer = signerOf(name);

  const accepted = async (text: string) => {
    for (const digest of await digestsFor(signer, text)) {
      for (const forgery of forgeries(signer, text, digest))
        if (await isAccepted(signer, forgery)) return forgery.rawBody.toString();
    }
    return undefined;
  };

  it.each(TEXTS)('to anybody is the signature of no delivery: %j', async (text) =>
    expect(await accepted(text)).toBeUndefined(),
  );

  it('to anybody is the signature of no delivery, for any text', () => {
    const letters = (alphabet: string) =>
      fc.string({ unit: fc.constantFrom(...alphabet.split('')), maxLength: 40 });
    const text = fc.oneof(
      letters('abcdef0123456789'),
      letters('ABCxyz012+/=_-.'),
      fc.string({ maxLength: 40 }),
      fc.json({ maxDepth: 2 }),
    );
    return fc.assert(
      fc.asyncProperty(text, async (one) => (await accepted(one)) === undefined),
      { numRuns: 60 },
    );
  });
});

it('the answers hold a digest where the vendor’s scheme has one, so that the above tries something', async () => {
  expect(await digestsFor(signerOf('x-twitter'), '123456')).not.toEqual(new Set());
  expect(await digestsFor(signerOf('braintree'), '20f9f8ed05f77439fe955c977e4c8a53')).not.toEqual(new Set());
});

describe('a token that Zoom signed is signed back only where it can be none of its deliveries', () => {
  const signer = signerOf('zoom');

  it.each([
    ['qgg8vlvZRS6UYooatFL8Aw', true],
    [`v0:${NOW}:{"event":"meeting.started"}`, false],
    [`v0:${NOW}:1`, false],
  ])('%j', async (plainToken, isAnswered) => {
    const body = JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken } });
    const request = toRequest(signer.sign(Buffer.from(body), NOW, 'evt_1'), Buffer.from(body));
    const verified = { secret: 0, inWindow: true };
    const answer = await handshakeAnswer(provider(signer), request, [signer.secret], verified);
    expect(answer !== undefined).toBe(isAnswered);
  });
});
