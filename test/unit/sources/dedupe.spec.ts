import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { BodyReader } from '../../../src/core/body.js';
import { ConfigurationError, EventIdUnusable } from '../../../src/core/errors.js';
import { RequestHeaders } from '../../../src/core/request.js';
import { hmac, line, mailgun, stripe, type DedupeKey } from '../../../src/sources/index.js';

const secrets = ['some-signing-key'];

function idOf(dedupe: DedupeKey, body: string, headers: Record<string, string> = {}): string | undefined {
  const { provider } = stripe({ secrets, dedupe });
  const rawBody = Buffer.from(body);
  const request = { method: 'POST', url: '/hooks', headers: RequestHeaders.from(headers), rawBody };
  return provider.identify(request, new BodyReader(rawBody))[0]?.id;
}

describe('dedupe keys', () => {
  it('are the provider’s preset by default', () => expect(idOf('preset', '{"id":"evt_1"}')).toBe('evt_1'));
  it('can be a header', () => expect(idOf({ header: 'X-Id' }, '{}', { 'x-id': 'h1' })).toBe('h1'));
  it('can be a path of the body, digits kept', () =>
    expect(idOf({ path: 'data.n' }, '{"data":{"n":9007199254740993}}')).toBe('9007199254740993'));
  it('can be a function of the event', () => {
    expect(idOf(({ payload, type }) => `${type}/${(payload as { n: number }).n}`, '{"n":1,"type":"t"}')).toBe(
      't/1',
    );
  });
  it('can be several together, whose parts do not run into each other', () => {
    const key: DedupeKey = [{ path: 'a' }, { path: 'b' }];
    expect(idOf(key, '{"a":"x:y","b":"z"}')).toBe('x%3Ay:z');
    expect(idOf(key, '{"a":"x","b":"y:z"}')).toBe('x:y%3Az');
    expect(idOf(key, '{"a":"x%3Ay","b":"z"}')).not.toBe(idOf(key, '{"a":"x:y","b":"z"}'));
  });
  it('do not need the preset’s id where they do not use it', () =>
    expect(idOf({ hash: 'body' }, '{}')).toMatch(/^content:/));
  it('refuse what is no id, like every id', () => {
    expect(() => idOf(() => '', '{}')).toThrow(EventIdUnusable);
    expect(() => idOf({ header: 'X-Id' }, '{}')).toThrow(EventIdUnusable);
    expect(() => idOf([{ path: 'a' }, { path: 'b' }], '{"a":"x"}')).toThrow(EventIdUnusable);
  });
  it('are stored as their hash when they are long', () =>
    expect(idOf({ path: 'id' }, `{"id":"${'x'.repeat(300)}"}`)).toMatch(/^sha256:/));
});

