import type { Effect, Handler } from '../handlers/handler.registry.js';
import type { RunnableName } from '../storage/outbox.store.js';
import type { Occupant } from './job.js';

export const MAX_INT4 = 2 ** 31 - 1;

/** How many rows of a name may be leased: its part of the free places, within its own concurrency, which leaves `own`. */
export function room(
  all: ReadonlySet<string>,
  [name, work]: readonly [string, Handler | Effect],
  jobs: readonly Occupant[],
  free: number,
  reserve: number,
): RunnableName & { readonly own: number } {
  const running = countBy(jobs, ({ rows: [row] }) => row!.name);
  const own = (work.concurrency ?? MAX_INT4) - (running.get(name) ?? 0);
  const limit = Math.max(0, Math.min(fairRoom(all, running, name, free, reserve), own));
  return { name, maxAttempts: work.retry.maxAttempts, limit, own };
}

/** While rows of other names wait for places, none is ever free: so that a slow one comes to its part, one row of it waits too. */
export function isNext(name: string, leased: readonly Occupant[], max: number): boolean {
  const own = leased.filter(({ rows: [row] }) => row!.name === name);
  const waits = leased.some(({ begun }) => !begun);
  return waits && own.every(({ begun }) => begun) && own.length < max / 2;
}

/**
 * How many of the free places one of several may take. Up to `reserve` are kept for others that have nothing running, so that
 * whoever floods leaves room for whoever comes; who has nothing running may always take one.
 */
export function fairRoom(
  all: ReadonlySet<string>,
  running: ReadonlyMap<string, number>,
  one: string,
  free: number,
  reserve: number,
): number {
  const busy = [...running.keys()].filter((other) => all.has(other)).length;
  const idle = all.size - busy - (running.has(one) ? 0 : 1);
  const room = free - Math.min(idle, reserve);
  return running.has(one) ? room : Math.max(room, Math.min(free, 1));
}

export function countBy<T>(list: readonly T[], key: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of list) counts.set(key(item), (counts.get(key(item)) ?? 0) + 1);
  return counts;
}

/** Of all places: what is kept at most for those that have nothing running. */
export const half = (max: number) => Math.floor(max / 2);

export const hasRoom = ({ limit, shareLimit = limit }: RunnableName) => limit > 0 && shareLimit > 0;
