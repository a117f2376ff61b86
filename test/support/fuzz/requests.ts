import * as fc from 'fast-check';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { URL_PATH, type SignedRequest } from '../signers/index.js';

type Headers = Readonly<Record<string, string | readonly string[]>>;

const hex = fc.string({ unit: fc.constantFrom(...'0123456789abcdefABCDEF'.split('')), maxLength: 140 });
const base64 = fc.string({ unit: fc.constantFrom(...'ABCXYZabcxyz0189+/=_-'.split('')), maxLength: 140 });
const digits = fc.oneof(
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
  fc.double().map(String),
  fc.constantFrom(
    '1767225600',
    '1767225600000',
    '2026-01-01T00:00:00Z',
    'NaN',
    'Infinity',
    '0x10',
    '1e9',
    ' 1',
    '١٢٣',
  ),
);
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme-composite', maxLength: 30 }),
  fc.constantFrom(
    '',
    ' ',
    'null',
    '__proto__',
    'constructor',
    '\u0000',
    '\ud800',
    '=',
    ',',
    ';',
    '|',
    '.',
    '..',
    '...',
  ),
);
const signature = fc.oneof(
  hex,
  base64,
  fc
    .tuple(
      fc.constantFrom(
        'sha256=',
        'sha1=',
        'v0=',
        'v1=',
        'v1,',
        'v1a,',
        't=1767225600,v1=',
        'ts=1767225600;h1=',
        'Basic ',
        'Bearer ',
      ),
      fc.oneof(hex, base64),
    )
    .map(([prefix, rest]) => prefix + rest),
  fc
    .array(
      fc.tuple(
        fc.constantFrom('t', 'ts', 'v0', 'v1', 'h', 'h1', 'keyId', 'headers'),
        fc.oneof(digits, hex, base64),
      ),
      { maxLength: 15 },
    )
    .map((pairs) => pairs.map(([key, value]) => `${key}=${value}`).join(',')),
  fc.array(base64, { minLength: 3, maxLength: 3 }).map((parts) => parts.join('.')),
);
const headerValue = fc.oneof(signature, digits, anyText);
const headerValues = fc.oneof(
  { weight: 8, arbitrary: headerValue },
  { weight: 1, arbitrary: fc.array(headerValue, { maxLength: 3 }) },
);

const body = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
  fc
    .array(fc.tuple(anyText, anyText), { maxLength: 5 })
    .map((pairs) => Buffer.from(pairs.map(([name, value]) => `${name}=${value}`).join('&'))),
  fc
    .constantFrom(
      '',
      '[]',
      '{}',
      'null',
      '[null]',
      '{"events":[1,null,{}]}',
      '{"__proto__":{"id":1}}',
      '[[[[',
      '{"entry":[{"changes":7}]}',
      '\ufeff{}',
    )
    .map((text) => Buffer.from(text)),
);
const method = fc.constantFrom('POST', 'GET', 'HEAD', 'PUT', 'DELETE', '');
const url = fc.oneof(
  fc.constantFrom(
    URL_PATH,
    '',
    '/',
    '/hooks?bodySHA256=',
    '/hooks?a=%zz',
    '/hooks?challenge=x&challenge=y',
    '/hooks#x',
  ),
  anyText.map((text) => `/hooks?${text}`),
);

/** Requests with the vendor's headers, whose values nobody signed. */
export function randomRequest(genuine: SignedRequest): fc.Arbitrary<WebhookRequest> {
  const names = Object.keys(genuine.headers);
  return fc
    .record({
      method,
      url,
      values: fc.array(fc.option(headerValues, { nil: undefined, freq: 6 }), {
        minLength: names.length,
        maxLength: names.length,
      }),
      type: fc.option(
        fc.constantFrom('application/json', 'application/x-www-form-urlencoded', 'text/plain', '; charset'),
        { nil: undefined },
      ),
      body,
    })
    .map(({ method, url, values, type, body }) => {
      const headers = Object.fromEntries(names.map((name, i) => [name, values[i]]));
      return {
        method,
        url,
        headers: RequestHeaders.from({ ...headers, 'content-type': type }),
        rawBody: body,
      };
    });
}

/** The vendor's own request after one to three small changes to its headers, its URL or its body. */
export function mutatedRequest(genuine: SignedRequest, rawBody: Buffer): fc.Arbitrary<WebhookRequest> {
  const start = {
    method: genuine.method ?? 'POST',
    url: genuine.url ?? URL_PATH,
    headers: genuine.headers,
    rawBody: genuine.body ?? rawBody,
  };
  return fc
    .array(mutation(Object.keys(genuine.headers)), { minLength: 1, maxLength: 3 })
    .map((mutations) => mutations.reduce((request, mutate) => mutate(request), start as Plain))
    .map((request) => ({ ...request, headers: RequestHeaders.from(request.headers) }));
}

