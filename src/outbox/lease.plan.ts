import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry, type Effect, type Handler } from '../handlers/handler.registry.js';
import type { LeasedRow, RunnableName } from '../storage/outbox.store.js';
import type { Job } from './job.js';
import { PausedNames } from './paused.names.js';
import { poolSize } from './pool-size.js';

/** What to lease in one statement: names with their room, and how many rows in all. */
export interface LeaseGroup {
  readonly names: readonly RunnableName[];
  readonly limit: number;
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

  /** One group for each lease statement of a round; each is asked when its turn comes, with what runs by then. */
  async groups(): Promise<((jobs: Iterable<Job>) => LeaseGroup)[]> {
    const paused = await this.paused.read();
    const handlers = [...this.registry.handlers()].filter(
      ([, handler]) => !paused.has('handler', handler.name) && !paused.has('source', handler.source),
    );
    const effects = [...this.registry.effects()].filter(([, effect]) => !paused.has('effect', effect.name));
    this.turn += 1;
    const single = rotate(
      handlers.filter(([, handler]) => handler.batch === undefined),
      this.turn,
    );
    const batched = rotate(
      handlers.filter(([, handler]) => handler.batch !== undefined),
      this.turn,
    );
    return [
      (jobs) => this.handlerGroup(single, [...jobs]),
      ...batched.map((one) => (jobs: Iterable<Job>) => this.batchGroup(one, [...jobs])),
      () => this.routeGroup(),
      (jobs) => this.effectGroup(rotate(effects, this.turn), [...jobs]),
    ];
  }

  /** Leased rows as jobs: those of a batched handler together, but a row whose last attempt never ended alone: it may be what kills. */
  jobs(rows: readonly LeasedRow[]): LeasedRow[][] {
    const jobs: LeasedRow[][] = [];
    const open = new Map<string, LeasedRow[]>();
    for (const row of rows) {
      const batch = row.kind === 'handler' ? this.registry.handler(row.name)?.batch : undefined;
      const joined = batch === undefined || row.wasLost ? undefined : open.get(row.name);
      if (joined !== undefined && joined.length < batch!) {
        joined.push(row);
        continue;
      }
      const job = [row];
      jobs.push(job);
      if (batch !== undefined && !row.wasLost) open.set(row.name, job);
    }
    return jobs;
  }

  private handlerGroup(handlers: readonly [string, Handler][], jobs: readonly Job[]): LeaseGroup {
    const free = this.maxHandlers() - ofKind(jobs, 'handler');
    const names = withRoom(handlers, jobs, free, this.maxHandlers()).map((one) => ({
      ...one,
      limit: Math.min(one.limit, this.roomOfSource(this.registry.handler(one.name)!.source, jobs)),
    }));
    return { names: names.filter(hasRoom), limit: free };
  }

  private batchGroup([name, handler]: readonly [string, Handler], jobs: readonly Job[]): LeaseGroup {
    const free = Math.min(
      this.maxHandlers() - ofKind(jobs, 'handler'),
      this.roomOfSource(handler.source, jobs),
    );
    const [one] = withRoom([[name, handler]], jobs, free, this.maxHandlers());
    const limit = one === undefined ? 0 : one.limit * handler.batch!;
    return { names: one === undefined ? [] : [{ ...one, limit }], limit };
  }

  // A route runs only in a delivery: when the provider's window has passed, its row is dead.
  private routeGroup(): LeaseGroup {
    const names = [...this.registry.routes().keys()].map((name) => ({
      name,
      maxAttempts: 0,
      limit: MAX_ROUTE_ROWS,
    }));
    return { names, limit: MAX_ROUTE_ROWS };
  }

  private effectGroup(effects: readonly [string, Effect][], jobs: readonly Job[]): LeaseGroup {
    const max = this.options.relay === false ? 0 : this.options.relay.effects;
    const free = max - ofKind(jobs, 'effect');
    return { names: withRoom(effects, jobs, free, max).filter(hasRoom), limit: free };
  }

  private roomOfSource(source: string, jobs: readonly Job[]): number {
    const max = this.options.sources.get(source)?.concurrency;
    if (max === undefined) return Number.MAX_SAFE_INTEGER;
    return (
      max - jobs.filter(({ rows: [row] }) => row!.kind === 'handler' && row!.event?.source === source).length
    );
  }

  private maxHandlers(): number {
    const asked = this.options.relay === false ? 0 : this.options.relay.handlers;
    return asked ?? Math.max(1, poolSize(this.dataSource) - CLAIM_RESERVE);
  }
}

/** Half of the places are kept for names that have nothing running, so that whoever floods leaves room for whoever comes. */
function withRoom(
  works: readonly (readonly [string, Handler | Effect])[],
  jobs: readonly Job[],
  free: number,
  max: number,
): RunnableName[] {
  const running = new Map<string, number>();
  for (const { rows } of jobs) running.set(rows[0]!.name, (running.get(rows[0]!.name) ?? 0) + 1);
  const idle = works.filter(([name]) => !running.has(name)).length;
  return works.map(([name, work]) => {
    const mine = running.get(name) ?? 0;
    const reserved = Math.min(mine === 0 ? idle - 1 : idle, Math.floor(max / 2));
    const fair = mine === 0 ? Math.max(free - reserved, Math.min(free, 1)) : free - reserved;
    const limit = Math.min(fair, (work.concurrency ?? Number.MAX_SAFE_INTEGER) - mine);
    return { name, maxAttempts: work.retry.maxAttempts, limit: Math.max(0, limit) };
  });
}

function ofKind(jobs: readonly Job[], kind: 'handler' | 'effect'): number {
  return jobs.filter(({ rows: [row] }) => row!.kind === kind).length;
}

const hasRoom = (name: RunnableName) => name.limit > 0;

/** A flooded name is not always first. */
function rotate<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
