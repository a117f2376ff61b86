/** Characters that hide, reorder or end what is around them; shown by their number instead. */
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    (char) => `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}

const MAX_INDENT = 24;

/**
 * JSON with line breaks, made from its characters and not from its values: big numbers, repeated keys and any depth stay as sent.
 * Ends after `max` characters.
 */
export function prettyJson(text: string, max: number): { text: string; cut: boolean } {
  const out = { parts: [] as string[], length: 0 };
  let depth = 0;
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
      push(text.slice(at, Math.min(end, at + max)));
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
  return { text: out.parts.join(''), cut: at < text.length };
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
