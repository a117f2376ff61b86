import { errorText } from '../../src/core/log/log.js';
import { validated } from '../../src/core/options/standard-schema.js';

/** Of a payload's. */
const CARD = 'canary4242';
/** What the language and Node repeat of a value that they refuse. */
const REFUSED: Readonly<Record<string, () => unknown>> = {
  BigInt: () => BigInt(CARD),
  'BigInt of a fraction': () => BigInt(4242.5),
  Request: () => new Request(CARD),
  Headers: () => new Headers({ authorization: `${CARD}\u0000` }),
  'Intl.NumberFormat': () => new Intl.NumberFormat('en', { style: 'currency', currency: CARD }),
  'Intl.DateTimeFormat': () => new Intl.DateTimeFormat('en', { timeZone: CARD }),
  RegExp: () => new RegExp(`(${CARD}`),
  in: () => 'a' in (CARD as never),
  'a property of a text': () => Object.assign(CARD as never, { 0: 1 }),
  'Buffer.alloc': () => Buffer.alloc(CARD as never),
  'Buffer.from': () => Buffer.from('a', CARD as never),
  repeat: () => 'a'.repeat(-4242),
  'Object.fromEntries': () => Object.fromEntries([CARD] as never),
  'JSON.parse': () => JSON.parse(`{"card": ${CARD}`),
};

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

  it.each(Object.entries(REFUSED))('repeats no value that %s has refused', (_, refused) => {
    let told = '';
    try {
      refused();
    } catch (error) {
      told = errorText(error);
    }
    expect(told).toMatch(/Error/);
    expect(told).not.toMatch(/canary|4242/);
  });

  it.each([
    [
      'valibot',
      [{ message: `Invalid type: Expected number but received "${CARD}"`, path: [{ key: 'card' }] }],
    ],
    ['arktype', [{ message: `card must be a number (was "${CARD}")`, path: ['card'] }]],
    ['one that cuts', [{ message: `bad: ${CARD.slice(0, 9)}…`, path: ['card'] }]],
    ['a number', [{ message: 'Expected >=9000 but received 4242', path: ['cents'] }]],
    ['an object', [{ message: `must be a text (was {"card":"${CARD}","cents":4242})` }]],
  ])('a schema repeats no value of the payload: %s', async (vendor, issues) => {
    const schema = { '~standard': { version: 1, vendor, validate: () => ({ issues }) } } as const;
    const refused = await validated(schema, { card: CARD, cents: 4242 }).catch(errorText);
    expect(refused).toMatch(/schema: \w+: /);
    expect(refused).not.toMatch(/canary|4242/);
  });

  it.each<[string, unknown, string]>([
    ['an object without a prototype', Object.create(null), 'something thrown that cannot be told as text'],
    ['a message that is no text', Object.assign(new Error(), { message: { a: 1 } }), '[object Object]'],
    ['a message that is not there', Object.assign(new Error(), { message: undefined }), 'undefined'],
    ['a symbol', Symbol('a'), 'non-Error thrown: Symbol(a)'],
    [
      'a cause whose message is no text',
      new Error('no', { cause: Object.assign(new Error(), { code: '22P02', message: 5 }) }),
      'no (22P02)',
    ],
  ])('of %s can be had', (_, thrown, text) => expect(errorText(thrown)).toBe(text));

  it.each([
    ['an Error', new Error('é'.repeat(5_000))],
    ['anything else', 'é'.repeat(5_000)],
  ])('of %s is cut to what a row keeps, in whole characters', (_, error) => {
    const text = errorText(error);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000);
    expect(text).toMatch(/é…$/);
  });
});
