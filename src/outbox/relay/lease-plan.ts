import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ConfigurationError } from '../../core/errors.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Effect, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { RunnableName } from '../../storage/outbox.store.js';
import { Destinations } from '../runs/destinations.js';
import type { Occupant } from './job.js';
import { Pace } from './pace.js';
import { PausedNames } from './paused-names.js';
import {
  half,
  hasRoom,
  isNext,
  MAX_INT4,
  room,
  Shares,
  sharesOf,
  usageOf,
  type Sharing,
  type Usage,
} from './places.js';
import { poolSize } from '../../storage/postgres/pool-size.js';

/** What to lease in one statement: names with their room, and how many rows in all. */
export interface LeaseGroup {
  readonly names: readonly RunnableName[];
  readonly limit: number;
  /** The lane of rows with a lost attempt. @default false */
  readonly alone?: boolean;
}

/** What one look of a round is for. */
export interface Look {
  readonly names: readonly string[];
  /** The lane of rows with a lost attempt. */
  readonly alone: boolean;
  /** It is for one handler with `batch`. */
  readonly batched: boolean;
  /** How many rows of which, with what runs by now. */
  group(jobs: Iterable<Occupant>): LeaseGroup;
}

type NamedHandler = readonly [string, Handler];
type NamedWork = readonly [string, unknown];
interface HandlerRoom extends RunnableName {
  readonly shareLimit: number;
  /** Free places, whoever may take them. */
  readonly free: number;
}

/** How many names the looks of a round ask for while nothing is paused. */
export interface NameCounts {
  readonly all: number;
  /** By the lane's look. */
  readonly lane: number;
}

/** Connections that are left to claims when the relay's share is derived from the pool. */
const CLAIM_RESERVE = 3;
const MAX_ROUTE_ROWS = 10;

/**
 * How many rows of which names to lease: within the relay's places, each name's own concurrency and its source's, without what is
 * paused, and so that one flooded source or one slow effect leaves places to the others.
 */
