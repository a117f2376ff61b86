import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jest } from '@jest/globals';
import { ConfigurationError, SignatureRejection } from '../../../src/core/errors.js';
import { paypal, plaid, sns } from '../../../src/sources/index.js';
import { certificateKey, readCertificates } from '../../../src/sources/keys/certificate.js';
import { fetchText } from '../../../src/sources/keys/fetch-text.js';
import { RemoteKeys } from '../../../src/sources/keys/remote-keys.js';
import { makeCertificate } from '../../../src/sources/signers/certificate.js';
import {
  servedCertificate,
  servedPlaidKey,
  NOW,
  signedRequest,
  signerOf,
  sourceOf,
} from '../../support/signers/index.js';

const reasonOf = async (outcome: unknown) =>
  Promise.resolve(outcome).then(
    () => 'accepted',
    (error: unknown) => (error instanceof SignatureRejection ? error.reason : error),
  );

/** A fetch that counts, and answers with text or fails. */
function counting(answers: (url: string, init?: RequestInit) => string | Error | Promise<string>) {
  const calls: { url: string; init?: RequestInit }[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const url = typeof input === 'string' ? input : '';
    calls.push({ url, init });
    const answer = await answers(url, init);
    if (answer instanceof Error) throw answer;
    return new Response(answer);
  };
  return { calls, fetch };
}

