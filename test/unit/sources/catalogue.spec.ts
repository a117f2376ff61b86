import { BodyReader } from '../../../src/core/body.js';
import { SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { providersByName } from '../../../src/sources/index.js';
import { verifySignature } from '../../../src/sources/verification.js';
import { NOW, signedRequest, signers, sourceOf, type Signer } from '../../support/signers/index.js';

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

it('every provider of the catalogue has a signer in the tests', () => {
  expect([...providersByName.keys()].toSorted()).toEqual(signers.map(({ provider }) => provider).toSorted());
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
    if (signer.signsBody === false) return;
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
