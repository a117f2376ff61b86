import { generateKeyPairSync } from 'node:crypto';
import * as fc from 'fast-check';
import { BodyReader } from '../../../src/core/body.js';
import { EventIdUnusable, SignatureRejection } from '../../../src/core/errors.js';
import type { Provider } from '../../../src/core/provider.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { handshakeAnswer } from '../../../src/inbox/delivery.verifier.js';
import { verifySignature } from '../../support/verify-signature.js';
import { hostileChanges, hostileShapes, hostileVersions } from '../../support/fuzz/genuine.js';
import {
  hostileBodies,
  hostileHeaderValues,
  mutatedRequest,
  randomRequest,
} from '../../support/fuzz/requests.js';
import { NOW, signedRequest, signerOf, signers, sourceOf, toRequest } from '../../support/signers/index.js';

/** Requests per scheme: 300 in `npm test`, 200,000 in `npm run test:fuzz`. Half are random, half are changed genuine ones. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 300);

/** What the requests are drawn from; others each time unless it is given. */
const SEED = process.env['FUZZ_SEED'] === undefined ? undefined : Number(process.env['FUZZ_SEED']);

/** Judges a request as the guard does; any error but the typed one fails the test. */
async function accepts(
  provider: Provider,
  request: WebhookRequest,
  secrets: readonly string[],
): Promise<boolean> {
  try {
    await verifySignature(provider, request, secrets, provider.toleranceMs, NOW * 1000);
  } catch (error) {
    if (error instanceof SignatureRejection) return false;
    throw error;
  }
  return true;
}

interface Cost {
  readonly ms: number;
  readonly bytes: number;
}
const SIZES = [256 * 1024, 1024 * 1024];
const shapesOf = memoized(hostileShapes);
const FORM = 'application/x-www-form-urlencoded';
/**
 * Generous, since garbage that is not yet collected counts, and collecting it is the processor's time. Alone, URLSearchParams takes up
 * to 200 ns for a byte, JSON.parse of 64 levels at most 100 ns, and ten secrets ten passes of 2 to 5 ns. A busy machine takes twice
 * that. A cost that grows with the square of the size is beyond it by far: 16 s for 250 kB was seen.
 */
function limitsOf(size: number): Cost {
  return { ms: 60 + (size * 800) / 1e6, bytes: 24 * 1024 * 1024 + size * 40 };
}

function memoized<T>(make: (size: number) => T): (size: number) => T {
  const made = new Map<number, T>();
  return (size) => {
    const known = made.get(size) ?? make(size);
    made.set(size, known);
    return known;
  };
}

function isWithin(cost: Cost, limits: Cost): boolean {
  return cost.ms <= limits.ms && cost.bytes <= limits.bytes;
}

async function costOf(work: () => Promise<void>): Promise<Cost> {
  const memory = process.memoryUsage();
  const time = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(time);
  const { heapUsed, external } = process.memoryUsage();
  return { ms: (user + system) / 1000, bytes: heapUsed + external - memory.heapUsed - memory.external };
}

/** The least of three tries, since other work on the machine takes caches, and a collection falls into any of them. */
async function expectCost(shape: string, request: WebhookRequest, work: () => Promise<void>): Promise<void> {
  const limits = limitsOf(request.rawBody.length);
  let least: Cost = { ms: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };
  for (let i = 0; i < 3 && !isWithin(least, limits); i++) {
    const { ms, bytes } = await costOf(work);
    least = { ms: Math.min(least.ms, ms), bytes: Math.min(least.bytes, bytes) };
  }
  if (!isWithin(least, limits)) throw new Error(`${shape}: ${JSON.stringify({ least, limits })}`);
}

/** All that a provider does with a request before it is believed. */
async function refuse(
  provider: Provider,
  request: WebhookRequest,
  secrets: readonly string[],
): Promise<void> {
  await accepts(provider, request, secrets);
  await handshakeAnswer(provider, request, secrets, undefined);
}

