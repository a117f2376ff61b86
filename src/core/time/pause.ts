import { setTimeout } from 'node:timers/promises';

/** Waits; less when the signal fires. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch(() => undefined);
}
