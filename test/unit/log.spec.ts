import { errorText } from '../../src/core/log.js';

describe('an error as text', () => {
  it('has the code of its cause, without which "fetch failed" says nothing', () => {
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND mail.example.com'), { code: 'ENOTFOUND' });
    expect(errorText(new TypeError('fetch failed', { cause }))).toBe('TypeError: fetch failed (ENOTFOUND)');
  });

  it('says nothing twice, and nothing of a cause without a code', () => {
    const refused = Object.assign(new Error('no'), { code: 'ECONNREFUSED' });
    expect(errorText(new Error('connect ECONNREFUSED ::1', { cause: refused }))).toBe(
      'connect ECONNREFUSED ::1',
    );
    expect(errorText(new Error('no luck', { cause: new Error('card 4242') }))).toBe('no luck');
    expect(errorText(new Error('no luck', { cause: 'card 4242' }))).toBe('no luck');
  });

  it.each([
    ['an Error', new Error('é'.repeat(5_000))],
    ['anything else', 'é'.repeat(5_000)],
  ])('of %s is cut to what a row keeps, in whole characters', (_, error) => {
    const text = errorText(error);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000);
    expect(text).toMatch(/é…$/);
  });
});
