import type { Answer } from '../core/answer.js';
import { isDatabaseUnavailable, sqlStateOf } from '../core/classify.js';
import { MAX_TIMER_MS } from '../core/options/duration.js';
import type { Source } from '../core/options/resolve-source.js';
import { storeErrorText } from '../storage/postgres/store-error.js';

/** The outcome of a delivery. The HTTP layer turns it into an answer. */
export type Verdict =
  /** Committed. */
  | { readonly kind: 'ok' }
  /** Every event of it was known. */
  | { readonly kind: 'duplicate' }
  /** Nothing is known to be committed: come back. */
  | { readonly kind: 'unavailable'; readonly why: string }
  /** A handler failed, and the provider's redelivery must run it again. */
  | { readonly kind: 'failed' };

const RETRY_AFTER_SECONDS = '5';

/** Every answer of the module. Bodies are fixed and short: the outside learns nothing from them. */
export const ANSWERS = {
  ok: { status: 200, body: { status: 'ok' } },
  duplicate: { status: 200, body: { status: 'duplicate' } },
  invalid: { status: 400, body: { status: 'invalid' } },
  unauthorized: { status: 401, body: { status: 'unauthorized' } },
  unknownSource: { status: 404, body: { status: 'not found' } },
  wrongMethod: { status: 405, body: { status: 'method not allowed' } },
  tooLarge: { status: 413, body: { status: 'too large' } },
  unsupportedEncoding: { status: 415, body: { status: 'unsupported encoding' } },
  failed: { status: 500, body: { status: 'failed' } },
  unavailable: {
    status: 503,
    body: { status: 'unavailable' },
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  },
} as const satisfies Record<string, Answer>;

/** The detail of a refusal, for the log. */
export function wrongMethod(methods: readonly string[], received: string): string {
  return `expected ${methods.join(' or ')}, received ${received}`;
}

/** The detail of a refusal, for the log. */
export function tooLarge(maxBytes: number, received?: string | number): string {
  const length = received === undefined ? '' : `, received ${received}`;
  return `expected a body of at most ${maxBytes} bytes, unpacked (maxBytes)${length}`;
}

/** The answer to a verdict; a 2xx in the provider's own form where it has one. */
export function answerTo(verdict: Verdict, source: Source): Answer {
  if (verdict.kind === 'ok' || verdict.kind === 'duplicate')
    return source.provider.ack ?? ANSWERS[verdict.kind];
  return ANSWERS[verdict.kind];
}

/** The rows wait, since a delivery must not run them now. A redelivery runs them. */
export const PAUSED: Verdict = { kind: 'unavailable', why: 'paused' };

/** One verdict for the events of one delivery: the worst decides, since the provider redelivers the whole. */
export function worst(verdicts: readonly Verdict[]): Verdict {
  for (const kind of ['unavailable', 'failed', 'ok'] as const) {
    const found = verdicts.find((verdict) => verdict.kind === kind);
    if (found !== undefined) return found;
  }
  return { kind: 'duplicate' };
}

/** An answer is not kept waiting; a claim that commits later is met by the redelivery as a duplicate. */
export function orUnavailable<T>(work: Promise<T>, ms: number): Promise<T | Verdict> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(
      () => resolve({ kind: 'unavailable', why: `the database did not answer within ${ms} ms` }),
      Math.min(ms, MAX_TIMER_MS),
    );
    work.then(
      (result) => {
        clearTimeout(late);
        resolve(result);
      },
      (error: Error) => {
        clearTimeout(late);
        reject(error);
      },
    );
  });
}

/** The verdict for a claim that failed. */
export function unavailable(error: unknown): Verdict {
  return { kind: 'unavailable', why: `not claimed, ${storeErrorText(error)}` };
}

/** Whether a failure says nothing about other events: a lock that was waited for in vain, a deadlock, a row that was refused. */
export function isOneEventsFault(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return sqlState === '55P03' || sqlState?.startsWith('40') === true || !isDatabaseUnavailable(error);
}

/** One event of a batch that PostgreSQL refuses, or that another transaction holds, must not keep the others out. */
export async function unlessOneEventsFault<T>(work: () => Promise<T>): Promise<T | Verdict> {
  try {
    return await work();
  } catch (error) {
    if (!isOneEventsFault(error)) throw error;
    return unavailable(error);
  }
}
