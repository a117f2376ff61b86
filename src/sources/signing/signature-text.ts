import { SignatureRejection } from '../../core/errors.js';
import type { RequestHead } from '../../core/request.js';

/** The parts of a signature header, still as text. */
export interface SignatureText {
  /** Signatures of the accepted version; any of them may verify. */
  readonly signatures: readonly string[];
  /** The timestamp, where the signature header carries it. */
  readonly timestamp?: string;
}
/** Reads headers alone, so that a request can be refused before its body has come. */
export type SignatureReader = (request: RequestHead) => SignatureText;

/** Longest signature header that is read, in characters: ten signatures of 512 bits fit. */
const MAX_HEADER = 4096;
/** Most signatures of one request that are compared. */
const MAX_SIGNATURES = 10;

/**
 * The signature header's only value.
 * @throws SignatureRejection
 */
export function signatureHeader(request: RequestHead, name: string): string {
  const value = request.headers.one(name);
  if (value === undefined || value === '')
    throw new SignatureRejection('missing-signature', `no ${name} header`);
  if (value.length > MAX_HEADER)
    throw new SignatureRejection('malformed-signature', `${name} has ${value.length} characters`);
  return value;
}

/** A header that is one signature, after a fixed prefix such as `sha256=`. */
export function single(name: string, prefix = ''): SignatureReader {
  return (request) => {
    const value = signatureHeader(request, name);
    if (!value.startsWith(prefix))
      throw new SignatureRejection('malformed-signature', `${name} does not start with '${prefix}'`);
    return { signatures: [value.slice(prefix.length)] };
  };
}

/** The first of several headers that is there: a newer name wins over the one it replaces, right or wrong. */
export function firstOf(
  names: readonly [string, ...string[]],
  reader: (name: string) => SignatureReader,
): SignatureReader {
  const readers = names.map((name) => ({ name, read: reader(name) }));
  return (request) => {
    const present = readers.find(({ name }) => request.headers.first(name) !== undefined);
    return (present ?? readers[0]!).read(request);
  };
}

/** The format of a header of pairs, such as `t=1700000000,v1=ab12…`. */
export interface PairsFormat {
  /** Between two pairs. @default ',' */
  readonly separator?: string;
  /** Key of the signature, the accepted version: `v1`. Others are ignored. */
  readonly signature: string;
  /** Key of the timestamp: `t`. @default none */
  readonly timestamp?: string;
  /** Whether one space may follow a separator. @default false */
  readonly spaced?: boolean;
}

/** A header of pairs, `t=…,v1=…,v1=…`, in any order. A timestamp that stands there twice is ambiguous and refused. */
export function pairs(name: string, format: PairsFormat): SignatureReader {
  return (request) => {
    const found = splitPairs(signatureHeader(request, name), format);
    const timestamps = found.filter(([key]) => key === format.timestamp);
    if (timestamps.length > 1)
      throw new SignatureRejection('malformed-timestamp', `${name} has ${timestamps.length} timestamps`);
    const signatures = found.filter(([key]) => key === format.signature).map(([, value]) => value);
    return { signatures: capped(signatures, name), timestamp: timestamps[0]?.[1] };
  };
}

function splitPairs(value: string, format: PairsFormat): [string, string][] {
  return value.split(format.separator ?? ',').map((part, i) => {
    const pair = format.spaced === true && i > 0 && part.startsWith(' ') ? part.slice(1) : part;
    const at = pair.indexOf('=');
    return at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
  });
}

/** Space-separated `version,signature` as Standard Webhooks has it; other versions are ignored, never tried. */
export function versioned(value: string, version: string): readonly string[] {
  const signatures = value
    .split(' ')
    .filter((part) => part.startsWith(`${version},`))
    .map((part) => part.slice(version.length + 1));
  // Too many are refused whichever version they are of, none at all only where the caller needs one.
  return signatures.length > MAX_SIGNATURES ? capped(signatures, 'the signature header') : signatures;
}

function capped(signatures: readonly string[], name: string): readonly string[] {
  if (signatures.length === 0)
    throw new SignatureRejection('malformed-signature', `${name} holds no signature of the accepted version`);
  if (signatures.length > MAX_SIGNATURES)
    throw new SignatureRejection('malformed-signature', `${name} holds ${signatures.length} signatures`);
  return signatures;
}
