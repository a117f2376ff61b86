import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for a condition, and no longer than so many milliseconds. */
export async function sleepUntil(condition: () => Promise<boolean>, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await condition()) && performance.now() < end) await sleep(100);
}
