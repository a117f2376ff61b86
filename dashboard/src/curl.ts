import type { EventDetail } from './types.ts';

/** A shell takes an argument of 128 kB at most. */
const MAX_BYTES = 100_000;

/**
 * The delivery as a command for bash or zsh; undefined for a body that no argument can hold. `--data-raw`, since a body or a header's
 * value is what somebody sent: `--data-binary` would take a file of the reader's for one that starts with `@`.
 */
export function curlOf(event: Pick<EventDetail, 'headers'>, body: string): string | undefined {
  if (body.includes('\u0000') || new TextEncoder().encode(body).length > MAX_BYTES) return undefined;
  const headers = Object.entries(event.headers).map(([name, value]) =>
    // Without a value curl would leave the header out.
    shellQuoted(value === '' ? `${name};` : `${name}: ${value}`),
  );
  // Of itself curl would say that it is a form.
  if (!Object.keys(event.headers).some((name) => name.toLowerCase() === 'content-type'))
    headers.push(shellQuoted('content-type:'));
  return [
    'curl -X POST "$URL"',
    ...headers.map((header) => `-H ${header}`),
    `--data-raw ${shellQuoted(body)}`,
  ].join(' \\\n  ');
}

/** As it is between single quotes: printable, and no quote, backslash or `!`, which an interactive shell may expand. */
const PLAIN = /^[^'!\\\p{C}\p{Zl}\p{Zp}]*$/u;
const ESCAPED = /['!\\\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * In single quotes where every character is printable; else as `$'…'` with escapes. A terminal acts on control characters of what is
 * pasted before the shell sees a quote: Ctrl-C drops the line, and what follows runs.
 */
function shellQuoted(text: string): string {
  return PLAIN.test(text) ? `'${text}'` : `$'${text.replace(ESCAPED, escaped)}'`;
}

function escaped(character: string): string {
  const bytes = [...new TextEncoder().encode(character)];
  return bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}
