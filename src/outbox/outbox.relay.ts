import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { randomUUID } from 'node:crypto';
import { Alerts } from '../core/alerts.js';
import { errorText, logLine } from '../core/log.js';
import type { ResolvedOptions, ResolvedRelay } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { OutboxStore, type LeasedRow, type LeaseResult, type RunnableName } from '../storage/outbox.store.js';
import { Deadline } from './deadline.js';
import { EffectRunner } from './effect.runner.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { HandlerRunner, LeaseLost } from './handler.runner.js';
import { poolSize } from './pool-size.js';
import { rowFacts } from './row-facts.js';

/** What one round did: how many rows it leased, and how their runs ended. */
export interface TickReport {
  readonly leased: number;
  readonly done: number;
  readonly retried: number;
  readonly dead: number;
  /** Leases that ended before their run did. */
  readonly lost: number;
}

interface Run {
  readonly row: LeasedRow;
  readonly deadline: Deadline;
  /** When the lease ends, on this process's monotonic clock. */
  leaseEndsAt: number;
  readonly ended: Promise<RunOutcome>;
}

/** Connections that are left to claims when the relay's share is derived from the pool. */
const CLAIM_RESERVE = 3;

/** Leases due rows and runs them. It holds no timer: `RelayLoop` calls `round`, tests and crons call `tick` or `drain`. */
@Injectable()
export class OutboxRelay {
  /** Names this process in `leased_by`; new at each start, so that a restarted process is not taken for the former one. */
  readonly owner = randomUUID();
  private readonly logger = new Logger('WebhookInbox');
  private readonly runs = new Map<string, Run>();
  private leasing: Promise<unknown> = Promise.resolve();
  private stopped = false;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly handlers: HandlerRunner,
    private readonly effects: EffectRunner,
    private readonly failures: FailureSettler,
    private readonly alerts: Alerts,
  ) {}

  /** One round: leases what is due and there is room for, runs it to its end, and says what became of it. */
  async tick(): Promise<TickReport> {
    const runs = await this.lease();
    return report(await Promise.all(runs.map((run) => run.ended)));
  }

  /** Rounds until nothing is due or `maxMs` milliseconds have passed: for serverless functions and crons. */
  async drain({ maxMs }: { readonly maxMs: number }): Promise<TickReport> {
    const end = performance.now() + maxMs;
    let total = report([]);
    for (;;) {
      const one = await this.tick();
      total = add(total, one);
      if (one.leased === 0 || performance.now() >= end) return total;
    }
  }

  /** Leases and starts runs without waiting for their end. True when there may be more that is due. */
  async round(onEnd: () => void): Promise<boolean> {
    const runs = await this.lease();
    for (const run of runs) void run.ended.then(onEnd);
    return runs.length > 0;
  }

  /** Prolongs the leases of what runs; aborts a run whose lease is about to end, or was taken. */
  async renew(): Promise<void> {
    const runs = [...this.runs.values()];
    if (runs.length === 0) return;
    const { leaseMs } = this.relay();
    const startedAt = performance.now();
    try {
      const ours = await this.store.renew(
        this.dataSource.manager,
        runs.map((run) => run.row),
        leaseMs,
      );
      for (const run of runs) {
        if (ours.has(run.row.id)) run.leaseEndsAt = startedAt + leaseMs;
        else if (this.runs.has(run.row.id)) run.deadline.abort(new LeaseLost());
      }
    } catch (error) {
      this.logger.warn(logLine(`leases could not be renewed: ${errorText(error)}`, { runs: runs.length }));
    }
    for (const run of runs) {
      if (run.leaseEndsAt - performance.now() < leaseMs / 3) run.deadline.abort(new LeaseLost());
    }
  }

  /** No more leases; what runs goes on. */
  stopLeasing(): void {
    this.stopped = true;
  }

  /** Waits for what runs, up to `graceMs` milliseconds; then aborts it and waits for the abort to be recorded. */
  async finish(graceMs: number): Promise<void> {
    await this.leasing.catch(() => undefined);
    const all = Promise.all([...this.runs.values()].map((run) => run.ended));
    if (await within(all, graceMs)) return;
    for (const run of this.runs.values()) {
      this.logger.warn(logLine('aborted at shutdown; another process will run it again', rowFacts(run.row)));
      run.deadline.abort(new LeaseLost());
    }
    await within(all, 2_000);
  }

  /** How many runs are under way. */
  get running(): number {
    return this.runs.size;
  }

  // One lease statement at a time, so that two never count the same free places.
  private lease(): Promise<Run[]> {
    const next = this.leasing.catch(() => undefined).then(() => this.leaseNow());
    this.leasing = next;
    return next;
  }

  private async leaseNow(): Promise<Run[]> {
    const { leaseMs } = this.relay();
    const runs: Run[] = [];
    for (const [names, free] of [this.dueHandlers(), this.dueEffects()] as const) {
      if (this.stopped || free <= 0 || names.length === 0) continue;
      const startedAt = performance.now();
      const result = await this.store.lease(this.dataSource.manager, this.owner, leaseMs, names, free);
      this.failures.tellExhausted(result.exhausted);
      if (this.stopped) await this.store.release(this.dataSource.manager, result.leased);
      else runs.push(...this.start(result, startedAt + leaseMs));
    }
    return runs;
  }

  private start({ leased }: LeaseResult, leaseEndsAt: number): Run[] {
    return leased.map((row) => {
      const work =
        row.kind === 'handler' ? this.registry.handler(row.name)! : this.registry.effect(row.name)!;
      const deadline = new Deadline(row.name, work.timeoutMs);
      if (row.lost > 0)
        this.logger.warn(logLine('an earlier attempt never ended', rowFacts(row, { lost: row.lost })));
      this.tellNotRedelivered(row);
      const run: Run = { row, deadline, leaseEndsAt, ended: this.run(row, deadline, work.timeoutMs) };
      this.runs.set(row.id, run);
      return run;
    });
  }

  private async run(row: LeasedRow, deadline: Deadline, timeoutMs: number): Promise<RunOutcome> {
    try {
      return await (row.kind === 'handler'
        ? this.handlers.run(row, deadline, timeoutMs)
        : this.effects.run(row, deadline));
    } catch (error) {
      this.logger.error(logLine(`the end of a run was not recorded: ${errorText(error)}`, rowFacts(row)));
      return 'lost';
    } finally {
      deadline.end();
      this.runs.delete(row.id);
    }
  }

  private tellNotRedelivered(row: LeasedRow): void {
    if (
      row.kind === 'handler' &&
      row.tries > 1 &&
      this.options.sources.get(row.event!.source)?.retries === 'provider'
    ) {
      const { source, tenant, eventId } = row.event!;
      const event = { source, tenant, eventId };
      this.alerts.raise({ kind: 'not-redelivered', outboxId: row.id, name: row.name, event });
    }
  }

  private dueHandlers(): [RunnableName[], number] {
    const handlers = [...this.registry.handlers()].map(([name, handler]) => this.runnable(name, handler));
    // A route runs only in a delivery: when the provider's window has passed, its row is dead.
    const routes = [...this.registry.routes().keys()].map((name) => ({ name, maxAttempts: 0, limit: 10 }));
    return [[...handlers, ...routes].filter(hasRoom), this.maxHandlers() - this.count('handler')];
  }

  private dueEffects(): [RunnableName[], number] {
    const effects = [...this.registry.effects()].map(([name, effect]) => this.runnable(name, effect));
    return [effects.filter(hasRoom), this.relay().effects - this.count('effect')];
  }

  private runnable(
    name: string,
    work: { readonly retry: { readonly maxAttempts: number }; readonly concurrency: number | undefined },
  ): RunnableName {
    const running = work.concurrency === undefined ? 0 : this.count(name);
    return { name, maxAttempts: work.retry.maxAttempts, limit: (work.concurrency ?? 1_000) - running };
  }

  private count(what: string): number {
    let count = 0;
    for (const { row } of this.runs.values()) if (row.kind === what || row.name === what) count += 1;
    return count;
  }

  private maxHandlers(): number {
    return this.relay().handlers ?? Math.max(1, poolSize(this.dataSource) - CLAIM_RESERVE);
  }

  private relay(): ResolvedRelay {
    if (this.options.relay === false) throw new Error('relay: false: this process runs nothing');
    return this.options.relay;
  }
}

const hasRoom = (name: RunnableName) => name.limit > 0;

function report(outcomes: readonly RunOutcome[]): TickReport {
  const count = (outcome: RunOutcome) => outcomes.filter((one) => one === outcome).length;
  return {
    leased: outcomes.length,
    done: count('done'),
    retried: count('retry'),
    dead: count('dead'),
    lost: count('lost'),
  };
}

function add(a: TickReport, b: TickReport): TickReport {
  return {
    leased: a.leased + b.leased,
    done: a.done + b.done,
    retried: a.retried + b.retried,
    dead: a.dead + b.dead,
    lost: a.lost + b.lost,
  };
}

async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
