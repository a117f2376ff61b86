import { storable } from '../core/event.js';

const MAX_SUMMARY_BYTES = 1_000;
const MAX_RESULT_BYTES = 64 * 1024;

/** What a handler returned, as the result summary that people read. */
export function resultSummary(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return storable(typeof value === 'string' ? value : toJson(value), MAX_SUMMARY_BYTES);
}

/** What an effect returned, as JSON: the next attempt may get it back. Larger than 64 kB it is replaced by a note. */
export function effectResult(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const json = toJson(value);
  const bytes = Buffer.byteLength(json);
  return bytes <= MAX_RESULT_BYTES ? json : JSON.stringify({ omitted: `a result of ${bytes} bytes` });
}

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? JSON.stringify(String(value));
  } catch {
    return JSON.stringify(String(value));
  }
}
