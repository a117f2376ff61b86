import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { RunnableName } from '../../storage/outbox.store.js';
import { HandOver, MAX_HANDING } from '../engine/hand-over.js';
import { Destinations } from '../runs/destinations.js';
import { HandlerSlots, type NamedHandler } from '../slots/handler-slots.js';
import {
  half,
  hasRoom,
  MAX_INT4,
  room,
  Shares,
  sharesOf,
  type Sharing,
  type Usage,
} from '../slots/shares.js';
import type { Occupant } from './job.js';
import { PausedNames } from './paused-names.js';

/** The arguments of one lease statement: names with their limits, and the number of rows in all. */
export interface LeaseGroup {
  readonly names: readonly RunnableName[];
  readonly limit: number;
  /** The quarantine of rows with a lost attempt. @default false */
  readonly alone?: boolean;
}

/** One poll of a round. */
export interface Poll {
  readonly names: readonly string[];
  /** The quarantine of rows with a lost attempt. */
  readonly alone: boolean;
  /** The names and row limits of the statement, given the jobs that run at this moment. */
  group(jobs: Iterable<Occupant>): LeaseGroup;
}

type NamedWork = readonly [string, unknown];
type NamedEffect = readonly [string, Effect];
/** How many names the polls of a round ask for while nothing is paused. */
export interface NameCounts {
  readonly all: number;
  /** By the quarantine's poll. */
  readonly quarantine: number;
}

const MAX_ROUTE_ROWS = 10;

/**
 * Decides how many rows of each name to lease. It keeps within the relay's slots, each name's concurrency and each source's concurrency. It
 * leaves out paused work. One flooded source or one slow effect leaves slots to the others.
 */