describe('keys that are fetched', () => {
  it.each(['sns', 'paypal', 'plaid'])(
    '%s: not at boot, once for many requests, from its own host',
    async (name) => {
      const signer = signerOf(name);
      const { calls, fetch } = counting(() => (name === 'plaid' ? servedPlaidKey : servedCertificate));
      const { provider } = sourceOf(signer, [signer.secret], { fetch });
      expect(calls).toHaveLength(0);
      const requests = [1, 2, 3].map((n) => signedRequest(signer, `evt_${n}`));
      await Promise.all(requests.map(async (request) => provider.verify(request, [signer.secret])));
      await provider.verify(requests[0]!, [signer.secret]);
      expect(calls).toHaveLength(1);
      const { hostname, protocol } = new URL(calls[0]!.url);
      expect(protocol).toBe('https:');
      expect(hostname).toMatch(/^(sns\.eu-west-1\.amazonaws\.com|api\.paypal\.com|production\.plaid\.com)$/);
      expect(calls[0]!.init).toMatchObject({ redirect: 'error', signal: expect.any(AbortSignal) });
    },
  );

  it.each(['sns', 'paypal', 'plaid'])(
    '%s: a key that cannot be had is another reason than a wrong signature',
    async (name) => {
      const signer = signerOf(name);
      for (const answer of [new Error('ECONNREFUSED'), new Error('time-out')]) {
        const { fetch } = counting(() => answer);
        const { provider } = sourceOf(signer, [signer.secret], { fetch });
        expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe(
          'key-unavailable',
        );
      }
    },
  );

  it.each([
    ['sns', 404, 'unusable-key'],
    ['sns', 410, 'unusable-key'],
    ['sns', 403, 'key-unavailable'],
    ['paypal', 404, 'unusable-key'],
    ['paypal', 429, 'key-unavailable'],
    ['paypal', 503, 'key-unavailable'],
    ['plaid', 404, 'unusable-key'],
    ['plaid', 400, 'key-unavailable'],
  ])('%s: a key that its vendor answers with %i is %s', async (name, status, reason) => {
    const signer = signerOf(name);
    const fetch = () => Promise.resolve(new Response('a page', { status }));
    const { provider } = sourceOf(signer, [signer.secret], { fetch });
    expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe(reason);
  });

  it('Plaid: a key id that it has not made is told apart from credentials that are wrong', async () => {
    const signer = signerOf('plaid');
    for (const [error_code, reason] of [
      ['INVALID_WEBHOOK_VERIFICATION_KEY_ID', 'unusable-key'],
      ['INVALID_API_KEYS', 'key-unavailable'],
    ]) {
      const fetch = () => Promise.resolve(Response.json({ error_code }, { status: 400 }));
      const { provider } = sourceOf(signer, [signer.secret], { fetch });
      expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe(reason);
    }
  });

  it('Plaid: what it says of a key to one of the credentials holds, though the others have been withdrawn', async () => {
    const signer = signerOf('plaid');
    const current = 'client-id:current';
    const fetch: typeof globalThis.fetch = (_url, init) => {
      const { secret } = JSON.parse(init?.body as string) as { secret: string };
      const error_code = secret === 'current' ? 'INVALID_WEBHOOK_VERIFICATION_KEY_ID' : 'INVALID_API_KEYS';
      return Promise.resolve(Response.json({ error_code }, { status: 400 }));
    };
    for (const secrets of [
      [current, 'client-id:old'],
      ['client-id:old', current],
    ]) {
      const { provider } = sourceOf(signer, secrets, { fetch });
      expect(await reasonOf(provider.verify(signedRequest(signer), secrets))).toBe('unusable-key');
    }
  });

  it.each(['sns', 'paypal', 'plaid'])('%s: junk in place of a key is refused', async (name) => {
    const signer = signerOf(name);
    for (const answer of [
      '',
      'junk',
      '{}',
      '{"key":7}',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    ]) {
      const { provider } = sourceOf(signer, [signer.secret], { fetch: counting(() => answer).fetch });
      expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe('unusable-key');
    }
  });

  it('nothing is fetched for messages of other topics, other bodies, or from other hosts', async () => {
    const { calls, fetch } = counting(() => servedCertificate);
    const topicArns = ['arn:aws:sns:eu-west-1:123456789012:others'];
    const request = signedRequest(signerOf('sns'));
    expect(await reasonOf(sns({ topicArns, fetch }).provider.verify(request, topicArns))).toBe(
      'wrong-signature',
    );
    const own = [signerOf('sns').secret];
    const moved = [
      ['sns.eu-west-1.amazonaws.com', 'sns.eu-west-1.amazonaws.com.evil.com'],
      ['https://sns', 'https:/@sns'],
      ['https://sns', 'HTTPS://sns'],
    ] as const;
    for (const [from, to] of moved) {
      const rawBody = Buffer.from(request.rawBody.toString().replace(from, to));
      const verified = sns({ topicArns: own, fetch }).provider.verify({ ...request, rawBody }, own);
      expect(await reasonOf(verified)).toBe('unusable-key');
    }
    const tampered = { ...signedRequest(signerOf('plaid')), rawBody: Buffer.from('{}') };
    const secrets = ['client:secret-value'];
    const { provider } = plaid({ secrets, fetch, dedupe: { hash: 'body' } });
    expect(await reasonOf(provider.verify(tampered, secrets))).toBe('wrong-signature');
    expect(calls).toEqual([]);
  });

  it('SNS: a version that is pinned is the only one', async () => {
    const signer = signerOf('sns');
    for (const [signatureVersion, outcome] of [
      ['1', 'malformed-signature'],
      ['2', 'accepted'],
    ]) {
      const { provider } = sourceOf(signer, [signer.secret], { signatureVersion });
      expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe(outcome);
    }
  });

  it('Plaid: an expired key and another key id are refused, credentials are sent as such', async () => {
    const signer = signerOf('plaid');
    const { key } = JSON.parse(servedPlaidKey) as { key: Record<string, unknown> };
    for (const change of [
      { expired_at: 1767225600 },
      { kid: 'another' },
      { crv: 'P-384' },
      { x: undefined },
    ]) {
      const { fetch } = counting(() => JSON.stringify({ key: { ...key, ...change } }));
      const { provider } = sourceOf(signer, [signer.secret], { fetch });
      expect(await reasonOf(provider.verify(signedRequest(signer), [signer.secret]))).toBe('unusable-key');
    }
    const { calls, fetch } = counting(() => servedPlaidKey);
    const sandbox = plaid({
      secrets: ['id:a:b'],
      environment: 'sandbox',
      fetch,
      dedupe: { hash: 'body' },
    });
    await sandbox.provider.verify(signedRequest(signer), ['id:a:b']);
    expect(calls[0]?.url).toBe('https://sandbox.plaid.com/webhook_verification_key/get');
    expect(JSON.parse(calls[0]?.init?.body as string)).toEqual({
      client_id: 'id',
      secret: 'a:b',
      key_id: key['kid'],
    });
  });
});

