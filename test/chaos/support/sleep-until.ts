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

/** Waits until nothing is left, and no longer than so many milliseconds in which no less is left than before. */
export async function untilNoneLeft(count: () => Promise<number>, stallMs: number): Promise<void> {
  let least = Infinity;
  let since = performance.now();
  for (let left = await count(); left > 0 && performance.now() < since + stallMs; left = await count()) {
    if (left < least) [least, since] = [left, performance.now()];
    await sleep(100);
  }
}
