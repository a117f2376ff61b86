import { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { isDeeperThan } from '../events/json-ranges.js';

/** Deepest nesting of JSON that is read before it is verified: 500,000 levels in 1 MB cost JSON.parse 300 ms and 60 MB. */
const MAX_DEPTH = 64;
/** Most fields of a form that is read before it is verified, as of Express’s and PHP’s parsers: a million cost 600 ms and 100 MB. */
const MAX_FIELDS = 1000;

/**
 * The JSON of a body whose signature stands in the body, so that it has to be read before it is believed.
 * @throws SignatureRejection when it is nested more than 64 levels deep
 */
export function unbelievedJson(bytes: Buffer): BodyReader {
  if (isDeeperThan(bytes, MAX_DEPTH))
    throw new SignatureRejection(
      'malformed-signature',
      `the body is nested more than ${MAX_DEPTH} levels deep, and the signature stands in it`,
    );
  return new BodyReader(bytes);
}

/**
 * The fields of a form that has to be read before it is believed.
 * @throws SignatureRejection when it has more than 1,000 fields
 */
export function unbelievedForm(bytes: Buffer): URLSearchParams {
  let fields = 1;
  for (let at = bytes.indexOf('&'); at >= 0; at = bytes.indexOf('&', at + 1))
    if (++fields > MAX_FIELDS)
      throw new SignatureRejection('malformed-signature', `the form has more than ${MAX_FIELDS} fields`);
  return new URLSearchParams(bytes.toString('utf8'));
}

/** A text, or a whole number as its digits. Other numbers are none that a vendor signs, and their digits would take a slow parser. */
export function signedTextAt(body: BodyReader, path: string): string | undefined {
  const value = body.at(path);
  if (typeof value === 'string') return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
