import { RequestHeaders } from '../../core/request.js';

/** The same headers with one digest written otherwise. */
export interface HeaderVariant {
  readonly name: string;
  readonly what: string;
  readonly headers: RequestHeaders;
}

const HEX = /^(?:[0-9a-fA-F]{2}){20,64}$/;
const BASE64 = /^[\w+/-]{26,90}={0,2}$/;
const MAX_HEADERS = 4;

/** The digest in other spellings: another encoding, with or without a prefix. Of the first headers that resemble a digest. */
export function headerVariants(headers: RequestHeaders): HeaderVariant[] {
  const entries = headers.entries();
  return entries
    .flatMap(([name, value], index) => {
      const [, prefix = '', text = ''] = /^((?:sha\d+|v\d|hmac)[=:,])?(.*)$/.exec(value.trim()) ?? [];
      return HEX.test(text) || BASE64.test(text) ? [{ name, prefix, text, index }] : [];
    })
    .slice(0, MAX_HEADERS)
    .flatMap(({ name, prefix, text, index }) =>
      textVariants(prefix, text).map(([what, value]) => {
        const changed = entries.with(index, [name, value]);
        return { name, what, headers: RequestHeaders.fromRaw(changed.flat()) };
      }),
    );
}

function textVariants(prefix: string, text: string): [string, string][] {
  const encodings: [string, string][] = HEX.test(text)
    ? [
        ['', text],
        [' in capitals', text.toLowerCase()],
        [' as hex', Buffer.from(text, 'hex').toString('base64')],
        [' as hex', Buffer.from(text, 'hex').toString('base64url')],
      ]
    : [
        ['', text],
        [' as base64', Buffer.from(text, 'base64').toString('hex')],
        [' in the other base64', Buffer.from(text, 'base64').toString('base64')],
        [' in the other base64', Buffer.from(text, 'base64').toString('base64url')],
      ];
  return encodings.flatMap(([what, value]): [string, string][] => [
    [`${prefix === '' ? 'without a prefix' : `with the prefix '${prefix}'`}${what}`, `sha256=${value}`],
    [`${prefix === '' ? 'bare' : `with the prefix '${prefix}'`}${what}`, value],
    [`with a prefix of its own${what}`, `${prefix}${value}`],
  ]);
}
