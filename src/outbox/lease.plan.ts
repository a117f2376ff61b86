import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ConfigurationError } from '../core/errors.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { firstName, HandlerRegistry, type Effect, type Handler } from '../handlers/handler.registry.js';
import type { LeasedRow, RunnableName } from '../storage/outbox.store.js';
import type { Job } from './job.js';
import { PausedNames } from './paused.names.js';
import { poolSize } from './pool-size.js';

/** What to lease in one statement: names with their room, and how many rows in all. */
export interface LeaseGroup {
  readonly names: readonly RunnableName[];
  readonly limit: number;
  /** The lane of rows with a lost attempt. @default false */
  readonly alone?: boolean;
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
   * One group for each lease statement of a round; each is asked when its turn comes, with what runs by then.
   * @param endAfterMs when a connection that does not answer is given up
   */
  async groups(endAfterMs: number): Promise<((jobs: Iterable<Job>) => LeaseGroup)[]> {
    const paused = await this.paused.read(endAfterMs);
    const handlers = [...this.registry.handlers()].filter(
      ([, handler]) => !paused.has('handler', firstName(handler)) && !paused.has('source', handler.source),
    );
    const effects = [...this.registry.effects()].filter(
      ([, effect]) => !paused.has('effect', firstName(effect)),
    );
    this.turn += 1;
    const all = rotate(handlers, this.turn);
    const batched = all.filter(([, handler]) => handler.batch !== undefined);
    const turned = rotate(effects, this.turn);
    return [
      // First: the other groups would leave it no place.
      (jobs) => this.laneGroup(all, turned, [...jobs]),
      (jobs) => this.handlerGroup(all, [...jobs]),
      ...batched.map(
        ([name]) =>
          (jobs: Iterable<Job>) =>
            this.batchGroup(name, all, [...jobs]),
      ),
      () => this.routeGroup(),
      (jobs) => this.effectGroup(turned, [...jobs]),
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

  // One at a time: what kills a process is found out by itself.
  private laneGroup(
    handlers: readonly [string, Handler][],
    effects: readonly [string, Effect][],
    jobs: readonly Job[],
  ): LeaseGroup {
    if (jobs.some(({ rows: [row] }) => row!.alone)) return { names: [], limit: 0 };
    const names = [...this.handlerRoom(handlers, jobs).names, ...this.effectGroup(effects, jobs).names];
    return { names, limit: 1, alone: true };
  }

  private handlerGroup(all: readonly [string, Handler][], jobs: readonly Job[]): LeaseGroup {
    const { names, limit } = this.handlerRoom(all, jobs);
    return { names: names.filter(({ name }) => this.registry.handler(name)!.batch === undefined), limit };
  }

  // A lease of its own for each, since a place is worth `batch` rows.
  private batchGroup(name: string, all: readonly [string, Handler][], jobs: readonly Job[]): LeaseGroup {
    const one = this.handlerRoom(all, jobs).names.find((other) => other.name === name);
    if (one === undefined) return { names: [], limit: 0 };
    const limit = Math.min(one.limit, one.shareLimit!) * this.registry.handler(name)!.batch!;
    return { names: [{ ...one, limit, shareLimit: limit }], limit };
  }

  private handlerRoom(
    handlers: readonly [string, Handler][],
    jobs: readonly Job[],
  ): Pick<LeaseGroup, 'names' | 'limit'> {
    const running = jobs.filter(({ rows: [row] }) => row!.kind === 'handler');
    const max = this.maxHandlers();
    const free = max - running.length;
    const bySource = countBy(running, ({ rows: [row] }) => row!.event!.source);
    const sources = new Set(handlers.map(([, handler]) => handler.source));
    const names = withRoom(handlers, running, free, max).map((one) => {
      const { source } = this.registry.handler(one.name)!;
      const fair = fairRoom(sources, bySource, source, free, max);
      return { ...one, share: source, shareLimit: Math.min(fair, this.roomOfSource(source, bySource)) };
    });
    return { names: names.filter(hasRoom), limit: free };
  }

  // A route runs only in a delivery: when the provider's window has passed, its row is dead.
  private routeGroup(): LeaseGroup {
    const limit = MAX_ROUTE_ROWS;
    const names = [...this.registry.routes().keys()].map((name): RunnableName => {
      return { name, maxAttempts: 0, limit };
    });
    return { names, limit };
  }

  private effectGroup(effects: readonly [string, Effect][], jobs: readonly Job[]): LeaseGroup {
    const max = this.options.relay === false ? 0 : this.options.relay.effects;
    const running = jobs.filter(({ rows: [row] }) => row!.kind === 'effect');
    const free = max - running.length;
    const names = withRoom(effects, running, free, max).map((one) => {
      return { ...one, parks: this.registry.effect(one.name)!.options.inDoubt === 'park' };
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

function withRoom(
  works: readonly (readonly [string, Handler | Effect])[],
  jobs: readonly Job[],
  free: number,
  max: number,
): RunnableName[] {
  const running = countBy(jobs, ({ rows: [row] }) => row!.name);
  const names = new Set(works.map(([name]) => name));
  return works.map(([name, work]) => {
    const fair = fairRoom(names, running, name, free, max);
    const own = (work.concurrency ?? MAX_INT4) - (running.get(name) ?? 0);
    const limit = Math.max(0, Math.min(fair, own));
    return { name, maxAttempts: work.retry.maxAttempts, limit };
  });
}

/**
 * How many of the free places one of several may take. Up to half of all places are kept for others that have nothing running, so
 * that whoever floods leaves room for whoever comes; who has nothing running may always take one.
 */
function fairRoom(
  all: ReadonlySet<string>,
  running: ReadonlyMap<string, number>,
  one: string,
  free: number,
  max: number,
): number {
  const idle = [...all].filter((other) => other !== one && !running.has(other)).length;
  const room = free - Math.min(idle, Math.floor(max / 2));
  return running.has(one) ? room : Math.max(room, Math.min(free, 1));
}

const MAX_INT4 = 2 ** 31 - 1;

function countBy<T>(list: readonly T[], key: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of list) counts.set(key(item), (counts.get(key(item)) ?? 0) + 1);
  return counts;
}

const hasRoom = ({ limit, shareLimit = limit }: RunnableName) => limit > 0 && shareLimit > 0;

/** A flooded name is not always first. */
function rotate<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
