import { EventIdUnusable } from '../../core/errors.js';
import { itemsOf, membersOf, type ByteRange } from './json-ranges.js';

/** Deepest nesting that is put in canonical form. */
const MAX_DEPTH = 64;

/**
 * The value at a range of JSON text, written so that equal content is equal text: no white space, keys sorted by UTF-16
 * code units, of equal keys the last, strings with the fewest escapes. Numbers keep their digits as sent: reading them as
 * doubles, as RFC 8785 does, makes 9007199254740992 and …993 one event, while 1 and 1.0 staying apart costs a duplicate at worst.
 * @throws EventIdUnusable when it is nested more than 64 levels deep
 */
export function canonicalJson(json: Buffer, range: ByteRange, depth = 0): string {
  if (depth > MAX_DEPTH) throw new EventIdUnusable(`dedupe.hash: nested more than ${MAX_DEPTH} levels deep`);
  const items = itemsOf(json, range);
  if (items !== undefined) return `[${items.map((item) => canonicalJson(json, item, depth + 1)).join(',')}]`;
  const members = membersOf(json, range);
  if (members === undefined) return canonicalScalar(json.toString('utf8', ...range));
  const last = [...new Map(members)].sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${last.map(([name, value]) => `${JSON.stringify(name)}:${canonicalJson(json, value, depth + 1)}`).join(',')}}`;
}

function canonicalScalar(text: string): string {
  return text.startsWith('"') ? JSON.stringify(JSON.parse(text)) : text;
}
