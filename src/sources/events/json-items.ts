import type { BodyReader } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { itemRanges } from '../../core/json/json-ranges.js';

/**
 * The exact bytes of each item of the array at a path (see `itemRanges`); nothing is parsed and written again, since that
 * would change what the vendor signed.
 * @throws EventIdUnusable when the body is not JSON or there is no array
 */
export function jsonItems(body: BodyReader, path: string): Buffer[] {
  // The scanner trusts its input to be JSON, so the parser runs first.
  const ranges = body.json() === undefined ? undefined : itemRanges(body.bytes, path);
  if (ranges === undefined)
    throw new EventIdUnusable(`body${path === '' ? '' : `.${path}`}: expected an array of events`);
  return ranges.map(([start, end]) => body.bytes.subarray(start, end));
}