interface Plain {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly rawBody: Buffer;
}
type Mutation = (request: Plain) => Plain;

function mutation(names: readonly string[]): fc.Arbitrary<Mutation> {
  const name = fc.constantFrom(...(names.length === 0 ? ['x-none'] : names));
  const onHeader = (change: (value: string) => string | readonly string[] | undefined) =>
    name.map(
      (one): Mutation =>
        (request) =>
          withHeader(request, one, change),
    );
  return fc.oneof(
    fc
      .tuple(fc.nat(), fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }))
      .chain(([at, unit]) => onHeader((value) => replaceAt(value, at, unit))),
    fc.nat().chain((at) => onHeader((value) => value.slice(0, at % (value.length + 1)))),
    fc
      .constantFrom(' ', ',', '=', '\n', 'v1=', '\u0000')
      .chain((extra) => onHeader((value) => value + extra)),
    headerValue.chain((other) => onHeader(() => other)),
    headerValue.chain((other) => onHeader((value) => [value, other])),
    onHeader((value) => [value, value]),
    onHeader((value) => value.toUpperCase()),
    onHeader(() => undefined),
    fc.tuple(fc.nat(), fc.nat({ max: 255 })).map(([at, byte]): Mutation => (request) => ({
      ...request,
      rawBody: bytesReplacedAt(request.rawBody, at, byte),
    })),
    fc.nat().map((at): Mutation => (request) => ({
      ...request,
      rawBody: request.rawBody.subarray(0, at % (request.rawBody.length + 1)),
    })),
    body.map((rawBody): Mutation => (request) => ({ ...request, rawBody })),
    url.map((url): Mutation => (request) => ({ ...request, url })),
  );
}

function withHeader(
  request: Plain,
  name: string,
  change: (value: string) => string | readonly string[] | undefined,
): Plain {
  const value = request.headers[name];
  if (typeof value !== 'string') return request;
  const { [name]: _old, ...others } = request.headers;
  const changed = change(value);
  return { ...request, headers: changed === undefined ? others : { ...others, [name]: changed } };
}

function replaceAt(text: string, at: number, unit: string): string {
  const index = text.length === 0 ? 0 : at % text.length;
  return text.slice(0, index) + unit + text.slice(index + 1);
}

function bytesReplacedAt(bytes: Buffer, at: number, byte: number): Buffer {
  const copy = Buffer.from(bytes);
  if (copy.length > 0) copy[at % copy.length] = byte;
  return copy;
}

/** Bodies of about a size in bytes, in shapes that make careless parsers slow or overflow their stack. */
export const hostileBodies: Readonly<Record<string, (size: number) => string>> = {
  'nested arrays': (size) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  'unclosed arrays': (size) => '['.repeat(size),
  'nested objects': (size) => '{"a":'.repeat(size / 6) + '1' + '}'.repeat(size / 6),
  'one long string': (size) => `{"id":"${'a'.repeat(size)}"}`,
  'many keys': (size) => `{${Array.from({ length: size / 12 }, (_, i) => `"k${i}":"v"`).join(',')}}`,
  'many equal keys': (size) => `{${'"id":"v",'.repeat(size / 9)}"id":"v"}`,
  'many items': (size) => `[${'{"a":1},'.repeat(size / 8)}{}]`,
  'many events': (size) => `{"events":[${'{"a":1},'.repeat(size / 8)}{}]}`,
  backslashes: (size) => `{"id":"${'\\\\'.repeat(size / 2)}"}`,
  'form fields': (size) => 'a=1&'.repeat(size / 4),
  'percent escapes': (size) => `a=${'%41'.repeat(size / 3)}`,
  'one big number': (size) => `{"id":${'9'.repeat(size)}}`,
};

/** Header values of about a size in bytes, in shapes that make careless parsers slow. */
export const hostileHeaderValues: Readonly<Record<string, (size: number) => string>> = {
  commas: (size) => ','.repeat(size),
  'equal signs': (size) => '='.repeat(size),
  spaces: (size) => ' '.repeat(size),
  quotes: (size) => 'a="'.repeat(size / 3),
  letters: (size) => 'a'.repeat(size),
  digits: (size) => '1'.repeat(size),
  pairs: (size) => 't=1,v1=ab,'.repeat(size / 10),
  versions: (size) => 'v1,ab '.repeat(size / 6),
  dots: (size) => '.'.repeat(size),
};
