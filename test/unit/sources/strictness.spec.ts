import { createHmac } from 'node:crypto';
import { SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { github, hmac, hubspot, shopify, standardWebhooks, stripe } from '../../../src/sources/index.js';
import { verifySignature } from '../../support/verify-signature.js';
import { NOW, signedRequest, signers, sourceOf, toRequest } from '../../support/signers/index.js';

const SECRET = 'sesmetric-signing-key';
const BODY = '{"id":"evt_1","type":"email.delivered"}';

const sesmetric = hmac({
  name: 'sesmetric',
  secrets: [SECRET],
  signatureHeader: 'X-SESMetric-Signature',
  timestampHeader: 'X-SESMetric-Timestamp',
  idPath: 'id',
  typePath: 'type',
});

const sign = (timestamp: string, body = BODY, secret = SECRET) =>
  createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');

function request(headers: Readonly<Record<string, string | undefined>>, body = BODY): WebhookRequest {
  return { method: 'POST', url: '/hooks', headers: RequestHeaders.from(headers), rawBody: Buffer.from(body) };
}

const signedAt = (timestamp: string, body = BODY) =>
  request({ 'X-SESMetric-Timestamp': timestamp, 'X-SESMetric-Signature': sign(timestamp, body) }, body);

const verify = ({ provider, secrets }: SourceDefinition, one: WebhookRequest, nowMs = NOW * 1000) =>
  verifySignature(provider, one, secrets as string[], provider.toleranceMs, nowMs);

const reason = (source: SourceDefinition, one: WebhookRequest, nowMs?: number) =>
  verify(source, one, nowMs).then(
    ({ inWindow }) => (inWindow ? 'accepted' : 'outside-window'),
    (error: unknown) => (error instanceof SignatureRejection ? error.reason : error),
  );

it.each([
  ['hook0', { 'X-Hook0-Signature': 't=1,canary=1,canary=2' }],
  ['drone', { Signature: 'canary="1",canary="2"' }],
])('a refusal of %s repeats nothing of a header', async (name, headers) => {
  const source = sourceOf(signers.find(({ provider }) => provider === name)!);
  const refused = await verify(source, request(headers)).catch((error: unknown) => error);
  expect(refused).toMatchObject({ reason: 'malformed-signature' });
  expect(String(refused)).not.toContain('canary');
});

describe('R08 HMAC-SHA256 over `timestamp.body`, five minutes both ways', () => {
  it('accepts what was signed, to the second', async () => {
    for (const skew of [0, -300, 300]) {
      expect(await reason(sesmetric, signedAt(String(NOW + skew)))).toBe('accepted');
    }
  });

  it('refuses one second and ten years more, in the past and in the future', async () => {
    for (const skew of [-301, 301, -315_360_000, 315_360_000]) {
      expect(await reason(sesmetric, signedAt(String(NOW + skew)))).toBe('outside-window');
    }
  });

  it('tells skew from forgery: the signature is checked before the clock', async () => {
    const old = String(NOW - 86_400);
    const forged = request({
      'X-SESMetric-Timestamp': old,
      'X-SESMetric-Signature': sign(old, BODY, 'other'),
    });
    expect(await reason(sesmetric, forged)).toBe('wrong-signature');
    await expect(verify(sesmetric, signedAt(old))).resolves.toMatchObject({
      inWindow: false,
      skewMs: 86_400_000,
    });
  });

  it.each([
    `${NOW}.0`,
    `0${NOW}`,
    ` ${NOW}`,
    `${NOW} `,
    `+${NOW}`,
    `-${NOW}`,
    `${NOW}x`,
    '1e9',
    '0x69',
    'NaN',
    'Infinity',
    '١٧٦٧٢٢٥٦٠٠',
    '9'.repeat(40),
  ])('refuses the timestamp %j although it is signed', async (timestamp) =>
    expect(await reason(sesmetric, signedAt(timestamp))).toBe('malformed-timestamp'),
  );

  it('refuses a missing and an empty timestamp', async () => {
    expect(await reason(sesmetric, request({ 'X-SESMetric-Signature': sign('') }))).toBe('missing-timestamp');
    expect(await reason(sesmetric, signedAt(''))).toBe('missing-timestamp');
  });
});

describe('case 4: the signature covers bytes', () => {
  it.each([
    '{ "a" : 1.0 , "b":[ ] }',
    '{"b":2,"a":1}',
    '{"a":"\\u00e9"}',
    '{"a":"é"}',
    '{"a":1}\n',
    '\ufeff{"a":1}',
    '',
  ])('accepts %j as it was sent, and not what JSON makes of it', async (body) => {
    expect(await reason(sesmetric, signedAt(String(NOW), body))).toBe('accepted');
    if (body === '') return;
    const reserialised = JSON.stringify(JSON.parse(body.replace('\ufeff', '')));
    if (reserialised === body) return;
    const again = { ...signedAt(String(NOW), body), rawBody: Buffer.from(reserialised) };
    expect(await reason(sesmetric, again)).toBe('wrong-signature');
  });

  it('accepts bytes that are no UTF-8', async () => {
    const rawBody = Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d]);
    const signature = createHmac('sha256', SECRET).update(`${NOW}.`).update(rawBody).digest('hex');
    const one = request({ 'X-SESMetric-Timestamp': String(NOW), 'X-SESMetric-Signature': signature });
    expect(await reason(sesmetric, { ...one, rawBody })).toBe('accepted');
  });
});

