import { itemsOf, membersOf, type ByteRange } from '../../core/json/json-ranges.js';

/** Deepest nesting that is put in canonical form. What is deeper stays as it was sent: each level is a pass over all that is in it. */
const MAX_DEPTH = 64;

/**
 * The value at a range of JSON text, written so that equal content is equal text: no white space, keys sorted by UTF-16
 * code units, of equal keys the last, strings with the fewest escapes. Numbers keep their digits as sent: reading them as
 * doubles, as RFC 8785 does, makes 9007199254740992 and …993 one event, while 1 and 1.0 staying apart costs a duplicate at worst.
 * @param without dotted paths of members that are left out
 */
export function canonicalJson(json: Buffer, range: ByteRange, without: readonly string[] = []): string {
  return canonical(json, range, without, 0);
}

function canonical(json: Buffer, range: ByteRange, without: readonly string[], depth: number): string {
  if (depth > MAX_DEPTH) return json.toString('utf8', ...range);
  const items = itemsOf(json, range);
  if (items !== undefined) return `[${items.map((item) => canonical(json, item, [], depth + 1)).join(',')}]`;
  const members = membersOf(json, range);
  if (members === undefined) return canonicalScalar(json.toString('utf8', ...range));
  const last = [...new Map(members)]
    .filter(([name]) => !without.includes(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const written = last.map(([name, value]) => {
    const below = without.flatMap((path) => (path.startsWith(`${name}.`) ? path.slice(name.length + 1) : []));
    return `${JSON.stringify(name)}:${canonical(json, value, below, depth + 1)}`;
  });
  return `{${written.join(',')}}`;
}

function canonicalScalar(text: string): string {
  return text.startsWith('"') ? JSON.stringify(JSON.parse(text)) : text;
}
