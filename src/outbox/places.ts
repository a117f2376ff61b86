import type { Effect, Handler } from '../handlers/handler.registry.js';
import type { RunnableName } from '../storage/outbox.store.js';

export const MAX_INT4 = 2 ** 31 - 1;

/** How much of those that share places runs. Counted once, and asked for each of them: an application may have hundreds. */
export class Shares {
  private readonly counts = new Map<string, number>();
  /** How many of those that share have something running. */
  private busy = 0;

  /**
   * @param all that share: names, or sources
   * @param running for each row that runs, whose it is
   */
  constructor(
    private readonly all: ReadonlySet<string>,
    running: Iterable<string>,
  ) {
    for (const one of running) {
      const count = this.running(one);
      if (count === 0 && all.has(one)) this.busy += 1;
      this.counts.set(one, count + 1);
    }
  }

  running(one: string): number {
    return this.counts.get(one) ?? 0;
  }

  /**
   * How many of the free places one of them may take. Up to `reserve` are kept for others that have nothing running, so that whoever
   * floods leaves room for whoever comes; who has nothing running may always take one.
   */
  room(one: string, free: number, reserve: number): number {
    const runs = this.running(one) > 0;
    const idle = this.all.size - this.busy - (runs ? 0 : 1);
    const room = free - Math.min(idle, reserve);
    return runs ? room : Math.max(room, Math.min(free, 1));
  }
}

/** How many rows of a name may be leased: its part of the free places, within its own concurrency, which leaves `own`. */
export function room(
  shares: Shares,
  [name, work]: readonly [string, Handler | Effect],
  free: number,
  reserve: number,
): RunnableName & { readonly own: number } {
  const own = (work.concurrency ?? MAX_INT4) - shares.running(name);
  const limit = Math.max(0, Math.min(shares.room(name, free, reserve), own));
  return { name, maxAttempts: work.retry.maxAttempts, limit, own };
}

/** Of all places: what is kept at most for those that have nothing running. */
export const half = (max: number) => Math.floor(max / 2);

export const hasRoom = ({ limit, shareLimit = limit }: RunnableName) => limit > 0 && shareLimit > 0;