describe('signatures are canonical text', () => {
  const good = sign(String(NOW));
  it.each([
    ['upper case', good.toUpperCase()],
    ['one digit less', good.slice(1)],
    ['one digit more', `${good}0`],
    ['junk behind it', `${good}zz`],
    ['a space in front', ` ${good}`],
    ['a line break behind it', `${good}\n`],
    ['base64', Buffer.from(good, 'hex').toString('base64')],
    ['two, joined as Node joins repeats', `${good}, ${good}`],
  ])('refuses hex with %s', async (_what, signature) => {
    const one = request({ 'X-SESMetric-Timestamp': String(NOW), 'X-SESMetric-Signature': signature });
    expect(await reason(sesmetric, one)).toBe('malformed-signature');
  });

  it.each([
    ['no padding', (text: string) => text.replace('=', '')],
    ['the alphabet of URLs', (text: string) => text.replaceAll('+', '-').replaceAll('/', '_')],
    [
      'other unused bits',
      (text: string) => text.replace(/.=$/, (end) => `${String.fromCharCode(end.charCodeAt(0) + 1)}=`),
    ],
    ['a line break inside', (text: string) => `${text.slice(0, 9)}\n${text.slice(9)}`],
  ])('refuses base64 with %s', async (_what, change) => {
    const source = shopify({ secrets: [SECRET] });
    // A digest whose base64 holds both + and /, so that each change changes something.
    let n = 0;
    let text = '';
    do text = createHmac('sha256', SECRET).update(`{"n":${++n}}`).digest('base64');
    while (!/\+.*\/|\/.*\+/.test(text) || text.endsWith('9=') || text.endsWith('z=') || text.endsWith('Z='));
    const of = (signature: string) => request({ 'X-Shopify-Hmac-Sha256': signature }, `{"n":${n}}`);
    expect(await reason(source, of(text))).toBe('accepted');
    expect(await reason(source, of(change(text)))).not.toBe('accepted');
  });

  it('takes the algorithm from the source, never from the request', async () => {
    const body = Buffer.from('{}');
    const sha1 = createHmac('sha1', SECRET).update(body).digest('hex');
    const source = github({ secrets: [SECRET] });
    for (const headers of [
      { 'X-Hub-Signature-256': `sha1=${sha1}` },
      { 'X-Hub-Signature-256': `sha256=${sha1}` },
      { 'X-Hub-Signature': `sha1=${sha1}` },
    ])
      expect(await reason(source, request(headers, '{}'))).not.toBe('accepted');
    const legacy = github({ secrets: [SECRET], legacySha1: true });
    expect(await reason(legacy, request({ 'X-Hub-Signature': `sha1=${sha1}` }, '{}'))).toBe('accepted');
  });

  it('ignores versions it does not know, and never tries a public key as a shared secret', async () => {
    const publicKey = `whpk_${Buffer.alloc(32, 7).toString('base64')}`;
    const signature = createHmac('sha256', Buffer.alloc(32, 7)).update(`msg_1.${NOW}.{}`).digest('base64');
    const headers = (version: string) => ({
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(NOW),
      'webhook-signature': `${version},${signature}`,
    });
    for (const version of ['v1', 'v1a', 'v2', 'v0', ''])
      expect(
        await reason(standardWebhooks({ secrets: [publicKey] }), request(headers(version), '{}')),
      ).not.toBe('accepted');
    const shared = standardWebhooks({ secrets: [`whsec_${Buffer.alloc(32, 7).toString('base64')}`] });
    expect(await reason(shared, request(headers('v1'), '{}'))).toBe('accepted');
    expect(await reason(shared, request(headers('v1a'), '{}'))).not.toBe('accepted');
  });

  it('does not let HubSpot’s v1 signature, which has no time, stand in for v3', async () => {
    const options = { secrets: [SECRET], publicUrl: 'https://hooks.example.com' };
    const v1 = request({ 'X-HubSpot-Signature-Version': 'v1', 'X-HubSpot-Signature': 'ab'.repeat(32) }, '[]');
    expect(await reason(hubspot(options), v1)).toBe('missing-signature');
  });
});