function identify(provider: Provider, request: WebhookRequest): void {
  try {
    provider.identify(request, new BodyReader(request.rawBody));
  } catch (error) {
    if (!(error instanceof EventIdUnusable) && !(error instanceof SignatureRejection)) throw error;
  }
}

describe.each(signers)('$provider', (signer) => {
  const { provider } = sourceOf(signer);
  const body = Buffer.from(signer.body('evt_1'));
  const genuine = signer.sign(body, NOW, 'evt_1');
  // What a forger faces: another secret, or the key that the vendor publishes, which is not the forger's.
  const stranger =
    signer.otherKey === undefined ? provider : sourceOf(signer, [signer.secret], signer.otherKey).provider;
  const others = [signer.otherKey === undefined ? signer.otherSecret : signer.secret];

  it(`accepts none of ${RUNS / 2} random requests, and throws its own errors only`, async () => {
    await fc.assert(
      fc.asyncProperty(randomRequest(genuine), async (request) => {
        identify(provider, request);
        provider.handshake?.answer(request, [signer.secret], false);
        expect(await accepts(provider, request, [signer.secret])).toBe(false);
      }),
      { numRuns: RUNS / 2, seed: SEED },
    );
  });

  it(`accepts none of ${RUNS / 2} changed requests without the key, and throws its own errors only`, async () => {
    await fc.assert(
      fc.asyncProperty(mutatedRequest(genuine, body), async (request) => {
        identify(provider, request);
        expect(await accepts(stranger, request, others)).toBe(false);
        // With the key it may be accepted, where the change is of something unsigned.
        await accepts(provider, request, [signer.secret]);
      }),
      { numRuns: RUNS / 2, seed: SEED },
    );
  });

  it('takes time in proportion to the size of the request', async () => {
    const request = toRequest(genuine, body);
    for (const [shape, make] of Object.entries(hostileBodies))
      await expectLinear(shape, (size) => ({ ...request, rawBody: Buffer.from(make(size)) }));
    for (const [shape, make] of Object.entries(hostileHeaderValues))
      await expectLinear(shape, (size) => ({ ...request, headers: headersOf(make(size)) }));
  });

  // Nothing of a request is believed here yet, so that anyone can have this done.
  it.each(SIZES)('takes little time and memory to refuse %i bytes', async (size) => {
    for (const [shape, rawBody] of shapesOf(size))
      await expectCheap(shape, { ...toRequest(genuine, body), rawBody });
  });

  // Of the others nothing but the bytes of the body is looked at.
  if (genuine.body !== undefined || genuine.headers['content-type'] === FORM)
    it.each(SIZES)(
      'takes little time and memory to refuse %i bytes that look like the vendor’s',
      async (size) => {
        const request = toRequest(genuine, body);
        for (const [shape, rawBody] of hostileVersions(request.rawBody, size))
          await expectCheap(shape, { ...request, rawBody });
      },
    );

  it('takes little time and memory to refuse hostile headers, whatever the number of secrets', async () => {
    const request = { ...toRequest(genuine, body), rawBody: Buffer.alloc(1024 * 1024, 'a') };
    const many = Array.from({ length: 40 }, () => signer.otherSecret);
    for (const [shape, change] of Object.entries(hostileChanges)) {
      const changed = Object.entries(genuine.headers).map(([name, value]) => [name, change(value)]);
      const headers = RequestHeaders.from(Object.fromEntries(changed) as Record<string, string>);
      for (const secrets of [many.slice(0, 10), many])
        await expectCheap(shape, { ...request, headers }, secrets);
    }
  });

  async function expectCheap(
    shape: string,
    request: WebhookRequest,
    secrets: readonly string[] = [signer.secret],
  ): Promise<void> {
    const isForm = !/^[{["]/.test(request.rawBody.toString('latin1', 0, 1));
    const headers = isForm ? { ...genuine.headers, 'content-type': FORM } : genuine.headers;
    const typed = secrets.length > 1 ? request : { ...request, headers: RequestHeaders.from(headers) };
    await expectCost(shape, typed, () => refuse(provider, typed, secrets));
  }

  function headersOf(value: string): RequestHeaders {
    return RequestHeaders.from(Object.fromEntries(Object.keys(genuine.headers).map((name) => [name, value])));
  }

  /**
   * Eight times the size may take eight times as long, and some; quadratic work would take 64 times. Times are the
   * processor's, so that other processes do not count; what takes less than 150 ms for a quarter megabyte is not quadratic.
   */
  async function expectLinear(shape: string, make: (size: number) => WebhookRequest): Promise<void> {
    const large = await cpuTime(make(256 * 1024), 150);
    const small = large < 150 ? large : await cpuTime(make(32 * 1024), 0);
    if (large > 30 * Math.max(small, 1))
      throw new Error(`${shape}: ${small} ms for 32 kB, ${large} ms for 256 kB`);
  }

  /** Milliseconds, of the fastest of up to three tries that stop when one is fast enough. */
  async function cpuTime(request: WebhookRequest, enough: number): Promise<number> {
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 3 && best > enough; i++) {
      const before = process.cpuUsage();
      await accepts(provider, request, [signer.secret]);
      identify(provider, request);
      const { user, system } = process.cpuUsage(before);
      best = Math.min(best, (user + system) / 1000);
    }
    return best;
  }
});

it('leaves Object.prototype alone', () => {
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as { id?: unknown }).id).toBeUndefined();
});

