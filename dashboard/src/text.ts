/** Characters that hide, reorder or end what is around them; shown by their number instead. */
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A joiner between two pictures makes one of them, such as a family. */
const JOINED =
  /(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})/gu;

export function visible(text: string): string {
  const joined = new Set([...text.matchAll(JOINED)].map(({ index }) => index));
  return text.replace(UNSEEN, (char, at: number) =>
    joined.has(at) ? char : `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}

/** Bytes sixteen a line: offset, hexadecimal, and the printable ones as characters. */
export function hexOf(bytes: Uint8Array, max: number): { text: string; cut: boolean } {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, max); at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return { text: lines.join('\n'), cut: bytes.length > max };
}

/** Bytes as text, with those that are no UTF-8 as marks. */
export function markedText(bytes: Uint8Array): string {
  let text = '';
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let from = 0;
  while (from < bytes.length) {
    const end = validEnd(bytes, from, decoder);
    text += decoder.decode(bytes.subarray(from, end));
    if (end < bytes.length) text += `⟨byte ${bytes[end]!.toString(16).toUpperCase().padStart(2, '0')}⟩`;
    from = end + 1;
  }
  return text;
}

/** Where the first byte lies that is part of no character. */
function validEnd(bytes: Uint8Array, from: number, decoder: TextDecoder): number {
  let at = from;
  while (at < bytes.length) {
    const size = sizeOf(bytes[at]!);
    if (size === 0 || (size > 1 && !decodes(bytes.subarray(at, at + size), size, decoder))) return at;
    at += size;
  }
  return at;
}

/** How many bytes a character has that begins with this one; 0 for one that begins none. */
function sizeOf(byte: number): number {
  if (byte < 0x80) return 1;
  if (byte < 0xc2 || byte > 0xf4) return 0;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

function decodes(bytes: Uint8Array, size: number, decoder: TextDecoder): boolean {
  if (bytes.length < size) return false;
  try {
    decoder.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

const MAX_INDENT = 24;

/**
 * JSON with line breaks, made from its characters and not from its values: big numbers, repeated keys and any depth stay as sent.
 * Ends after `max` characters; a string shows its first `longest`.
 */
export function prettyJson(
  text: string,
  max: number,
  longest = Infinity,
): { text: string; cut: boolean; shortened: boolean } {
  const out = { parts: [] as string[], length: 0 };
  let depth = 0;
  let shortened = false;
  let at = 0;
  const push = (part: string) => {
    out.parts.push(part);
    out.length += part.length;
  };
  const line = () => push(`\n${'  '.repeat(Math.min(depth, MAX_INDENT))}`);
  while (at < text.length && out.length < max) {
    const char = text[at]!;
    if (char === '"') {
      const end = endOfString(text, at);
      const isLong = end - at > longest + 2;
      shortened ||= isLong;
      push(
        isLong
          ? `${text.slice(at, at + longest)}… ${end - at - 2 - longest} more"`
          : text.slice(at, Math.min(end, at + max)),
      );
      at = end;
      continue;
    }
    if (char === '{' || char === '[') {
      const close = nextSolid(text, at + 1);
      if (text[close] === '}' || text[close] === ']') {
        push(`${char}${text[close]}`);
        at = close + 1;
        continue;
      }
      push(char);
      depth += 1;
      line();
    } else if (char === '}' || char === ']') {
      depth = Math.max(0, depth - 1);
      line();
      push(char);
    } else if (char === ',') {
      push(char);
      line();
    } else if (char === ':') push(': ');
    else if (char > ' ') push(char);
    at += 1;
  }
  return { text: out.parts.join(''), cut: at < text.length, shortened };
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function nextSolid(text: string, start: number): number {
  let at = start;
  while (at < text.length && text[at]! <= ' ') at += 1;
  return at;
}

/** Whether the text looks like JSON, by its first character. */
export function looksLikeJson(text: string): boolean {
  return /^\s*[[{]/.test(text);
}
