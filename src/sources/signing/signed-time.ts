import { SignatureRejection } from '../../core/errors.js';

/** Unit in which a vendor writes the time it signs. */
export type TimeUnit = 'seconds' | 'milliseconds' | 'iso8601';

const DIGITS = /^(?:0|[1-9][0-9]{0,15})$/;
// Twitch sends nanoseconds; Date.parse reads more digits than it keeps.
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * Milliseconds since 1970 of a signed timestamp. Digits only: parseInt reads '1e3', ' 7' and '7x' as numbers, and NaN
 * passes every comparison with a tolerance.
 * @throws SignatureRejection `missing-timestamp` or `malformed-timestamp`
 */
export function signedTime(text: string | undefined, unit: TimeUnit): number {
  if (text === undefined || text === '')
    throw new SignatureRejection('missing-timestamp', 'the request carries no timestamp');
  const at = unit === 'iso8601' ? isoTime(text) : decimalTime(text, unit);
  if (at === undefined)
    throw new SignatureRejection('malformed-timestamp', `expected ${unit}, received other text`);
  return at;
}

function decimalTime(text: string, unit: 'seconds' | 'milliseconds'): number | undefined {
  if (!DIGITS.test(text)) return undefined;
  return unit === 'seconds' ? Number(text) * 1000 : Number(text);
}

function isoTime(text: string): number | undefined {
  const at = ISO.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}
