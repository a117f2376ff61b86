import { isDatabaseUnavailable, sqlStateOf } from '../core/classify.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import type { Verdict } from './verdict.js';

/** What a claim that failed comes to. */
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
