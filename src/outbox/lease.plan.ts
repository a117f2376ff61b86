import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ConfigurationError } from '../core/errors.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { firstName, HandlerRegistry, type Effect, type Handler } from '../handlers/handler.registry.js';
import type { LeasedRow } from '../storage/leased.rows.js';
import type { RunnableName } from '../storage/outbox.store.js';
import type { Occupant } from './job.js';
import { Pace } from './pace.js';
import { PausedNames } from './paused.names.js';
import { countBy, fairRoom, half, hasRoom, isNext, MAX_INT4, room } from './places.js';
import { poolSize } from './pool-size.js';

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
  /** How many rows of which, with what runs by now. */
  group(jobs: Iterable<Occupant>): LeaseGroup;
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

  /**
   * One for each lease statement of a round; its group is asked for when its turn comes, with what runs by then.
   * @param endAfterMs when a connection that does not answer is given up
   * @param ahead whether rows of quick handlers may be leased that have to wait for a place
   */
  async looks(endAfterMs: number, ahead: boolean): Promise<Look[]> {
    const paused = await this.paused.read(endAfterMs);
    const handlers = [...this.registry.handlers()].filter(
      ([, handler]) => !paused.has('handler', firstName(handler)) && !paused.has('source', handler.source),
    );
    const effects = [...this.registry.effects()].filter(
      ([, effect]) => !paused.has('effect', firstName(effect)),
    );
    this.turn += 1;
    const all = rotate(handlers, this.turn);
    const turned = rotate(effects, this.turn);
    const batched = all.filter(([, handler]) => handler.batch !== undefined).map(([name]) => name);
    const single = all.filter(([, handler]) => handler.batch === undefined).map(([name]) => name);
    const others = turned.map(([name]) => name);
    const look = (names: readonly string[], group: Look['group'], alone = false): Look => {
      return { names, group, alone };
    };
    return [
      // First: the other groups would leave it no place.
      look([...single, ...batched, ...others], (jobs) => this.laneGroup(all, turned, [...jobs]), true),
      look(single, (jobs) => this.handlerGroup(all, [...jobs], ahead)),
      ...batched.map((name) => look([name], (jobs) => this.batchGroup(name, all, [...jobs]))),
      look([...this.registry.routes().keys()], () => this.routeGroup()),
      look(others, (jobs) => this.effectGroup(turned, [...jobs])),
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
    const begun = [...jobs].filter((job) => job.begun && job.rows[0]!.kind === 'handler');
    const handler = row.kind === 'handler' ? this.registry.handler(row.name)! : undefined;
    if (handler === undefined || handler.batch !== undefined) return true;
    if (row.alone || this.ahead(handler) === 0) return begun.length < this.maxHandlers();
    return this.handlerRoom([...this.registry.handlers()], begun).names.some(({ name }) => name === row.name);
  }

  /** Whether a row that is about to be claimed may have a place here, beside those that others have a right to. */
  hasRoom(handler: Handler, jobs: readonly Occupant[]): boolean {
    const max = this.maxHandlers();
    const running = jobs.filter(({ rows: [row] }) => row!.kind === 'handler');
    if (running.length >= max || running.some(({ begun }) => !begun)) return false;
    const { names, sources } = this.registry.shares();
    const has = (all: ReadonlySet<string>, one: string, key: (job: Occupant) => string) =>
      fairRoom(all, countBy(running, key), one, max - running.length, this.reserve(handler)) > 0;
    return (
      has(names, handler.name, ({ rows: [row] }) => row!.name) &&
      has(sources, handler.source, ({ rows: [row] }) => row!.event!.source)
    );
  }

  // One at a time: what kills a process is found out by itself.
  private laneGroup(
    handlers: readonly [string, Handler][],
    effects: readonly [string, Effect][],
    jobs: readonly Occupant[],
  ): LeaseGroup {
    if (jobs.some(({ rows: [row] }) => row!.alone)) return { names: [], limit: 0 };
    // While rows wait for places, none is ever free: the lane's gets the next.
    const begun = jobs.filter((job) => job.begun);
    const room = this.handlerRoom(handlers, begun.length < jobs.length ? begun.slice(1) : begun);
    return { names: [...room.names, ...this.effectGroup(effects, jobs).names], limit: 1, alone: true };
  }

  private handlerGroup(
    all: readonly [string, Handler][],
    jobs: readonly Occupant[],
    ahead: boolean,
  ): LeaseGroup {
    const { names, limit } = this.handlerRoom(all, jobs, ahead);
    return { names: names.filter(({ name }) => this.registry.handler(name)!.batch === undefined), limit };
  }

  // A lease of its own for each, since a place is worth `batch` rows.
  private batchGroup(name: string, all: readonly [string, Handler][], jobs: readonly Occupant[]): LeaseGroup {
    const one = this.handlerRoom(all, jobs).names.find((other) => other.name === name);
    if (one === undefined) return { names: [], limit: 0 };
    const limit = Math.min(one.limit, one.shareLimit!) * this.registry.handler(name)!.batch!;
    return { names: [{ ...one, limit, shareLimit: limit }], limit };
  }

  private handlerRoom(
    handlers: readonly [string, Handler][],
    jobs: readonly Occupant[],
    ahead = false,
  ): Pick<LeaseGroup, 'names' | 'limit'> {
    const leased = jobs.filter(({ rows: [row] }) => row!.kind === 'handler');
    const begun = leased.filter((job) => job.begun);
    const max = this.maxHandlers();
    const all = new Set(handlers.map(([name]) => name));
    const sources = new Set(handlers.map(([, handler]) => handler.source));
    let limit = 0;
    const names = handlers.map(([name, handler]): RunnableName => {
      const more = ahead ? this.ahead(handler) : 0;
      // What waits was leased ahead, and takes no place from those that are not.
      const running = more > 0 ? leased : begun;
      const next = ahead && more === 0 && isNext(name, leased, max) ? 1 : 0;
      const slots = max - running.length + more;
      // A lease for each row that has ended would cost more than it brings: half of what is ahead is worked off first.
      const free = Math.max(next, 2 * slots < more ? 0 : slots);
      const bySource = countBy(running, ({ rows: [row] }) => row!.event!.source);
      const reserve = this.reserve(handler);
      const fair = fairRoom(sources, bySource, handler.source, free, reserve);
      const shareLimit = Math.min(Math.max(next, fair), this.roomOfSource(handler.source, bySource));
      limit = Math.max(limit, free);
      const one = room(all, [name, handler], running, free, reserve);
      return {
        ...one,
        limit: Math.max(one.limit, Math.min(next, one.own)),
        share: handler.source,
        shareLimit,
      };
    });
    return { names: names.filter(hasRoom), limit };
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
    const all = new Set(effects.map(([name]) => name));
    const names = effects.map(([name, effect]): RunnableName => {
      const parks = effect.options.inDoubt === 'park';
      return { ...room(all, [name, effect], running, free, half(max)), parks };
    });
    return { names: names.filter(hasRoom), limit: free };
  }

  private roomOfSource(source: string, running: ReadonlyMap<string, number>): number {
    const max = this.options.sources.get(source)?.concurrency ?? Number.MAX_SAFE_INTEGER;
    return Math.min(max - (running.get(source) ?? 0), MAX_INT4);
  }

  private maxHandlers(): number {
    const asked = this.options.relay === false ? 0 : this.options.relay.handlers;
    return asked ?? Math.max(1, poolSize(this.dataSource) - CLAIM_RESERVE);
  }
}

/** A flooded name is not always first. */
function rotate<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