describe('repeated headers', () => {
  it.each(signers)('$provider: refuses any signed header that arrives twice', async (signer) => {
    const source = sourceOf(signer);
    const body = Buffer.from(signer.body('evt_1'));
    const signed = signer.sign(body, NOW, 'evt_1');
    for (const [name, value] of Object.entries(signed.headers)) {
      const twice = toRequest(
        { ...signed, headers: { ...signed.headers, [name]: [value, value] as never } },
        body,
      );
      const outcome = await reason(source, twice);
      // A header that no signature depends on may be read from its first value or not at all.
      expect([name, outcome]).toEqual([
        name,
        expect.stringMatching(isUnsigned(name) ? /^(accepted|repeated-header)$/ : /^repeated-header$/),
      ]);
    }
  });

  function isUnsigned(name: string): boolean {
    return (
      /content-type|delivery|event|topic|shop-domain|api-version|request-?id|uuid|idempotency|operation|invocation|webhook-id|message-type|hook-resource|x-amz/i.test(
        name,
      ) && !/signature|timestamp|eventsub|event-webhook/i.test(name)
    );
  }
});

describe('limits', () => {
  it('refuses more than ten signatures, and headers above 4096 characters', async () => {
    const source = stripe({ secrets: [SECRET] });
    const good = sign(String(NOW), '{}');
    const of = (header: string) => request({ 'Stripe-Signature': header }, '{}');
    expect(await reason(source, of(`t=${NOW}${`,v1=${'0'.repeat(64)}`.repeat(9)},v1=${good}`))).toBe(
      'accepted',
    );
    expect(await reason(source, of(`t=${NOW}${`,v1=${'0'.repeat(64)}`.repeat(10)},v1=${good}`))).toBe(
      'malformed-signature',
    );
    expect(await reason(source, of(`t=${NOW},v1=${good},x=${'0'.repeat(4096)}`))).toBe('malformed-signature');
  });

  it('refuses to try more than ten secrets', async () => {
    const one = signedAt(String(NOW));
    const outcome = verifySignature(
      sesmetric.provider,
      one,
      [...Array.from({ length: 10 }, () => 'other'), SECRET],
      undefined,
      0,
    );
    await expect(outcome).rejects.toMatchObject({ reason: 'unusable-key' });
  });
});

it('case 18: a retry with the first attempt’s time is for the source to decide, with its window', async () => {
  const request = signedRequest(signers.find(({ provider }) => provider === 'linear')!);
  const source = sourceOf(signers.find(({ provider }) => provider === 'linear')!);
  const fourHoursLater = (NOW + 4 * 3600) * 1000;
  await expect(verify(source, request, fourHoursLater)).resolves.toMatchObject({
    inWindow: false,
    secret: 0,
  });
  const wide = verifySignature(
    source.provider,
    request,
    ['lin_wh_0123456789'],
    5 * 3_600_000,
    fourHoursLater,
  );
  await expect(wide).resolves.toMatchObject({ inWindow: true });
  expect(source.provider.retries.sameTimestamp).toBe(true);
});