describe('each pass over an unbelieved body is counted before it is made', () => {
  const body = Buffer.from('{}');
  const PUBLIC_KEY = `whpk_${generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')}`;
  const reasonOf = async (provider: Provider, request: WebhookRequest, secrets: readonly string[]) =>
    verifySignature(provider, request, secrets, undefined, NOW * 1000).then(
      () => 'accepted',
      (error: unknown) => (error instanceof SignatureRejection ? error.reason : String(error)),
    );

  it.each(['discord', 'sendgrid', 'braintree', 'github', 'hubspot'])(
    '%s: of eleven secrets, none',
    async (name) => {
      const signer = signerOf(name);
      const secrets = Array.from({ length: 11 }, () => signer.secret);
      expect(await reasonOf(sourceOf(signer).provider, signedRequest(signer), secrets)).toBe('unusable-key');
    },
  );

  it.each([
    // Tried, and then there is no secret for an HMAC.
    [2, 10, 'unusable-key'],
    [3, 7, 'malformed-signature'],
    [10, 10, 'malformed-signature'],
  ])('standard-webhooks: %i public keys and %i signatures: %s', async (keys, signatures, reason) => {
    const signer = signerOf('standard-webhooks');
    const { headers } = signer.sign(body, NOW, 'evt_1');
    const value = `v1a,${Buffer.alloc(64, 1).toString('base64')}`;
    const forged = Array.from({ length: signatures }, () => value).join(' ');
    const secrets = Array.from({ length: keys }, () => PUBLIC_KEY);
    const request = toRequest({ headers: { ...headers, 'webhook-signature': forged } }, body);
    const found = await reasonOf(sourceOf(signer, secrets).provider, request, secrets);
    expect(found).toBe(reason);
  });

  it.each([
    ['hook0', 'X-Hook0-Signature', /h=([^,]*)/, 'h=$1 x-event-id'],
    ['drone', 'Signature', /headers="([^"]*)"/, 'headers="$1 date"'],
  ])('%s: no header is named twice', async (name, header, names, twice) => {
    const signer = signerOf(name);
    const signed = signer.sign(body, NOW, 'evt_1');
    const headers = { ...signed.headers, [header]: signed.headers[header]!.replace(names, twice) };
    const { provider } = sourceOf(signer);
    expect(await reasonOf(provider, toRequest({ headers }, body), [signer.secret])).toBe(
      'malformed-signature',
    );
  });
});
