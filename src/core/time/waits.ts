import { setTimeout as timeout } from 'node:timers/promises';
import { MAX_TIMER_MS } from '../options/duration.js';

/** Waits; less when the signal fires. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await timeout(ms, undefined, { signal }).catch(() => undefined);
}

/** Why something was aborted, where an error only says that it was: Node's timers throw an AbortError with the reason beneath. */
export function abortReason(error: unknown): unknown {
  const { name, cause } = Object(error) as Partial<Error>;
  return name === 'AbortError' ? (cause ?? error) : error;
}

/** The value of `work`, or the signal's reason as soon as it fires; `work` itself goes on, and its end is ignored. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    // Also after the signal has fired: unhandled, a failure would end the process.
    work.then(
      (value) => {
        signal.removeEventListener('abort', abort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', abort);
        reject(error);
      },
    );
  });
}

/**
 * Awaits `work`. Late work goes on all the same.
 * @throws Error when it has not ended within `ms` milliseconds
 */
export async function withTimeLimit<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  if (await endsWithin(work, ms)) return work;
  throw new Error(`${what} did not end within ${ms} ms`);
}

/**
 * Whether `work` ends within `ms` milliseconds. Late work goes on, and its result is ignored.
 * @throws the error of `work`, if it fails in that time
 */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(ms, MAX_TIMER_MS));
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
