import { itemsOf, membersOf, type ByteRange } from '../../core/json/json-ranges.js';

/** Deepest nesting that is put in canonical form. Deeper parts stay as sent, since each level is a pass over its whole content. */
const MAX_DEPTH = 64;

/**
 * The value at a range of JSON text, written so that equal content is equal text. It has no white space. Keys are sorted by UTF-16 code
 * units, the last of equal keys counts, and strings have the fewest escapes. Numbers keep their digits as sent. Reading them as doubles, as
 * RFC 8785 does, makes 9007199254740992 and …993 one event, while 1 and 1.0 staying apart costs a duplicate at worst.
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
