import { MAX_TIMER_MS } from '../options/duration.js';

/**
 * What `work` gives; it goes on all the same when it is late.
 * @throws Error when it has not ended within `ms` milliseconds
 */
export async function limited<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  if (await within(work, ms)) return work;
  throw new Error(`${what} did not end within ${ms} ms`);
}

/** Whether `work` ends within `ms` milliseconds; it goes on all the same. Throws what it throws in that time. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
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
