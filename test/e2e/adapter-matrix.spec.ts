import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { ADAPTERS } from '../support/application.js';
import { INVALID, OK, Receiver, TOO_LARGE, UNAUTHORIZED, UNSUPPORTED_ENCODING } from '../support/receiver.js';
import { awardee, sesmetric, type SignedRequest } from '../support/signing.js';
import { awardeeSource, sesmetricSource } from '../support/sources.js';

/*
 * The frameworks' own parsers disagree on most of these: 415 here and a string there, decompressed here and 400 there, bytes gone
 * for one content type and kept for another. A source's verdict depends on the signed bytes alone, so each row expects one answer
 * for both adapters, and in the table the bytes that were signed.
 */
const CONTENT_TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'application/json; charset=iso-8859-1',
  'application/json; charset=utf-16le',
  'application/json; charset=nonsense',
  'application/vnd.acme+json',
  'application/cloudevents+json',
  'text/plain',
  undefined,
  'application/xml',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/octet-stream',
  'not a content type',
];

const BODIES: Readonly<Record<string, Buffer>> = {
  'JSON as the sender wrote it': Buffer.from('{ "b":1.0, "a":"\\u00e9é" }\n'),
  junk: Buffer.from('{"half":'),
  'an empty body': Buffer.alloc(0),
  'the number 1': Buffer.from('1'),
  null: Buffer.from('null'),
  'a __proto__ key': Buffer.from(
    '{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}',
  ),
  '45,000 levels of nesting': Buffer.from(`${'['.repeat(45_000)}${']'.repeat(45_000)}`),
  'invalid UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x80, 0x22, 0x7d]),
  'NUL and a lone surrogate': Buffer.from('{"a":"x\\u0000","b":"\\ud83d"}'),
  'equal keys and a number beyond a double': Buffer.from('{"a":1,"a":2,"n":9007199254740993,"e":1e400}'),
  'a form': Buffer.from('a=1&a=2&__proto__[x]=1'),
  'a byte order mark': Buffer.from('\ufeff{"a":1}'),
  'UTF-16': Buffer.from('{"a":1}', 'utf16le'),
};

