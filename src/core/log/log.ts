import { inspect } from 'node:util';
import { isNativeError } from 'node:util/types';
import { headOf, storable } from '../event.js';
import { withoutValues } from './value-free.js';

/** The longest text of an error that is kept and logged: it may hold a whole answer. */
export const MAX_ERROR_BYTES = 4_000;

/** How many characters of a value stand on a log line. */
export const MAX_VALUE = 128;

/** Names that pino, winston and Nest's own logger give to their parts of a line. */
export const LOGGERS_OWN = [
  'msg',
  'message',
  'level',
  'time',
  'timestamp',
  'pid',
  'hostname',
  'context',
  'stack',
] as const;

/** Facts that stand on a log line: source, event, outbox, attempt, … Never by a name that loggers give to their own fields. */
export type Facts = Readonly<Record<string, string | number | undefined>> & {
  readonly [name in (typeof LOGGERS_OWN)[number]]?: never;
};

/**
 * One line of the log. A logger that keeps objects, as nestjs-pino does, finds its facts as fields beside `msg`. Nest's own logger,
 * `String(line)` and `console.log(line)` show `msg key=value key="odd value"`. It is always one line. A value is cut to `MAX_VALUE`
 * characters.
 */
export class LogLine {
  readonly msg: string;
  /** Frames of an error's stack: the one field with lines of its own. */
  declare readonly stack?: string;

  constructor(message: string, facts: Facts, stack?: string) {
    this.msg = oneLine(message);
    for (const [key, given] of Object.entries(facts)) {
      if (given === undefined || given === '') continue;
      const value = typeof given === 'number' ? given : cut(given);
      // Not assigned: a fact may have the name of a method below.
      Object.defineProperty(this, key, { value, enumerable: true });
    }
    if (stack !== undefined) this.stack = stack.split('\n').map(oneLine).join('\n');
  }

  /** Where nest-winston looks for the text. */
  get message(): string {
    return this.msg;
  }

  toString(): string {
    // A text may begin with its source.
    const told = this.msg.startsWith("source '") ? ['msg', 'stack', 'source'] : ['msg', 'stack'];
    const facts = Object.entries(this).filter(([key]) => !told.includes(key));
    const line = [this.msg, ...facts.map(([key, value]) => `${key}=${shown(String(value))}`)].join(' ');
    return this.stack === undefined ? line : `${line}\n${this.stack}`;
  }

  [inspect.custom](): string {
    return this.toString();
  }

  /** As the methods below. */
  get [Symbol.toStringTag](): string {
    return 'String';
  }
}

// A logger of the application may take each line for a text, and mask a part of it or search in it.
for (const name of Object.getOwnPropertyNames(String.prototype)) {
  const method: unknown = Reflect.get(String.prototype, name);
  if (typeof method !== 'function' || Object.hasOwn(LogLine.prototype, name)) continue;
  const value = function (this: LogLine, ...given: unknown[]): unknown {
    return Reflect.apply(method, this.toString(), given);
  };
  Object.defineProperty(LogLine.prototype, name, { value });
}

export function logLine(message: string, facts: Facts): LogLine {
  return new LogLine(message, facts);
}

/**
 * An error as text for logs, alerts and tables: its name, message and the code of its cause, since fetch always says 'fetch failed'. It
 * never holds parameters, which may hold a payload. Messages of the database and of parsers are cut to the parts without values (see
 * `withoutValues`). The text is cut to the length that a row keeps.
 */
export function errorText(error: unknown): string {
  return storable(wholeText(error), MAX_ERROR_BYTES);
}

function wholeText(error: unknown): string {
  try {
    return ownText(error);
  } catch {
    // `throw Object.create(null)`, or a getter that throws. The failure must be recorded all the same.
    return 'a thrown value that cannot be shown as text';
  }
}

/** Those of Node's own that were made outside of this context, too. */
function isError(error: unknown): error is Error {
  return error instanceof Error || isNativeError(error);
}

function ownText(error: unknown): string {
  if (!isError(error)) return `non-Error thrown: ${String(error)}`;
  const told = withoutValues(error);
  const text = error.name === 'Error' ? told : `${error.name}: ${told}`;
  const { code } = Object(error.cause) as { code?: unknown };
  return typeof code === 'string' && !text.includes(code) ? `${text} (${code})` : text;
}

const shown = (value: string) => (/^[\w.:/@…-]+$/.test(value) ? value : JSON.stringify(value));

function cut(value: string): string {
  return oneLine(value.length > MAX_VALUE ? `${headOf(value, MAX_VALUE - 1)}…` : value);
}

const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function oneLine(text: string): string {
  return text.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
