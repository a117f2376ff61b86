import { BodyReader } from '../../src/core/body.js';
import { eventId, eventIdAt } from '../../src/core/ids.js';

const at = (json: string) => eventIdAt(new BodyReader(Buffer.from(json)), 'id');

describe('event id', () => {
  // anolilab/lunora PR#246: a blank id claimed the empty key and every later event vanished.
  it.each([
    '{}',
    '{"id":null}',
    '{"id":""}',
    '{"id":"   "}',
    '{"id":[]}',
    '{"id":{}}',
    '{"id":0}',
    '{"id":false}',
    'junk',
  ])('case 8: refuses %s', (json) => expect(() => at(json)).toThrow('body.id'));

  it.each([
    ['', 'received an empty body'],
    ['hello', 'received 5 bytes that are no JSON'],
    ['{"id":1,', 'received 8 bytes that are no JSON'],
  ])('says what the body %j is, rather than that it has no id', (body, said) =>
    expect(() => at(body)).toThrow(said),
  );

  it('case 36: keeps the digits of numbers that JSON.parse rounds', () => {
    expect(at('{"id":9007199254740992}')).toBe('9007199254740992');
    expect(at('{"id":9007199254740993,"id2":1}')).toBe('9007199254740993');
  });

  it('stores longer ids as their hash and refuses control characters and lone surrogates', () => {
    expect(eventId('a'.repeat(255), 'header')).toBe('a'.repeat(255));
    expect(eventId('a'.repeat(256), 'header')).toMatch(/^sha256:[0-9a-f]{64}$/);
    for (const id of ['a\u0000', 'a\nb', '\u202ea', 'a\ud83d'])
      expect(() => eventId(id, 'header')).toThrow('header');
  });
});
