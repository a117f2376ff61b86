const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const LINE = 0x0a;
const HEX = Buffer.from('0123456789abcdef');

/** Whether JSON text is nested deeper than `depth`. One pass, no recursion, and no further than to the first that is deeper. */
export function isDeeper(json: Buffer, depth: number): boolean {
  let open = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at]!;
    if (byte === QUOTE) at = stringEnd(json, at);
    else if (isOpening(byte)) open += 1;
    else if (isClosing(byte)) open -= 1;
    if (open > depth) return true;
  }
  return false;
}

/** JSON as `JSON.stringify` writes it: at most six times as long. Undefined for other bytes. */
export function compactJson(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** JSON with each unit beyond ASCII escaped, or undefined where that is longer than `limit` bytes. */
export function asciiJson(json: string, limit: number): string | undefined {
  let size = json.length;
  for (let at = 0; at < json.length; at += 1) if (json.charCodeAt(at) > 0x7f) size += 5;
  if (size === json.length) return json;
  if (size > limit) return undefined;
  const out = Buffer.allocUnsafe(size);
  let end = 0;
  for (let at = 0; at < json.length; at += 1) {
    const unit = json.charCodeAt(at);
    if (unit > 0x7f) end = writeEscape(unit, out, end);
    else out[end++] = unit;
  }
  return out.toString('latin1');
}

/** Digit by digit: a text for each unit takes a hundred times as long. Returns where it ends. */
function writeEscape(unit: number, out: Buffer, at: number): number {
  out[at] = BACKSLASH;
  out[at + 1] = 0x75;
  for (let digit = 0; digit < 4; digit += 1) out[at + 2 + digit] = HEX[(unit >> (12 - 4 * digit)) & 15]!;
  return at + 6;
}

/**
 * Compact JSON with spaces after colons and commas, or with lines that are indented. Undefined where that is longer than `limit`
 * bytes: at a depth of 64, an item of two bytes takes a line of 259.
 */
export function spacedJson(compact: string, limit: number, indent = 0): Buffer | undefined {
  const json = Buffer.from(compact);
  const size = writeSpaced(json, indent, undefined);
  if (size > limit) return undefined;
  const out = Buffer.allocUnsafe(size);
  writeSpaced(json, indent, out);
  return out;
}

/** Returns the size, also without a buffer to write to. */
function writeSpaced(json: Buffer, indent: number, out: Buffer | undefined): number {
  let [size, depth] = [0, 0];
  const put = (byte: number) => {
    if (out !== undefined) out[size] = byte;
    size += 1;
  };
  const breakLine = () => {
    if (indent === 0) return;
    put(LINE);
    out?.fill(SPACE, size, size + depth * indent);
    size += depth * indent;
  };
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at]!;
    if (isClosing(byte)) {
      depth -= 1;
      if (!isOpening(json[at - 1]!)) breakLine();
    }
    put(byte);
    if (byte === QUOTE) for (const end = stringEnd(json, at); at < end;) put(json[(at += 1)]!);
    else if (byte === COLON) put(SPACE);
    else if (byte === COMMA && indent === 0) put(SPACE);
    else if (byte === COMMA) breakLine();
    else if (isOpening(byte)) {
      depth += 1;
      if (!isClosing(json[at + 1]!)) breakLine();
    }
  }
  return size;
}

/** Where the string that starts at `start` ends: its closing quote. */
function stringEnd(json: Buffer, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return Math.min(at, json.length - 1);
}

function isOpening(byte: number): boolean {
  return byte === 0x5b || byte === 0x7b;
}

function isClosing(byte: number): boolean {
  return byte === 0x5d || byte === 0x7d;
}
