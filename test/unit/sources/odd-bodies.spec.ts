import { BodyReader } from '../../../src/core/body.js';
import { signedRequest, signers, sourceOf, type Signer } from '../../support/signers/index.js';

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Ids of the events in a body that the vendor has signed, or that it was refused. */
function idsOf(signer: Signer, bytes: Buffer): string[] | 'refused' {
  const request = { ...signedRequest(signer), rawBody: bytes };
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

  it('refuses by its headers alone a request without any, and never one that the vendor has signed', () => {
    const { provider } = sourceOf(signer);
    const request = signedRequest(signer);
    expect(() => provider.checkHead?.(request)).not.toThrow();
  });
});