describe('requests with forged names of certificates', () => {
  it('do not keep the genuine ones out', async () => {
    const signer = signerOf('sns');
    const { calls, fetch } = counting((url) =>
      url.endsWith('-1.pem') ? servedCertificate : new Error('404'),
    );
    const { provider } = sourceOf(signer, [signer.secret], { fetch });
    const genuine = signedRequest(signer);
    await provider.verify(genuine, [signer.secret]);
    for (let n = 2; n <= 41; n += 1) {
      const rawBody = Buffer.from(genuine.rawBody.toString().replace('Service-1.pem', `Service-${n}.pem`));
      expect(await reasonOf(provider.verify({ ...genuine, rawBody }, [signer.secret]))).toBe(
        'key-unavailable',
      );
    }
    expect(await reasonOf(provider.verify(genuine, [signer.secret]))).toBe('accepted');
    expect(calls).toHaveLength(1 + 29);
  });

  it('are refused where they would give one certificate any number of names', async () => {
    const signer = signerOf('sns');
    const { calls, fetch } = counting(() => servedCertificate);
    const { provider } = sourceOf(signer, [signer.secret], { fetch });
    const genuine = signedRequest(signer);
    for (const end of ['?n=1', '#n']) {
      const rawBody = Buffer.from(genuine.rawBody.toString().replace('.pem', `.pem${end}`));
      expect(await reasonOf(provider.verify({ ...genuine, rawBody }, [signer.secret]))).toBe('unusable-key');
    }
    expect(calls).toHaveLength(0);
  });
});

describe('the cache of keys', () => {
  beforeEach(() => jest.useFakeTimers({ now: NOW * 1000 }));
  afterEach(() => jest.useRealTimers());

  it('fetches again after its time, and remembers a failure for a short one', async () => {
    let fails = true;
    let loads = 0;
    const keys = new RemoteKeys(
      () => (loads++, fails ? Promise.reject(new Error('down')) : Promise.resolve(loads)),
      { ttlMs: 1000, failureTtlMs: 100 },
    );
    expect(await reasonOf(keys.get('a'))).toBe('key-unavailable');
    expect(await reasonOf(keys.get('a'))).toBe('key-unavailable');
    expect(loads).toBe(1);
    fails = false;
    jest.advanceTimersByTime(101);
    expect(await keys.get('a')).toBe(2);
    jest.advanceTimersByTime(999);
    expect(await keys.get('a')).toBe(2);
    jest.advanceTimersByTime(2);
    expect(await keys.get('a')).toBe(3);
  });

  it('holds a bounded number, and forgets what was used longest ago', async () => {
    const loaded: string[] = [];
    const keys = new RemoteKeys((name) => (loaded.push(name), Promise.resolve(name)), { maxEntries: 2 });
    for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) await keys.get(name);
    expect(loaded).toEqual(['a', 'b', 'c', 'b']);
  });

  it('fetches a bounded number in a minute, whatever names forged requests come with', async () => {
    let loads = 0;
    const keys = new RemoteKeys(() => (loads++, Promise.resolve(1)), { maxPerMinute: 30 });
    const outcomes = await Promise.all(
      Array.from({ length: 1000 }, (_, i) => reasonOf(keys.get(`forged-${i}`))),
    );
    expect(loads).toBe(30);
    expect(outcomes.filter((outcome) => outcome === 'key-unavailable')).toHaveLength(970);
    jest.advanceTimersByTime(60_000);
    expect(await keys.get('genuine')).toBe(1);
  });

  it('keeps a key that has verified something, and fetches it again in time, whatever names forged requests come with', async () => {
    const loaded: string[] = [];
    const load = (name: string) => (loaded.push(name), Promise.resolve(name));
    const keys = new RemoteKeys(load, { maxEntries: 2, maxPerMinute: 5, ttlMs: 10_000 });
    const forge = () =>
      Promise.allSettled(Array.from({ length: 20 }, async (_, i) => keys.get(`forged-${i}`)));
    keys.trust('genuine', await keys.get('genuine'));
    await forge();
    expect(await keys.get('genuine')).toBe('genuine');
    jest.advanceTimersByTime(10_001);
    await forge();
    expect(await keys.get('genuine')).toBe('genuine');
    expect(loaded.filter((name) => name === 'genuine')).toHaveLength(2);
    expect(loaded).toHaveLength(2 + 4);
  });
});