const withHeaders = (request: SignedRequest, headers: Record<string, string | undefined>): SignedRequest => ({
  body: request.body,
  headers: Object.fromEntries(
    Object.entries({ ...request.headers, ...headers }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  ),
});

describe.each(ADAPTERS)('adapter matrix on %s', (adapter) => {
  let receiver: Receiver;
  let deliveries = 0;
  const nextId = () => `matrix-${++deliveries}`;

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      webhooks: {
        sources: {
          awardee: awardeeSource(),
          sesmetric: sesmetricSource(),
          encoded: awardeeSource({ encodings: ['gzip', 'deflate', 'br'], maxBytes: 100_000 }),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  const storedBody = async (eventId: string) => {
    const [claim] = await receiver.query<{ body: Buffer }>(
      `SELECT body FROM webhook_claim WHERE event_id = $1`,
      [eventId],
    );
    return claim?.body;
  };

  describe.each(CONTENT_TYPES)('case 6: content type %s', (type) => {
    it.each(Object.keys(BODIES))(
      'keeps the signed bytes of %s, and refuses them with one more',
      async (name) => {
        const body = BODIES[name]!;
        const eventId = nextId();
        const request = withHeaders(awardee(eventId, 'grant.made', body), { 'content-type': type });
        expect(await receiver.deliver('awardee', request)).toBe(OK);
        expect((await storedBody(eventId))?.equals(body)).toBe(true);

        const forged = withHeaders(
          { ...request, body: Buffer.concat([body, Buffer.from(' ')]) },
          {
            'X-Awardee-Delivery': nextId(),
          },
        );
        expect(await receiver.deliver('awardee', forged)).toBe(UNAUTHORIZED);
      },
    );

    it('reads the id from a JSON body, whatever the content type says', async () => {
      const id = nextId();
      const request = withHeaders(sesmetric({ id, type: 'bounce' }), { 'content-type': type });
      expect(await receiver.deliver('sesmetric', request)).toBe(OK);
      expect(await receiver.event(id)).toMatchObject({ event_type: 'bounce' });
    });
  });

  it.each(Object.keys(BODIES))('answers 400 for %s where the id must come from the body', async (name) => {
    const before = await receiver.claims();
    expect(await receiver.deliver('sesmetric', sesmetric(BODIES[name]))).toBe(INVALID);
    expect(await receiver.claims()).toBe(before);
  });

  it('leaves the prototype of every object alone', () => {
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  it('case 4: refuses a body that was parsed and written again', async () => {
    const { body, headers } = awardee(nextId(), 'grant.made', '{"b": 1.0,\n"a":"\\u00e9"}');
    const rewritten = Buffer.from(JSON.stringify(JSON.parse(body.toString())));
    expect(await receiver.deliver('awardee', { body: rewritten, headers })).toBe(UNAUTHORIZED);
  });

  describe('case 32: content encodings', () => {
    const COMPRESS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };
    const encoded = (request: SignedRequest, encoding: string, body: Buffer) =>
      withHeaders({ ...request, body }, { 'content-encoding': encoding });

    it.each(['gzip', 'deflate', 'br'] as const)(
      'undoes %s before the signature where the source accepts it',
      async (encoding) => {
        const id = nextId();
        const plain = awardee(id, 'grant.made', { text: 'é'.repeat(1000) });
        const request = encoded(plain, encoding, COMPRESS[encoding](plain.body));
        expect(await receiver.deliver('encoded', request)).toBe(OK);
        expect((await storedBody(id))?.equals(plain.body)).toBe(true);
      },
    );

    it.each(['gzip', 'deflate', 'br', 'x-unknown', 'gzip, gzip'])(
      'answers 415 to %s where it does not',
      async (encoding) => {
        const plain = awardee(nextId(), 'grant.made', { a: 1 });
        const compress = COMPRESS[encoding as keyof typeof COMPRESS] ?? ((bytes: Buffer) => bytes);
        const before = await receiver.claims();
        const request = encoded(plain, encoding, compress(plain.body));
        expect(await receiver.deliver('awardee', request)).toBe(UNSUPPORTED_ENCODING);
        expect(await receiver.claims()).toBe(before);
      },
    );

    it('answers 415 to a plain body that claims to be gzip, accepted or not', async () => {
      const plain = awardee(nextId(), 'grant.made', { a: 1 });
      expect(await receiver.deliver('awardee', encoded(plain, 'gzip', plain.body))).toBe(
        UNSUPPORTED_ENCODING,
      );
      expect(await receiver.deliver('encoded', encoded(plain, 'gzip', plain.body))).toBe(
        UNSUPPORTED_ENCODING,
      );
    });

    it('takes "identity" and another case for what they are', async () => {
      const plain = awardee(nextId(), 'grant.made', { a: 1 });
      expect(await receiver.deliver('awardee', encoded(plain, 'identity', plain.body))).toBe(OK);
      const zipped = awardee(nextId(), 'grant.made', { a: 1 });
      expect(await receiver.deliver('encoded', encoded(zipped, 'GZIP', gzipSync(zipped.body)))).toBe(OK);
    });

    it('checks the signature over the plain bytes, not over the compressed ones', async () => {
      const compressed = awardee(nextId(), 'grant.made', gzipSync('{"a":1}'));
      expect(await receiver.deliver('encoded', encoded(compressed, 'gzip', compressed.body))).toBe(
        UNAUTHORIZED,
      );
    });

    it('stops a bomb at the limit of the source, before it is decompressed', async () => {
      const member = gzipSync(Buffer.alloc(1_000_000));
      const bomb = Buffer.concat(Array.from({ length: 90 }, () => member));
      const request = encoded(awardee(nextId(), 'grant.made', 'x'), 'gzip', bomb);
      const before = process.memoryUsage().rss;
      expect(await receiver.deliver('encoded', request)).toBe(TOO_LARGE);
      expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
    });

    it.each(['gzip', 'deflate', 'br'] as const)('limits %s by the bytes it holds', async (encoding) => {
      const exact = awardee(nextId(), 'grant.made', Buffer.alloc(100_000));
      const compress = COMPRESS[encoding];
      expect(await receiver.deliver('encoded', encoded(exact, encoding, compress(exact.body)))).toBe(OK);
      const over = awardee(nextId(), 'grant.made', Buffer.alloc(100_001));
      expect(await receiver.deliver('encoded', encoded(over, encoding, compress(over.body)))).toBe(TOO_LARGE);
    });
  });
});
