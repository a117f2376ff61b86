import { PermanentError } from '../../core/errors.js';
import { storable } from '../../core/event.js';
import { errorText } from '../../core/log/log.js';
import { MAX_PAYLOAD_BYTES } from '../enqueue/run-enqueue.js';

const MAX_SUMMARY_BYTES = 1_000;
const MAX_RESULT_BYTES = 64 * 1024;

/** An effect's call was made, and its result cannot be kept for its completion. No other attempt would cure that. */
export class ResultRefused extends PermanentError {
  constructor(effect: string, came: string, options?: ErrorOptions) {
    super(
      `The call of effect '${effect}' was made, and its completion was not run: ${came}. ` +
        `Return an id and load the rest in the completion; a person must decide if the call is made again`,
      options,
    );
  }
}

/** The returned value of a handler, as a summary for people. */
export function resultSummary(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return storable(typeof value === 'string' ? value : toJson(value), MAX_SUMMARY_BYTES);
}

/** The returned value of an effect without a completion, as JSON for people. Above 64 kB it is replaced by a note. */
export function effectResult(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const json = toJson(value);
  const bytes = Buffer.byteLength(json);
  return bytes <= MAX_RESULT_BYTES ? json : JSON.stringify({ omitted: `a result of ${bytes} bytes` });
}

/**
 * The returned value of an effect with a completion, as whole JSON. The completion of a later attempt uses it.
 * @throws ResultRefused
 */
export function keptResult(effect: string, value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value ?? null);
  } catch (error) {
    throw new ResultRefused(effect, `its result is not JSON (${errorText(error)})`, { cause: error });
  }
  if (json === undefined) throw new ResultRefused(effect, `its result is not JSON (a ${typeof value})`);
  const bytes = Buffer.byteLength(json);
  if (bytes > MAX_PAYLOAD_BYTES) {
    const came = `its result has ${bytes} bytes, and at most ${MAX_PAYLOAD_BYTES} are kept`;
    throw new ResultRefused(effect, came);
  }
  return json;
}

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value, bigIntAsText) ?? JSON.stringify(String(value));
  } catch {
    return JSON.stringify(String(value));
  }
}

function bigIntAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
