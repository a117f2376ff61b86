import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for a condition, and no longer than so many milliseconds. */
export async function sleepUntil(condition: () => Promise<boolean>, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await condition()) && performance.now() < end) await sleep(100);
}

/** @throws Error saying what did not come about in time */
export async function waitUntil(condition: () => boolean, ms: number, otherwise: string): Promise<void> {
  const end = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`${otherwise} within ${ms} ms`);
    await sleep(20);
  }
}
