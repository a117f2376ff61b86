import * as fc from 'fast-check';
import { BodyReader } from '../../../src/core/body.js';
import { EventIdUnusable, SignatureRejection } from '../../../src/core/errors.js';
import type { Provider } from '../../../src/core/provider.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { verifySignature } from '../../../src/sources/verification.js';
import {
  hostileBodies,
  hostileHeaderValues,
  mutatedRequest,
  randomRequest,
} from '../../support/fuzz/requests.js';
import { NOW, signers, sourceOf, toRequest } from '../../support/signers/index.js';

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
