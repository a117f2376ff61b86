import { MAX_TIMER_MS } from '../core/options/duration.js';

/** What came of a delivery; the edge turns it into an answer. */
export type Verdict =
  /** Committed. */
  | { readonly kind: 'ok' }
  /** Every event of it was known. */
  | { readonly kind: 'duplicate' }
  /** Nothing is known to be committed: come back. */
  | { readonly kind: 'unavailable'; readonly why: string }
  /** A handler failed, and the provider's redelivery is to run it again. */
  | { readonly kind: 'failed' };

/** What is owed waits for a run that a delivery may not make now: a redelivery makes it. */
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
export function inTime<T>(work: Promise<T>, ms: number): Promise<T | Verdict> {
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
