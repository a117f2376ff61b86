/** First byte and the one after the last. */
export type ByteRange = readonly [start: number, end: number];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Where the items of an array stand in JSON text that JSON.parse accepts. `path` is dotted; `*` stands for every item of an
 * array on the way (`entry.*.changes`); '' is the root. Of two equal keys the last one counts, as in JSON.parse.
 * One pass per step, no recursion: nesting of any depth is fine.
 * @returns undefined when nothing on the path is an array
 */
export function itemRanges(json: Buffer, path: string): ByteRange[] | undefined {
  let values: ByteRange[] = [rootOf(json)];
  for (const step of path === '' ? [] : path.split('.')) {
    values = values.flatMap((value) => {
      if (step === '*') return itemsOf(json, value) ?? [];
      const member = memberOf(json, value, step);
      return member === undefined ? [] : [member];
    });
  }
  const arrays = values.filter(([start]) => json[start] === OPEN_ARRAY);
  return arrays.length === 0 ? undefined : arrays.flatMap((array) => itemsOf(json, array) ?? []);
}

/** The value at a dotted path, or undefined. */
export function rangeAt(json: Buffer, path: string): ByteRange | undefined {
  let value: ByteRange | undefined = rootOf(json);
  for (const step of path.split('.')) value = value && partOf(json, value, step);
  return value;
}

/** The one value of the text, behind a byte order mark. */
export function rootOf(json: Buffer): ByteRange {
  const bom = json[0] === 0xef && json[1] === 0xbb && json[2] === 0xbf ? 3 : 0;
  const start = skipSpace(json, bom);
  return [start, endOf(json, start)];
}

/** The items of the array that starts there; undefined when it is no array. */
export function itemsOf(json: Buffer, value: ByteRange): ByteRange[] | undefined {
  return json[value[0]] === OPEN_ARRAY ? [...eachItem(json, value)] : undefined;
}

/** The same one at a time, for a list that may be too long; none where it is no array. */
export function* eachItem(json: Buffer, [start]: ByteRange): Generator<ByteRange> {
  if (json[start] !== OPEN_ARRAY) return;
  let at = skipSpace(json, start + 1);
  while (at < json.length && json[at] !== CLOSE_ARRAY) {
    const end = endOf(json, at);
    yield [at, end];
    at = skipComma(json, end);
  }
}

/** Whether it is an array or an object. */
export function hasParts(json: Buffer, [start]: ByteRange): boolean {
  return json[start] === OPEN_ARRAY || json[start] === OPEN_OBJECT;
}

/** Names and values of the object that starts there, repeated names too; undefined when it is no object. */
export function membersOf(json: Buffer, value: ByteRange): [name: string, value: ByteRange][] | undefined {
  return json[value[0]] === OPEN_OBJECT ? [...eachMember(json, value)] : undefined;
}

/**
 * One at a time: a list of them takes 100 bytes for a member of five.
 * @param nameOf the name that stands at these bytes, in quotes
 */
export function* eachMember(
  json: Buffer,
  [start]: ByteRange,
  nameOf = (from: number, to: number) => keyText(json, from, to),
): Generator<[name: string, value: ByteRange]> {
  if (json[start] !== OPEN_OBJECT) return;
  let at = skipSpace(json, start + 1);
  while (at < json.length && json[at] !== CLOSE_OBJECT) {
    const keyEnd = endOf(json, at);
    const valueStart = skipSpace(json, skipSpace(json, keyEnd) + 1);
    const valueEnd = endOf(json, valueStart);
    yield [nameOf(at, keyEnd), [valueStart, valueEnd]];
    at = skipComma(json, valueEnd);
  }
}

/** A member of an object, or an item of an array by its index. */
function partOf(json: Buffer, value: ByteRange, name: string): ByteRange | undefined {
  return json[value[0]] === OPEN_ARRAY && /^(?:0|[1-9]\d*)$/.test(name)
    ? itemsOf(json, value)?.[Number(name)]
    : memberOf(json, value, name);
}

function memberOf(json: Buffer, value: ByteRange, name: string): ByteRange | undefined {
  let found: ByteRange | undefined;
  for (const [key, range] of eachMember(json, value)) if (key === name) found = range;
  return found;
}

/** Keys may be written with escapes: `"\u0069d"` is `id`. */
export function keyText(json: Buffer, start: number, end: number): string {
  const text = json.toString('utf8', start, end);
  if (!text.includes('\\')) return text.slice(1, -1);
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/** One past the last byte of the value that starts here. */
function endOf(json: Buffer, start: number): number {
  const first = json[start];
  if (first === QUOTE) return stringEnd(json, start);
  if (first !== OPEN_ARRAY && first !== OPEN_OBJECT) return scalarEnd(json, start);
  let depth = 0;
  for (let at = start; at < json.length; at++) {
    const byte = json[at];
    if (byte === QUOTE) at = stringEnd(json, at) - 1;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) depth++;
    else if ((byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) && --depth === 0) return at + 1;
  }
  return json.length;
}

function stringEnd(json: Buffer, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === BACKSLASH) at++;
    else if (json[at] === QUOTE) return at + 1;
  }
  return json.length;
}

function scalarEnd(json: Buffer, start: number): number {
  let at = start;
  while (at < json.length && !isEnd(json[at]!)) at++;
  // Never an empty value, so that every caller moves on.
  return at === start ? start + 1 : at;
}

function isEnd(byte: number): boolean {
  return byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT || isSpace(byte);
}

function skipComma(json: Buffer, from: number): number {
  const at = skipSpace(json, from);
  return json[at] === COMMA ? skipSpace(json, at + 1) : at;
}

function skipSpace(json: Buffer, from: number): number {
  let at = from;
  while (at < json.length && isSpace(json[at]!)) at++;
  return at;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
