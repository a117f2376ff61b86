import { PermanentError } from './errors.js';
import { rangeAt } from './json/json-ranges.js';

/** Reads a verified body lazily: parsed at most once, and never when id and type are in headers. */
export class BodyReader {
  private parsed: { value: unknown } | undefined;

  constructor(readonly bytes: Buffer) {}

  /** The JSON value, or undefined when the bytes are not JSON. */
  json(): unknown {
    this.parsed ??= { value: parseJson(this.bytes) };
    return this.parsed.value;
  }

  /** Whether it begins as JSON and does not parse: cut off on its way, or written wrongly. Forms and XML begin otherwise. */
  get isBrokenJson(): boolean {
    return this.json() === undefined && /^[\s\uFEFF]*[[{]/.test(this.bytes.toString('utf8', 0, 100));
  }

  /** The value at a dotted path (`data.id`), through own properties only. Undefined when there is none. */
  at(path: string): unknown {
    return valueAt(this.json(), path);
  }

  /**
   * The text of a string or number at a path, digits kept as sent; undefined for anything else.
   * JSON.parse rounds 9007199254740993, so that two events would share one id: such numbers are read from the raw text.
   */
  textAt(path: string): string | undefined {
    const value = this.at(path);
    if (typeof value === 'string') return value;
    if (typeof value !== 'number') return undefined;
    if (Number.isSafeInteger(value)) return String(value);
    const digits = rangeAt(this.bytes, path);
    return digits && this.bytes.toString('utf8', ...digits);
  }
}

/** JSON from bytes, or undefined. A byte order mark is skipped, as vendors' SDKs do not agree on it. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(textOf(bytes));
  } catch {
    return undefined;
  }
}

function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

function valueAt(value: unknown, path: string): unknown {
  let current = value;
  for (const name of path.split('.')) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, name)) return undefined;
    current = (current as Record<string, unknown>)[name];
  }
  return current;
}

/** The stored bytes are not what their content type says. Permanent: they will not change. */
export class UnreadableBody extends PermanentError {}

/**
 * The payload of stored bytes. It is JSON for JSON types, and an object for forms. Any other type is JSON where it can be parsed (SNS sends
 * JSON as text/plain), else text.
 * @throws UnreadableBody when a JSON type does not hold JSON
 */
export function parsePayload(bytes: Buffer, contentType: string | undefined): unknown {
  const type = contentType?.split(';', 1)[0]!.trim().toLowerCase() ?? '';
  if (type === 'application/x-www-form-urlencoded') {
    return Object.fromEntries(new URLSearchParams(bytes.toString('utf8')));
  }
  const value = parseJson(bytes);
  if (value !== undefined) return value;
  if (type === '' || type === 'application/json' || type.endsWith('+json')) {
    throw new UnreadableBody(`the body (${bytes.length} bytes, ${type || 'no content type'}) is not JSON`);
  }
  return bytes.toString('utf8');
}
