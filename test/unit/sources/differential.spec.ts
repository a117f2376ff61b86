import { readFileSync } from 'node:fs';
import { jest } from '@jest/globals';
import * as fc from 'fast-check';
import { SignatureRejection, type RejectionReason } from '../../../src/core/errors.js';
import type { WebhookRequest } from '../../../src/core/request.js';
import { verifySignature } from '../../support/verify-signature.js';
import { mutatedRequest } from '../../support/fuzz/requests.js';
import { differences } from '../../support/sdk/differences.js';
import { sdkAccepts, sdkVerifiers } from '../../support/sdk/verifiers.js';
import { NOW, signerOf, sourceOf, toRequest, type Signer } from '../../support/signers/index.js';

type Outcome = 'accepted' | RejectionReason;

async function ours(signer: Signer, request: WebhookRequest): Promise<Outcome> {
  const { provider } = sourceOf(signer);
  try {
    const { inWindow } = await verifySignature(
      provider,
      request,
      [signer.secret],
      provider.toleranceMs,
      NOW * 1000,
    );
    return inWindow ? 'accepted' : 'outside-window';
  } catch (error) {
    if (error instanceof SignatureRejection) return error.reason;
    throw error;
  }
}

/** The same requests each time, so that a red run is a change's doing; `npm run test:fuzz` draws others, and many more. */
const RUNS = Number(process.env.FUZZ_RUNS ?? 200);
const SEED =
  process.env.FUZZ_RUNS === undefined ? 20_261_128 : Number(process.env.FUZZ_SEED ?? Date.now() % 2 ** 31);

/**
 * Why we may refuse what an SDK accepts: it is not canonical, or there twice. A signature that an SDK finds right and we find
 * wrong is none of these, and fails the test.
 */
const STRICTER: readonly Outcome[] = ['repeated-header', 'malformed-signature', 'malformed-timestamp'];

/** Further disagreements about changed requests, by provider; each is in docs/sources.md. */
const FURTHER: Readonly<
  Record<string, (outcome: Outcome, sdk: boolean, request: WebhookRequest) => boolean>
> = {
  // A body of another content type must be covered by bodySHA256; the SDK is told by its caller what is in the body.
  twilio: (outcome, sdk) => sdk && outcome === 'missing-signature',
  // The SDK takes the first element for the time, whatever its name.
  workos: (outcome, sdk) => sdk && outcome === 'missing-timestamp',
  // The SDKs want nothing behind the signature that they do not know; we have found a right one.
  sanity: (outcome, sdk, request) =>
    !sdk && outcome === 'accepted' && hasMore(request, 'sanity-webhook-signature'),
  stripe: (outcome, sdk, request) => !sdk && outcome === 'accepted' && hasMore(request, 'stripe-signature'),
  mux: (outcome, sdk, request) => !sdk && outcome === 'accepted' && hasMore(request, 'mux-signature'),
  // The host of a certificate is compared as text; the SDK's parser writes it anew first.
  sns: (outcome, sdk) => sdk && outcome === 'unusable-key',
  // The SDKs, or the Headers they take, trim what no HTTP server lets through.
  hook0: throughHeaders('x-event-id', 'x-event-type'),
  clerk: throughHeaders('svix-id'),
  openai: throughHeaders('webhook-id'),
  // The SDK wants headers that it then hands on, and that no signature covers.
  shopify: (outcome, sdk, request) =>
    !sdk &&
    outcome === 'accepted' &&
    ['topic', 'shop-domain', 'api-version', 'webhook-id'].some(
      (name) => !request.headers.first(`x-shopify-${name}`),
    ),
  // The SDK writes the list of signed headers anew, from those that are there.
  contentful: (outcome, sdk, request) =>
    sdk &&
    ['wrong-signature', 'missing-signature'].includes(outcome) &&
    request.headers.first('x-contentful-signed-headers') !== CONTENTFUL_SIGNED,
};

const CONTENTFUL_SIGNED =
  'x-contentful-idempotency-key,x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic';

/** `Headers` trims names of these, and refuses any with a character that no HTTP server lets through. */
function throughHeaders(...names: readonly string[]) {
  return (outcome: Outcome, sdk: boolean, request: WebhookRequest) =>
    sdk
      ? outcome === 'wrong-signature' &&
        names.some((name) => request.headers.first(name)?.trim() !== request.headers.first(name))
      : outcome === 'accepted' &&
        request.headers.entries().some(([, value]) => !/^[\t\x20-\x7e\x80-\xff]*$/.test(value));
}

/** A header of time, signature and a third element. */
function hasMore(request: WebhookRequest, header: string): boolean {
  return (request.headers.first(header)?.split(',').length ?? 0) > 2;
}

beforeAll(() => {
  jest.useFakeTimers({
    now: NOW * 1000,
    doNotFake: [
      'nextTick',
      'setImmediate',
      'setTimeout',
      'setInterval',
      'queueMicrotask',
      'performance',
      'hrtime',
      'clearTimeout',
      'clearImmediate',
      'clearInterval',
    ],
  });
  jest.spyOn(console, 'error').mockImplementation(() => undefined);
});
afterAll(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

describe.each(Object.entries(sdkVerifiers))('the SDK of %s', (name, verifier) => {
  const signer = signerOf(name);
  const body = Buffer.from(signer.body('evt_1'));
  const genuine = signer.sign(body, NOW, 'evt_1');
  const names = Object.keys(genuine.headers);

  it('accepts what we accept', async () => {
    const request = toRequest(genuine, body);
    expect(await ours(signer, request)).toBe('accepted');
    expect(await sdkAccepts(verifier, request, names, signer.secret)).toBe(true);
  });

  it('agrees about changed requests, but where we are stricter', async () => {
    await fc.assert(
      fc.asyncProperty(mutatedRequest(genuine, body), async (request) => {
        const outcome = await ours(signer, request);
        const sdk = await sdkAccepts(verifier, request, names, signer.secret);
        const explained =
          (outcome === 'accepted') === sdk ||
          (sdk && STRICTER.includes(outcome)) ||
          FURTHER[name]?.(outcome, sdk, request) === true;
        if (!explained) throw new Error(`we say ${outcome}, the SDK ${sdk ? 'accepts' : 'refuses'}`);
      }),
      { numRuns: name === 'sendgrid' ? 40 : RUNS, seed: SEED },
    );
  });
});

describe('disagreements on purpose', () => {
  const notes = readFileSync('docs/sources.md', 'utf8');

  it.each(differences)(
    '$provider: $title',
    async ({ provider, title, sdkAccepts: expected, request, headers }) => {
      const signer = signerOf(provider);
      const sdk = await sdkAccepts(sdkVerifiers[provider]!, request(), headers, signer.secret);
      expect(sdk).toBe(expected);
      expect((await ours(signer, request())) === 'accepted').toBe(!expected);
      expect(notes).toContain(title);
    },
  );
});
