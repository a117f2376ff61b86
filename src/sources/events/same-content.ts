import { parseJson } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { canonicalJson } from './canonical-json.js';
import { rootOf } from './json-ranges.js';

/**
 * Whether two bodies say the same, apart from what a retry changes: equal canonical JSON without those paths. Bodies that are no JSON,
 * or too deep for that, are compared by their bytes.
 */
export function isSameContent(first: Buffer, second: Buffer, changes: readonly string[]): boolean {
  if (parseJson(first) === undefined || parseJson(second) === undefined) return isSameText(first, second);
  try {
    return canonicalJson(first, rootOf(first), changes) === canonicalJson(second, rootOf(second), changes);
  } catch (error) {
    if (error instanceof EventIdUnusable) return isSameText(first, second);
    throw error;
  }
}

/** Bodies that were both verified: there is nothing to find out by the time that it takes. */
function isSameText(first: Buffer, second: Buffer): boolean {
  return first.toString('latin1') === second.toString('latin1');
}