@Injectable()
export class LeasePlan {
  private turn = 0;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly paused: PausedNames,
    private readonly pace: Pace,
    private readonly destinations: Destinations,
  ) {}

  /** @throws ConfigurationError when handlers could take every connection, so that nothing could be claimed while they run */
  checkPool(): void {
    const asked = this.options.relay === false ? undefined : this.options.relay.handlers;
    const size = poolSize(this.dataSource);
    if (asked === undefined || asked < size) return;
    throw new ConfigurationError(
      `WebhooksModule options: relay.handlers: each handler holds a connection while it runs, and a claim needs one too; ` +
        `expected less than the DataSource's poolSize (${size}), received ${asked}`,
    );
  }

  get nameCounts(): NameCounts {
    const lane = this.registry.handlers().size + this.registry.effects().size;
    return { all: lane + this.registry.routes().size, lane };
  }

  /**
   * One for each lease statement of a round; its group is asked for when its turn comes, with what runs by then.
   * @param endAfterMs when a connection that does not answer is given up
   * @param ahead whether rows of quick handlers may be leased that have to wait for a place
   */
  async looks(endAfterMs: number, ahead: boolean): Promise<Look[]> {
    const paused = await this.paused.read(endAfterMs);
    const handlers = [...this.registry.handlers()].filter(
      ([, handler]) => !paused.hasWork('handler', handler) && !paused.has('source', handler.source),
    );
    const effects = [...this.registry.effects()].filter(([, effect]) => !paused.hasWork('effect', effect));
    const sharing =
      handlers.length === this.registry.handlers().size ? this.registry.shares() : sharesOf(handlers);
    this.turn += 1;
    const all = rotate(handlers, this.turn);
    const turned = rotate(effects, this.turn);
    const batched = all.filter(([, handler]) => handler.batch !== undefined);
    const single = all.filter(([, handler]) => handler.batch === undefined);
    const look = (works: readonly NamedWork[], group: Look['group'], more: Partial<Look> = {}): Look => {
      return { names: works.map(([name]) => name), alone: false, batched: false, group, ...more };
    };
    return [
      // First: the other groups would leave it no place.
      look([...all, ...turned], (jobs) => this.laneGroup(sharing, all, turned, [...jobs]), { alone: true }),
      look(single, (jobs) => this.handlerRoom(single, this.usage(sharing, jobs), ahead)),
      ...batched.map((one) =>
        look([one], (jobs) => this.batchGroup(one, this.usage(sharing, jobs)), { batched: true }),
      ),
      look([...this.registry.routes()], () => this.routeGroup()),
      look(turned, (jobs) => this.effectGroup(turned, [...jobs])),
    ];
  }

  /** Leased rows as jobs: those of a batched handler together, but never one of the lane: it may be what kills. */
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

  /** Whether a leased row may begin now: one that was leased ahead waits for a place that nobody else has a better right to. */
  hasPlace(row: LeasedRow, jobs: Iterable<Occupant>): boolean {
    const handler = row.kind === 'handler' ? this.registry.handler(row.name)! : undefined;
    if (handler === undefined || handler.batch !== undefined) return true;
    const usage = this.usage(this.registry.shares(), jobs);
    if (row.alone || this.ahead(handler) === 0) return usage.begun.count < this.maxHandlers();
    return hasRoom(this.roomOf([row.name, handler], usage));
  }

  /** Whether what a delivery is to run may begin now, beside what others have a right to. */
  hasPlaceFor({ name, source }: Pick<Handler, 'name' | 'source'>, jobs: readonly Occupant[]): boolean {
    const max = this.maxHandlers();
    const deliveries = jobs.filter(({ ofDelivery }) => ofDelivery);
    // The last place is the relay's: a delivery that waits takes a free one before any row could be leased for it.
    if (this.options.relay !== false && deliveries.length >= Math.max(1, max - 1)) return false;
    const { begun } = usageOf(this.registry.shares(), this.isApart ? deliveries : jobs);
    const free = max - begun.count;
    return begun.names.room(name, free, half(max)) > 0 && begun.sources.room(source, free, half(max)) > 0;
  }

  /** Whether a row that is about to be claimed may have a place here, beside those that others have a right to. */
  hasRoom(handler: Handler, jobs: readonly Occupant[]): boolean {
    const { leased, begun } = this.usage(this.registry.shares(), jobs);
    const free = this.maxHandlers() - leased.count;
    if (free <= 0 || begun.count < leased.count) return false;
    const reserve = this.reserve(handler);
    return (
      leased.names.room(handler.name, free, reserve) > 0 &&
      leased.sources.room(handler.source, free, reserve) > 0
    );
  }

  // One at a time: what kills a process is found out by itself.
  private laneGroup(
    sharing: Sharing,
    handlers: readonly NamedHandler[],
    effects: readonly [string, Effect][],
    jobs: readonly Occupant[],
  ): LeaseGroup {
    if (jobs.some(({ rows: [row] }) => row!.alone)) return { names: [], limit: 0 };
    // While rows wait for places, none is ever free: the lane's gets the next.
    const begun = jobs.filter((job) => job.begun);
    const next = begun.length < jobs.length ? begun.slice(1) : begun;
    const { names } = this.handlerRoom(handlers, this.usage(sharing, next));
    return { names: [...names, ...this.effectGroup(effects, jobs).names], limit: 1, alone: true };
  }

  // A lease of its own for each, since a place is worth `batch` rows.
  private batchGroup(one: NamedHandler, usage: Usage): LeaseGroup {
    const room = this.roomOf(one, usage);
    if (!hasRoom(room)) return { names: [], limit: 0 };
    const limit = Math.min(room.limit, room.shareLimit) * one[1].batch!;
    return { names: [{ ...room, limit, shareLimit: limit }], limit };
  }

  private handlerRoom(handlers: readonly NamedHandler[], usage: Usage, ahead = false): LeaseGroup {
    const rooms = handlers.map((one) => this.roomOf(one, usage, ahead));
    return { names: rooms.filter(hasRoom), limit: rooms.reduce((most, { free }) => Math.max(most, free), 0) };
  }

  private roomOf([name, handler]: NamedHandler, usage: Usage, ahead = false): HandlerRoom {
    const max = this.maxHandlers();
    const more = ahead ? this.ahead(handler) : 0;
    // What waits was leased ahead, and takes no place from those that are not.
    const running = more > 0 ? usage.leased : usage.begun;
    const next = ahead && more === 0 && isNext(name, usage, max) ? 1 : 0;
    const slots = max - running.count + more;
    // A lease for each row that has ended would cost more than it brings: half of what is ahead is worked off first.
    const free = Math.max(next, 2 * slots < more ? 0 : slots);
    const reserve = this.reserve(handler);
    const { source } = handler;
    const ofSource = Math.max(next, running.sources.room(source, free, reserve));
    const shareLimit = Math.min(ofSource, this.roomOfSource(source, running.sources.running(source)));
    const one = room(running.names, [name, handler], free, reserve);
    const limit = Math.max(one.limit, Math.min(next, one.own));
    return { name, maxAttempts: one.maxAttempts, limit, share: source, shareLimit, free };
  }

  /** Places that are kept for others. A quick handler gives its own back in no time; one is kept all the same, for when it is quick no more. */
  private reserve(handler: Handler): number {
    const most = half(this.maxHandlers());
    return this.ahead(handler) > 0 ? Math.min(1, most) : most;
  }

  // Rows that wait must not hold up what they are limited with.
  private ahead({ name, source, batch, concurrency }: Handler): number {
    const limited = concurrency !== undefined || this.options.sources.get(source)?.concurrency !== undefined;
    return limited || batch !== undefined ? 0 : this.pace.ahead(name, this.maxHandlers());
  }

  // A route runs only in a delivery: when the provider's window has passed, its row is dead.
  private routeGroup(): LeaseGroup {
    const limit = MAX_ROUTE_ROWS;
    const names = [...this.registry.routes().keys()].map((name): RunnableName => {
      return { name, maxAttempts: 0, limit };
    });
    return { names, limit };
  }

  private effectGroup(effects: readonly [string, Effect][], jobs: readonly Occupant[]): LeaseGroup {
    const max = this.options.relay === false ? 0 : this.options.relay.effects;
    const running = jobs.filter(({ rows: [row] }) => row!.kind === 'effect');
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

  private roomOfSource(source: string, running: number): number {
    const max = this.options.sources.get(source)?.concurrency ?? Number.MAX_SAFE_INTEGER;
    return Math.min(max - running, MAX_INT4);
  }

  /** What takes places from the relay. */
  private usage(sharing: Sharing, jobs: Iterable<Occupant>): Usage {
    return usageOf(sharing, this.isApart ? [...jobs].filter((one) => !one.ofDelivery) : jobs);
  }

  /** A single place is not shared with deliveries, where the pool has a third connection for claims: the relay has one, and they have one. */
  private get isApart(): boolean {
    return this.maxHandlers() === 1 && poolSize(this.dataSource) > 2;
  }

  private maxHandlers(): number {
    const asked = this.options.relay === false ? undefined : this.options.relay.handlers;
    return asked ?? Math.max(1, poolSize(this.dataSource) - CLAIM_RESERVE);
  }
}

/** A flooded name is not always first. */
function rotate<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
