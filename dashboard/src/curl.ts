import type { EventDetail } from './types.ts';

/** A shell takes an argument of 128 kB at most. */
const MAX_BYTES = 100_000;

/**
 * The delivery as a command for a POSIX shell; undefined for a body that no argument can hold. `--data-raw`, since a body or a header's
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

/** In single quotes, where a shell takes every character as it is, line breaks too. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