describe('a fetch', () => {
  let server: Server;
  let origin: string;
  beforeAll(async () => {
    server = createServer((request, response) => {
      if (request.url === '/redirect') response.writeHead(302, { location: '/key' }).end();
      else if (request.url === '/long') response.end('x'.repeat(100_000));
      else if (request.url === '/missing') response.writeHead(404).end('no');
      else response.end('the key');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  it('reads text, and no redirects, long answers or errors', async () => {
    await expect(fetchText(fetch, `${origin}/key`)).resolves.toBe('the key');
    for (const path of ['/redirect', '/long', '/missing'])
      await expect(fetchText(fetch, origin + path)).rejects.toThrow(/answered 404|longer than|fetch failed/);
  });
});

describe('certificate chains', () => {
  const make = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
  const [root, intermediate, leaf, stranger] = [make(), make(), make(), make()];
  const rootPem = makeCertificate({
    subject: 'Root',
    publicKey: root.publicKey,
    issuerKey: root.privateKey,
    ca: true,
  });
  const intermediatePem = makeCertificate({
    subject: 'Intermediate',
    publicKey: intermediate.publicKey,
    issuer: 'Root',
    issuerKey: root.privateKey,
    ca: true,
  });
  const leafPem = makeCertificate({
    subject: 'Leaf',
    publicKey: leaf.publicKey,
    issuer: 'Intermediate',
    issuerKey: intermediate.privateKey,
    ca: false,
  });
  const roots = [new X509Certificate(rootPem)];

  it('are followed from the first certificate to a trusted root', () => {
    for (const pem of [leafPem + intermediatePem, leafPem + intermediatePem + rootPem]) {
      const key = certificateKey(pem, roots);
      expect(key.export({ format: 'pem', type: 'spki' })).toBe(
        leaf.publicKey.export({ format: 'pem', type: 'spki' }),
      );
    }
  });

  it('must be whole, and lead to one of the roots', () => {
    const strangerPem = makeCertificate({
      subject: 'Root',
      publicKey: stranger.publicKey,
      issuerKey: stranger.privateKey,
      ca: true,
    });
    const forged = makeCertificate({
      subject: 'Leaf',
      publicKey: leaf.publicKey,
      issuer: 'Root',
      issuerKey: stranger.privateKey,
      ca: false,
    });
    const byLeaf = makeCertificate({
      subject: 'Sub',
      publicKey: stranger.publicKey,
      issuer: 'Leaf',
      issuerKey: leaf.privateKey,
      ca: false,
    });
    for (const pem of [
      leafPem,
      forged,
      forged + strangerPem,
      byLeaf + leafPem + intermediatePem,
      intermediatePem + leafPem,
    ])
      expect(() => certificateKey(pem, roots)).toThrow('does not lead to a trusted root');
  });

  it('are not asked for without roots: the vendor’s host over TLS vouches for its certificate', () => {
    expect(certificateKey(leafPem, []).asymmetricKeyType).toBe('rsa');
    expect(() => certificateKey('junk', [])).toThrow('no RSA certificate');
    expect(readCertificates(leafPem + intermediatePem)).toHaveLength(2);
  });

  it('are configured with roots that can be read, or the application does not start', () => {
    expect(() => sns({ topicArns: ['x'], trustedRoots: ['junk'] })).toThrow(ConfigurationError);
    expect(() => paypal({ webhookIds: ['x'], trustedRoots: [rootPem] })).not.toThrow();
  });
});
