import { createHmac } from 'node:crypto';
import { jest } from '@jest/globals';
import { BodyReader } from '../../../src/core/body.js';
import { SignatureRejection } from '../../../src/core/errors.js';
import type { WebhookRequest } from '../../../src/core/request.js';
import { mailgun } from '../../../src/sources/index.js';
import { verifySignature } from '../../support/verify-signature.js';
import {
  NOW,
  signedRequest,
  signerOf,
  signers,
  sourceOf,
  toRequest,
  type Signer,
} from '../../support/signers/index.js';

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Ids of the events in a body that the vendor has signed, or that it was refused. */
function idsOf(signer: Signer, bytes: Buffer): string[] | 'refused' {
  return idsIn(signer, { ...signedRequest(signer), rawBody: bytes });
}

function idsIn(signer: Signer, request: WebhookRequest): string[] | 'refused' {
  const bytes = request.rawBody;
  try {
    return sourceOf(signer)
      .provider.identify(request, new BodyReader(bytes))
      .map(({ id }) => id);
  } catch {
    return 'refused';
  }
}

describe.each(signers)('$provider', (signer) => {
  it('takes broken JSON exactly where it takes JSON that holds no event: where the id is not in the body', () => {
    const outcome = (text: string) => (idsOf(signer, Buffer.from(text)) === 'refused' ? 'refused' : 'taken');
    expect(outcome('{"id":"a')).toBe(outcome('1'));
    expect(outcome('\uFEFF {"id":"a')).toBe(outcome('1'));
  });

  it('finds the same ids behind a byte order mark, unless they are hashes of all bytes', () => {
    const body = signedRequest(signer).rawBody;
    if (new BodyReader(body).json() === undefined) return;
    const ids = idsOf(signer, body);
    const marked = idsOf(signer, Buffer.concat([BOM, body]));
    const isHash = ids !== 'refused' && ids.every((id) => id.includes('content'));
    if (isHash) expect(marked).toHaveLength(ids.length);
    else expect(marked).toEqual(ids);
  });

  it('takes what the vendor has signed, however deep it is nested', async () => {
    const body = signer.body('evt_1');
    const end = body.lastIndexOf('}');
    // Deeper than what a recursive reader of 64 levels takes, and not too deep for the vendor's side of this test.
    const deep = `${body.slice(0, end)},"deep":${'['.repeat(1_000)}${']'.repeat(1_000)}${body.slice(end)}`;
    if (new BodyReader(Buffer.from(deep)).json() === undefined) return;
    const request = signedRequest(signer, 'evt_1', NOW, deep);
    await verified(signer, request);
    expect(idsIn(signer, request)).toHaveLength(idsIn(signer, signedRequest(signer)).length);
  });

  it('refuses by its headers alone a request without any, and never one that the vendor has signed', () => {
    const { provider } = sourceOf(signer);
    const request = signedRequest(signer);
    expect(() => provider.checkHead?.(request)).not.toThrow();
  });
});

/** @throws SignatureRejection */
async function verified(signer: Signer, request: WebhookRequest): Promise<void> {
  const { provider } = sourceOf(signer);
  await verifySignature(provider, request, [signer.secret], provider.toleranceMs, NOW * 1000);
}

describe('a form with the signature in it', () => {
  const many = '&unsigned=1'.repeat(20_000);
  const secret = 'mailgun-signing-key';
  const form = (fields: string) =>
    toRequest({ headers: { 'content-type': 'application/x-www-form-urlencoded' } }, Buffer.from(fields));
  const { provider } = mailgun({ secrets: [secret], dedupe: { hash: 'body' } });
  const verify = (fields: string) =>
    verifySignature(provider, form(fields), [secret], provider.toleranceMs, NOW * 1000);
  const token = 'a/b c';
  const signed = `timestamp=${NOW}&%74oken=a%2Fb+c&signature=${createHmac('sha256', secret).update(`${NOW}${token}`).digest('hex')}`;

  it('is taken with any number of fields', async () => {
    await verify(signed + many);
    await verify(`${many}&${signed}`);
    const braintree = signerOf('braintree');
    const request = signedRequest(braintree);
    await verified(braintree, { ...request, rawBody: Buffer.concat([request.rawBody, Buffer.from(many)]) });
  });

  it('decodes only the fields that may be those of the signature', async () => {
    const { URLSearchParams: original } = globalThis;
    let decoded = 0;
    globalThis.URLSearchParams = class extends original {
      constructor(text: string) {
        super(text);
        decoded += 1;
      }
    };
    try {
      const near = ['aaaaa', 'tokem=1', 'signaturf', '%74ok=1'];
      await verify(signed + near.map((field) => `&${field}`.repeat(20)).join('') + many);
      // The three of the signature, and 20 names of its length that are written with escapes.
      expect(decoded).toBe(23);
      decoded = 0;
      await expect(verify(`${'%74oken&'.repeat(1_000)}${signed}`)).rejects.toMatchObject({
        reason: 'malformed-signature',
      });
      expect(decoded).toBe(100);
    } finally {
      globalThis.URLSearchParams = original;
    }
  });

  it.each(['timestamp', 'token', 'signature', 't%6Fken'])(
    'is refused where %s is there twice',
    async (name) => {
      await expect(verify(`${signed}&${name}=1`)).rejects.toMatchObject({ reason: 'missing-signature' });
    },
  );
});

describe('JSON with the signature in it', () => {
  it.each(['mailgun', 'adyen', 'sns'])(
    '%s: is refused where it is no JSON, which may be read in two ways',
    async (name) => {
      const signer = signerOf(name);
      const request = signedRequest(signer);
      const broken = Buffer.concat([request.rawBody.subarray(0, -1), Buffer.from(',"a":}')]);
      await expect(verified(signer, { ...request, rawBody: broken })).rejects.toMatchObject({
        reason: 'malformed-signature',
      });
    },
  );

  it.each([
    ['mailgun', 'signature'],
    ['adyen', 'notificationItems'],
    ['sns', 'MessageId'],
  ])('%s: of two members %s the last one counts, as JSON.parse has it', async (name, member) => {
    const signer = signerOf(name);
    const request = signedRequest(signer);
    const again = Buffer.concat([request.rawBody.subarray(0, -1), Buffer.from(`,"${member}":[]}`)]);
    await expect(verified(signer, { ...request, rawBody: again })).rejects.toBeInstanceOf(SignatureRejection);
  });

  it.each(['mailgun', 'adyen', 'sns'])(
    '%s: few names that are written with escapes are decoded',
    async (name) => {
      const signer = signerOf(name);
      const request = signedRequest(signer);
      const parsed = jest.spyOn(JSON, 'parse');
      try {
        const escaped = Buffer.concat([
          Buffer.from(`{${`"${'\\u0061'.repeat(5)}":1,`.repeat(5_000)}`),
          request.rawBody.subarray(1),
        ]);
        await expect(verified(signer, { ...request, rawBody: escaped })).rejects.toMatchObject({
          reason: 'malformed-signature',
        });
        expect(parsed.mock.calls.length).toBeLessThan(200);
      } finally {
        parsed.mockRestore();
      }
    },
  );

  it('sns: no array or object passes for a signed text that is not there', async () => {
    const signer = signerOf('sns');
    const request = signedRequest(signer);
    const added = Buffer.from(request.rawBody.toString().replace('"Type"', '"Subject":{},"Type"'));
    await expect(verified(signer, { ...request, rawBody: added })).rejects.toMatchObject({
      reason: 'malformed-signature',
    });
  });
});