describe('R33 content hash: one event that a provider repeats under several ids', () => {
  const fields: DedupeKey = { hash: ['data.id', 'type'] };

  it('is off unless a source asks for it', () => {
    expect(idOf('preset', '{"id":"evt_1","data":1}')).not.toBe(idOf('preset', '{"id":"evt_2","data":1}'));
  });

  it('is the SHA-256 of the exact bytes', () => {
    const expected = createHash('sha256').update('{"a":1}').digest('hex');
    expect(idOf({ hash: 'body' }, '{"a":1}')).toBe(`content:${expected}`);
    expect(idOf({ hash: 'body' }, '{"a": 1}')).not.toBe(`content:${expected}`);
  });

  it('or of chosen fields: one line each, sorted by path, in canonical JSON', () => {
    const canonical = '"data.id"={"a":[1,2],"b":"é"}\n"type"="made"';
    const expected = `content:${createHash('sha256').update(canonical).digest('hex')}`;
    expect(idOf(fields, '{"id":"evt_1","type":"made","data":{"id":{"b":"\\u00e9","a":[1, 2]}}}')).toBe(
      expected,
    );
    expect(
      idOf(
        { hash: ['type', 'data.id', 'type'] },
        '{"id":"evt_2","data":{"id":{"a":[1,2],"b":"é"}},"type":"made"}',
      ),
    ).toBe(expected);
  });

  it('tells an absent field from null, 1 from 1.0 and long numbers by their digits', () => {
    const bodies = [
      '{"type":"t"}',
      '{"type":"t","data":{"id":null}}',
      '{"type":"t","data":{"id":1}}',
      '{"type":"t","data":{"id":1.0}}',
      '{"type":"t","data":{"id":9007199254740992}}',
      '{"type":"t","data":{"id":9007199254740993}}',
      '{"type":"t","data":{"id":"1"}}',
    ];
    expect(new Set(bodies.map((body) => idOf(fields, body))).size).toBe(bodies.length);
  });

  it('takes the last of two equal keys, as every reader of the event does', () => {
    expect(idOf(fields, '{"type":"x","type":"t","data":{"id":1}}')).toBe(
      idOf(fields, '{"type":"t","data":{"id":1}}'),
    );
  });

  it('refuses bodies that hold none of the fields, or are no JSON: they would all be one event', () => {
    for (const body of ['{}', '{"data":{}}', 'null', '[]', 'junk', ''])
      expect(() => idOf(fields, body)).toThrow(EventIdUnusable);
  });

  it('takes what is nested deeper than 64 levels as it was sent, without overflowing', () => {
    const deep = (value: string, space = '') =>
      `{"type":${space}${'['.repeat(50_000)}${value}${']'.repeat(50_000)}}`;
    expect(idOf(fields, deep('1', ' '))).toBe(idOf(fields, deep('1')));
    expect(idOf(fields, deep('2'))).not.toBe(idOf(fields, deep('1')));
  });

  it('does not depend on white space, escapes or the order of keys, for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const one = `{"type":"t","data":{"id":${JSON.stringify(value)}}}`;
        const other = `{ "data" : { "id" : ${JSON.stringify(shuffled(value), null, 2)} }, "type":"\\u0074" }`;
        expect(idOf(fields, other)).toBe(idOf(fields, one));
      }),
      { numRuns: 1000 },
    );
  });

  function shuffled(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => shuffled(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .toReversed()
        .map(([name, item]) => [name, shuffled(item)]),
    );
  }
});

describe('whether a key is signed', () => {
  const signedBy = (dedupe: DedupeKey) => stripe({ secrets, dedupe }).provider.signed.id;
  it('follows from what it is made of', () => {
    expect(signedBy({ path: 'id' })).toBe(true);
    expect(signedBy({ hash: 'body' })).toBe(true);
    expect(signedBy({ header: 'X-Id' })).toBe(false);
    expect(signedBy([{ path: 'id' }, { header: 'X-Id' }])).toBe(false);
    expect(signedBy(() => 'x')).toBe(false);
    expect(mailgun({ secrets, dedupe: { path: 'event-data.id' } }).provider.signed.id).toBe(false);
  });
});

describe('keys that cannot be meant are refused at boot', () => {
  it.each([
    [[]],
    [{ hash: [] }],
    [{ hash: 'fields' }],
    [{ path: '' }],
    [{ pth: 'id' }],
    [{ header: 'a', path: 'b' }],
    ['id'],
    [null],
    [7],
  ])('%j', (dedupe) => {
    expect(() => stripe({ secrets, dedupe: dedupe as never })).toThrow(ConfigurationError);
  });

  it('a header as the key of a batch: all its events would be one', () => {
    expect(() => line({ secrets, dedupe: { header: 'X-Id' } })).toThrow('between the events of one body');
    expect(() => line({ secrets, dedupe: [{ header: 'X-Id' }] })).toThrow('between the events of one body');
    expect(() =>
      hmac({ secrets, signatureHeader: 'x-s', eventsPath: '', dedupe: { header: 'X-Id' } }),
    ).toThrow(ConfigurationError);
    expect(line({ secrets, dedupe: [{ header: 'X-Id' }, 'preset'] }).provider.name).toBe('line');
  });
});
