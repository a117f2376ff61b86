import { setTimeout as sleep } from 'node:timers/promises';
import type { Fleet } from './fleet.js';
import type { Provider } from './provider.js';

export interface RollingReport {
  /** How each process ended that was told to. */
  readonly exits: readonly (number | null)[];
  readonly longestStopMs: number;
}

const OPEN = 30;

/** What a receiver runs: the program of a version, and its environment. */
export interface Version {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Restarts one receiver after the other while events flow, each time with the other of two versions, until all are sent. */
export async function rolling(
  fleet: Fleet,
  provider: Provider,
  versions: readonly Version[],
): Promise<RollingReport> {
  const exits: (number | null)[] = [];
  let longestStopMs = 0;
  const over = new AbortController();
  const flowing = (async () => {
    while (provider.left > 0) {
      provider.release(provider.sent + Math.max(0, Math.min(5, OPEN - provider.open)));
      await sleep(100);
    }
    over.abort();
  })();
  for (let n = 0; !over.signal.aborted || n < 2 * fleet.receivers.length; n += 1) {
    const receiver = fleet.receivers[n % fleet.receivers.length]!;
    const round = Math.floor(n / fleet.receivers.length);
    const startedAt = performance.now();
    exits.push(await receiver.restart(versions[round % versions.length]!));
    longestStopMs = Math.max(longestStopMs, performance.now() - startedAt);
    await fleet.allUp();
  }
  await flowing;
  await provider.finished();
  return { exits, longestStopMs: Math.round(longestStopMs) };
}