@Injectable()
export class LeasePlan {
  private rotation = 0;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly paused: PausedNames,
    private readonly slots: HandlerSlots,
    private readonly destinations: Destinations,
    private readonly handOver: HandOver,
  ) {}

  get nameCounts(): NameCounts {
    const quarantine = this.registry.handlers().size + this.registry.effects().size;
    return { all: quarantine + this.registry.routes().size, quarantine };
  }

  /**
   * One poll for each lease statement of a round. A poll asks for its limits when its statement is sent, since runs begin and end
   * meanwhile.
   * @param endAfterMs when a connection that does not answer is given up
   * @param prefetches whether rows of quick handlers may be leased that must wait for a slot
   */
  async polls(endAfterMs: number, prefetches: boolean): Promise<Poll[]> {
    const paused = await this.paused.read(endAfterMs);
    const handlers = [...this.registry.handlers()].filter(
      ([, handler]) => !paused.hasWork('handler', handler) && !paused.has('source', handler.source),
    );
    const effects = [...this.registry.effects()].filter(([, effect]) => !paused.hasWork('effect', effect));
    const sharing =
      handlers.length === this.registry.handlers().size ? this.registry.shares() : sharesOf(handlers);
    this.rotation += 1;
    const all = rotate(handlers, this.rotation);
    const rotated = rotate(effects, this.rotation);
    const local = rotated.filter(([name]) => this.registry.engineOf(name) === undefined);
    const handed = rotated.filter((one) => !local.includes(one));
    const batched = all.filter(([, handler]) => handler.batch !== undefined);
    const single = all.filter(([, handler]) => handler.batch === undefined);
    const poll = (works: readonly NamedWork[], group: Poll['group'], more: Partial<Poll> = {}): Poll => {
      return { names: works.map(([name]) => name), alone: false, group, ...more };
    };
    return [
      // First: the other groups would leave it no slot.
      poll([...all, ...rotated], (jobs) => this.quarantineGroup(sharing, all, [local, handed], [...jobs]), {
        alone: true,
      }),
      poll(single, (jobs) => this.handlerRoom(single, this.slots.usage(sharing, jobs), prefetches)),
      ...batched.map((one) => poll([one], (jobs) => this.batchGroup(one, this.slots.usage(sharing, jobs)))),
      poll([...this.registry.routes()], () => this.routeGroup()),
      poll(local, (jobs) => this.effectGroup(local, [...jobs])),
      poll(handed, (jobs) => this.engineGroup(handed, [...jobs])),
    ];
  }

  /** Leased rows as jobs: those of a batched handler together, but never one of the quarantine: it may be what kills. */
  jobs(rows: readonly LeasedRow[]): LeasedRow[][] {
    const jobs: LeasedRow[][] = [];
    const open = new Map<string, LeasedRow[]>();
    for (const row of rows) {
      const batch = row.kind === 'handler' ? this.registry.handler(row.name)?.batch : undefined;
      const joined = batch === undefined || row.alone ? undefined : open.get(row.name);
      if (joined !== undefined && joined.length < batch!) {
        joined.push(row);
        continue;
      }
      const job = [row];
      jobs.push(job);
      if (batch !== undefined && !row.alone) open.set(row.name, job);
    }
    return jobs;
  }

  // One row at a time, so that a row that kills its process is found out.
  private quarantineGroup(
    sharing: Sharing,
    handlers: readonly NamedHandler[],
    [local, handed]: readonly [readonly NamedEffect[], readonly NamedEffect[]],
    jobs: readonly Occupant[],
  ): LeaseGroup {
    if (jobs.some(({ rows: [row] }) => row!.alone)) return { names: [], limit: 0 };
    // While rows wait for slots, none is ever free: the quarantine's gets the next.
    const begun = jobs.filter((job) => job.begun);
    const next = begun.length < jobs.length ? begun.slice(1) : begun;
    const { names } = this.handlerRoom(handlers, this.slots.usage(sharing, next));
    const effects = [this.effectGroup(local, jobs), this.engineGroup(handed, jobs)];
    return { names: [...names, ...effects.flatMap((group) => group.names)], limit: 1, alone: true };
  }

  // A lease of its own for each, since a slot is worth `batch` rows.
  private batchGroup(one: NamedHandler, usage: Usage): LeaseGroup {
    const room = this.slots.roomOf(one, usage);
    if (!hasRoom(room)) return { names: [], limit: 0 };
    const limit = Math.min(room.limit, room.shareLimit) * one[1].batch!;
    return { names: [{ ...room, limit, shareLimit: limit }], limit };
  }

  private handlerRoom(handlers: readonly NamedHandler[], usage: Usage, prefetches = false): LeaseGroup {
    const rooms = handlers.map((one) => this.slots.roomOf(one, usage, prefetches));
    return { names: rooms.filter(hasRoom), limit: rooms.reduce((most, { free }) => Math.max(most, free), 0) };
  }

  // A route runs only in a delivery: when the provider's window has passed, its row is dead.
  private routeGroup(): LeaseGroup {
    const limit = MAX_ROUTE_ROWS;
    const names = [...this.registry.routes().keys()].map((name): RunnableName => {
      return { name, maxAttempts: 0, limit };
    });
    return { names, limit };
  }

  private effectGroup(effects: readonly NamedEffect[], jobs: readonly Occupant[]): LeaseGroup {
    const max = this.options.relay === false ? 0 : this.options.relay.effects;
    const running = this.running(jobs, false);
    const free = max - running.length;
    const shares = new Shares(
      new Set(effects.map(([name]) => name)),
      running.map(({ rows: [row] }) => row!.name),
    );
    const names = effects.map(([name, effect]): RunnableName => {
      const parks = effect.options.inDoubt === 'park';
      const one = room(shares, [name, effect], free, half(max));
      return { ...one, limit: Math.min(one.limit, this.destinations.room(effect)), parks };
    });
    return { names: names.filter(hasRoom), limit: free };
  }

  // A hand-over is short, and one that hangs takes no slot from effects that run here. The consumer counts the attempts of the effect. One
  // that the relay has lost may be at the engine, and no number of them makes the row dead.
  private engineGroup(effects: readonly NamedEffect[], jobs: readonly Occupant[]): LeaseGroup {
    const free = MAX_HANDING - this.running(jobs, true).length;
    const names = effects.map(([name]): RunnableName => {
      const limit = Math.min(free, this.handOver.room(this.registry.engineOf(name)!));
      return { name, maxAttempts: MAX_INT4, limit };
    });
    return { names: names.filter(hasRoom), limit: free };
  }

  private running(jobs: readonly Occupant[], handed: boolean): readonly Occupant[] {
    return jobs.filter(
      ({ rows: [row] }) =>
        row!.kind === 'effect' && (this.registry.engineOf(row!.name) !== undefined) === handed,
    );
  }
}

/** A flooded name is not always first. */
function rotate<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
