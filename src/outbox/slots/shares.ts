import type { Effect, Handler, HandlerRegistry } from '../../handlers/handler.registry.js';
import type { RunnableName } from '../../storage/outbox.store.js';
import type { Occupant } from '../relay/job.js';

export const MAX_INT4 = 2 ** 31 - 1;

/** How much of those that share slots runs. Counted once, and asked for each of them: an application may have hundreds. */
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
   * How many of the free slots one of them may take. Up to `reserve` slots are kept for others that have nothing running. One that has
   * nothing running may always take one slot.
   */
  room(one: string, free: number, reserve: number): number {
    const runs = this.running(one) > 0;
    const idle = this.all.size - this.busy - (runs || !this.all.has(one) ? 0 : 1);
    const room = free - Math.min(idle, reserve);
    return runs ? room : Math.max(room, Math.min(free, 1));
  }
}

/** How many rows of a name may be leased: its part of the free slots, within its own concurrency, which leaves `own`. */
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

/** The most slots that are kept for names without running rows, of `max` in all. */
export const half = (max: number) => Math.floor(max / 2);

export const hasRoom = ({ limit, shareLimit = limit }: RunnableName) => limit > 0 && shareLimit > 0;

/** The names and the sources that share slots. */
export type Sharing = ReturnType<HandlerRegistry['shares']>;

/** Handler rows that take a slot, by name and by source. */
interface Counted {
  readonly count: number;
  readonly names: Shares;
  readonly sources: Shares;
}
export interface Usage {
  /** Those that wait for a slot among them. */
  readonly leased: Counted;
  readonly begun: Counted;
}

export function sharesOf(handlers: readonly (readonly [string, Handler])[]): Sharing {
  return {
    names: new Set(handlers.map(([name]) => name)),
    sources: new Set(handlers.map(([, { source }]) => source)),
  };
}

export function usageOf({ names, sources }: Sharing, jobs: Iterable<Occupant>): Usage {
  const leased = [...jobs].filter(({ rows: [row] }) => row!.kind === 'handler');
  const counted = (some: readonly Occupant[]): Counted => {
    const rows = some.map((job) => job.rows[0]!);
    return {
      count: some.length,
      names: new Shares(
        names,
        rows.map(({ name }) => name),
      ),
      sources: new Shares(
        sources,
        rows.map(({ event }) => event!.source),
      ),
    };
  };
  return { leased: counted(leased), begun: counted(leased.filter((job) => job.begun)) };
}

/** While rows of other names wait for slots, none is ever free: so that a slow one comes to its part, one row of it waits too. */
export function isNext(name: string, { leased, begun }: Usage, max: number): boolean {
  const own = leased.names.running(name);
  return begun.count < leased.count && begun.names.running(name) === own && own < max / 2;
}
