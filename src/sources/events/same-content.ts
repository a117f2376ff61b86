import { parseJson } from '../../core/body.js';
import { canonicalJson } from './canonical-json.js';
import { rootOf } from '../../core/json/json-ranges.js';

/**
 * Whether two bodies say the same, apart from what a retry changes: equal canonical JSON without those paths. Bodies that are no JSON
 * are compared by their bytes.
 */
export function isSameContent(first: Buffer, second: Buffer, changes: readonly string[]): boolean {
  if (parseJson(first) === undefined || parseJson(second) === undefined) return isSameText(first, second);
  return canonicalJson(first, rootOf(first), changes) === canonicalJson(second, rootOf(second), changes);
}

/** Bodies that were both verified: there is nothing to find out by the time that it takes. */
function isSameText(first: Buffer, second: Buffer): boolean {
  return first.toString('latin1') === second.toString('latin1');
}
