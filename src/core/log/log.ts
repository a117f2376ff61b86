import { isNativeError } from 'node:util/types';
import { WebhookInboxError } from '../errors.js';
import { headOf, storable } from '../event.js';
import { withoutValues } from './value-free.js';

/** What is kept and told of an error: its text may hold a whole answer. */
export const MAX_ERROR_BYTES = 4_000;

/** How many characters of a value stand on a log line. */
export const MAX_VALUE = 128;

/** Facts that stand on each log line: source, event, outbox, attempt, … */
export type Facts = Readonly<Record<string, string | number | undefined>>;

/** `message key=value key="odd value"`: one line whatever the values hold, each cut to `MAX_VALUE` characters. */
export function logLine(message: string, facts: Facts): string {
  const parts = Object.entries(facts)
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([key, value]) => `${key}=${shown(String(value))}`);
  return [oneLine(message), ...parts].join(' ');
}

/**
 * An error as text for logs, alerts and tables: its name and message, never its parameters, which may hold a payload. With the code of
 * its cause: fetch says 'fetch failed' whatever it was. Of the database's and the parser's own messages only what holds no value (see
 * `withoutValues`). Cut to what a row keeps.
 */
export function errorText(error: unknown): string {
  return storable(wholeText(error), MAX_ERROR_BYTES);
}

function wholeText(error: unknown): string {
  try {
    return toldText(error);
  } catch {
    // `throw Object.create(null)`, or a getter that throws: the failure is to be recorded all the same.
    return 'something thrown that cannot be told as text';
  }
}

/** Those of Node's own that were made outside of this context, too. */
function isError(error: unknown): error is Error {
  return error instanceof Error || isNativeError(error);
}

function toldText(error: unknown): string {
  if (!isError(error)) return `non-Error thrown: ${String(error)}`;
  const told = withoutValues(error);
  const text = error.name === 'Error' ? told : `${error.name}: ${told}`;
  const { code } = Object(error.cause) as { code?: unknown };
  return typeof code === 'string' && !text.includes(code) ? `${text} (${code})` : text;
}

/** As `errorText`, with what only the table may hold: the `detail` of an error, which may echo what was sent. */
export function errorDetail(error: unknown): string {
  const detail = error instanceof Error && 'detail' in error ? error.detail : undefined;
  const text = errorText(error);
  // Of errors that are not ours (pg's `detail` holds column values) nothing is taken.
  return error instanceof WebhookInboxError && typeof detail === 'string' && detail !== ''
    ? `${text}: ${detail}`
    : text;
}

function shown(value: string): string {
  const cut = value.length > MAX_VALUE ? `${headOf(value, MAX_VALUE - 1)}…` : value;
  return /^[\w.:/@…-]+$/.test(cut) ? cut : oneLine(JSON.stringify(cut));
}

const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

function oneLine(text: string): string {
  return text.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
