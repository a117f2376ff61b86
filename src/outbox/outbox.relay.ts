import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../core/inbox.logger.js';
import { within } from '../core/within.js';
import { errorText, logLine } from '../core/log.js';
import { runningRelay, type ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { onConnection } from '../storage/connection.js';
import type { LeasedRow } from '../storage/leased.rows.js';
import { OutboxStore } from '../storage/outbox.store.js';
import { DryNames } from './dry.names.js';
import { ScanStarts } from './scan.starts.js';
import { FailureSettler } from './failure.settler.js';
import { LeaseLost } from './handler.runner.js';
import { namesToRunAgain, type StartedJob } from './job.js';
import { JobRunner } from './job.runner.js';
import { LeasePlan, type LeaseGroup, type Look } from './lease.plan.js';
import { LoneStatements } from './lone.statements.js';
import { Pace } from './pace.js';
import { rowFacts } from './row-facts.js';
import { add, report, type TickReport } from './tick.report.js';
import { Turns } from './turns.js';
import type { WokenNames } from './wake-up.js';

/** How long a shutdown waits for what it has aborted, and for the database. */
const ABORT_MS = 1_000;

/** Told of each job as it starts: what comes after it in the round may fail. */
type OnStart = (job: StartedJob) => void;

/** As many rows as a look must find for there to be more: the least that it was limited to. */
const mostOf = ({ names, limit, alone = false }: LeaseGroup) =>
  alone ? 1 : Math.min(limit, ...names.map((name) => Math.min(name.limit, name.shareLimit ?? name.limit)));

/** Asking which of fewer are due costs as much as leasing them. */
const MANY_BATCHES = 4;

/** Leases due rows and runs them. It holds no timer: `RelayLoop` calls `round`, tests and crons call `tick` or `drain`. */
@Injectable()
export class OutboxRelay {
  /** Names this process in `leased_by`; new at each start, so that a restarted process is not taken for the former one. */
  readonly owner = randomUUID();
  private readonly logger = new InboxLogger();
  private leasing: Promise<unknown> = Promise.resolve();
  private readonly dry = new DryNames();
  private readonly starts = new ScanStarts();
  private stopped = false;
  private givenBack: Promise<void> | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly plan: LeasePlan,
    private readonly pace: Pace,
    private readonly turns: Turns,
    private readonly runner: JobRunner,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
  ) {}

  /** What became of every run since the process started. */
  get totals(): TickReport {
    return this.runner.totals;
  }

  /**
   * One round: leases what is due and there is room for, runs it to its end, and says what became of it.
   * @throws when the outbox could not be read, after the end of what it has started all the same
   */
  async tick(): Promise<TickReport> {
    this.woken(undefined);
    const ends: StartedJob['ended'][] = [];
    try {
      await this.lease(false, (job) => ends.push(job.ended));
    } finally {
      await Promise.all(ends);
    }
    const outcomes = await Promise.all(ends);
    return report(outcomes.flatMap((one) => [...one.values()]));
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

  /**
   * Leases and starts runs without waiting for their end. True when there may be more that is due.
   * @param onEnd told of each run's end, with the names of what it left to be run again
   * @param everywhere look also where the last look found nothing: after a commit, or after the poll interval
   * @throws when the outbox could not be read; of what it has started all the same, `onEnd` is told
   */
  async round(onEnd: (again: readonly string[]) => void, everywhere = true): Promise<boolean> {
    if (everywhere) this.woken(undefined);
    let any = false;
    await this.lease(true, (job) => {
      any = true;
      void job.ended.then((outcomes) => onEnd(namesToRunAgain(job, outcomes)));
    });
    return any;
  }

  /** Prolongs the leases of what runs; aborts a run whose lease is about to end, or was taken. */
  async renew(): Promise<void> {
    // What has waited for a place for so long may find one elsewhere. Not awaited: leases are renewed meanwhile.
    void this.giveBackWaiting();
    const jobs = [...this.runner.jobs];
    if (jobs.length === 0) return;
    const { leaseMs } = runningRelay(this.options);
    const startedAt = performance.now();
    try {
      const rows = jobs.flatMap((job) => job.rows);
      const renewed = this.statements.send((manager) => this.store.renew(manager, rows, leaseMs));
      const renewing = renewed.then((ours) => {
        for (const job of jobs) {
          // Rows of a batch that was split are settled one after the other: one that is still ours is enough.
          if (job.rows.some((row) => ours.has(row.id))) job.leaseEndsAt = startedAt + leaseMs;
          else if (this.runner.jobs.has(job)) job.deadline.abort(new LeaseLost());
        }
      });
      // A connection that is half open never answers, and the leases end all the same.
      if (!(await within(renewing, leaseMs / 6)))
        this.logger.warn(logLine('leases are not renewed yet', { jobs: jobs.length }));
    } catch (error) {
      this.logger.warn(logLine(`leases could not be renewed: ${errorText(error)}`, { jobs: jobs.length }));
    }
    for (const job of jobs) {
      if (job.leaseEndsAt - performance.now() < leaseMs / 3) job.deadline.abort(new LeaseLost());
    }
  }

  /** Rows of these names have been committed: the next round looks for them. */
  woken(names: WokenNames): void {
    this.dry.forget(names);
    this.starts.forget(names);
    this.turns.wake(names);
  }

  /** Whether nothing of this name was due when it was last looked for. */
  isDry(name: string): boolean {
    return this.dry.has(name);
  }

  /** No more leases; what runs goes on. */
  stopLeasing(): void {
    this.stopped = true;
    this.givenBack = this.giveBackWaiting();
  }

  /**
   * Waits for what runs, up to `graceMs` milliseconds. What runs then is given back, as if it had not begun, and aborted: a shutdown
   * is nobody's failed attempt.
   */
  async finish(graceMs: number): Promise<void> {
    const ended = Promise.all([this.settled(), this.givenBack]);
    if (await within(ended, graceMs)) return;
    const jobs = [...this.runner.jobs];
    const rows = jobs.flatMap((job) => job.rows);
    for (const row of rows)
      this.logger.warn(logLine('aborted at shutdown; another process will run it again', rowFacts(row)));
    this.failures.abandon(rows);
    const given = { delayMs: ABORT_MS, running: true };
    const released = this.statements.send((manager) => this.store.release(manager, rows, given));
    await within(released, ABORT_MS).catch((error: unknown) => {
      this.logger.warn(logLine(`leases could not be given back: ${errorText(error)}`, { jobs: jobs.length }));
    });
    for (const job of jobs) job.deadline.abort(new LeaseLost());
    await within(ended, ABORT_MS);
  }

  /** Waits for what is being leased now. */
  async leased(): Promise<void> {
    await this.leasing.catch(() => undefined);
  }

  /** Something has been paused: waits for a lease that may have been decided on before it, and gives back what waits for a place. */
  async paused(): Promise<void> {
    await this.leased();
    await this.giveBackWaiting();
  }

  /** Waits for what is being leased and for what runs now. */
  settled(): Promise<unknown> {
    return this.leasing
      .catch(() => undefined)
      .then(() => Promise.all([...this.runner.jobs].map((job) => job.ended)));
  }

  /** How many rows are running. */
  get running(): number {
    return [...this.runner.jobs].reduce((count, job) => count + job.rows.length, 0);
  }

  // One lease at a time, so that two never count the same free places.
  private lease(ahead: boolean, onStart: OnStart): Promise<void> {
    const next = this.leasing.catch(() => undefined).then(() => this.leaseNow(ahead, onStart));
    this.leasing = next;
    return next;
  }

  private async leaseNow(ahead: boolean, onStart: OnStart): Promise<void> {
    const { leaseMs } = runningRelay(this.options);
    if (this.runner.isExclusive) return;
    // A connection that is half open never answers: it is given up, and the next round has another.
    if (await this.turns.give(leaseMs)) {
      this.dry.forget(undefined);
      this.starts.forget(undefined);
    }
    if (this.dry.isAll(this.plan.nameCounts)) return;
    const looks = await this.plan.looks(leaseMs, ahead);
    const [lane] = looks;
    // The lane's look has all that is not paused: what was leased ahead of a pause does not begin after it.
    await this.giveBackWaiting(({ name }) => !lane!.names.includes(name));
    await this.passOverEmptyBatches(looks, leaseMs);
    let moved = 0;
    for (const look of looks) {
      if (this.dry.hasAll(look)) continue;
      const wanted = look.group(this.runner.occupants);
      moved += await this.leaseGroup(this.dry.without(wanted), leaseMs, onStart);
      if (this.runner.isExclusive) return;
    }
    // What has just come into the lane need not wait for another round.
    if (moved > 0) await this.leaseGroup(lane!.group(this.runner.occupants), leaseMs, onStart);
  }

  /** Each batched handler is leased by a statement of its own: one statement tells which of many are worth it. */
  private async passOverEmptyBatches(looks: readonly Look[], leaseMs: number): Promise<void> {
    const batched = looks.filter((look) => look.batched && !this.dry.hasAll(look));
    if (batched.length < MANY_BATCHES) return;
    const names = batched.flatMap((look) => look.names);
    this.dry.lookBegins();
    const due = await onConnection(
      this.dataSource,
      (connection) => this.store.dueNames(connection, names),
      leaseMs,
    );
    this.dry.note(
      names.filter((name) => !due.has(name)),
      false,
    );
  }

  /** Leased ahead, and not begun. */
  private async giveBackWaiting(leaves: (row: LeasedRow) => boolean = () => true): Promise<void> {
    const rows = this.runner.takeWaiting(leaves);
    if (rows.length === 0) return;
    try {
      await this.statements.send((manager) => this.store.release(manager, rows));
      this.woken([...new Set(rows.map(({ name }) => name))]);
    } catch (error) {
      const text = `leases could not be given back, and will end: ${errorText(error)}`;
      this.logger.warn(logLine(text, { rows: rows.length }));
    }
  }

  /** Says how many rows have come into the lane. */
  private async leaseGroup(group: LeaseGroup, leaseMs: number, onStart: OnStart): Promise<number> {
    const { limit, alone = false } = group;
    const names = alone ? group.names : this.starts.of(group.names);
    if (this.stopped || limit <= 0 || names.length === 0) return 0;
    const startedAt = performance.now();
    this.dry.lookBegins();
    const { leased, exhausted, moved, lastDue } = await onConnection(
      this.dataSource,
      (connection) =>
        alone
          ? this.store.leaseAlone(connection, this.owner, leaseMs, names)
          : this.store.lease(connection, this.owner, leaseMs, names, limit),
      leaseMs,
    );
    const found = leased.length + exhausted.length + moved;
    const isFull = found >= mostOf(group);
    const hinted = names.some(({ since }) => since !== undefined);
    if (isFull && !alone) this.starts.ended(names, lastDue);
    else if (hinted) this.starts.forget(names.map(({ name }) => name));
    // Behind a hint there was nothing more: before it there may be.
    if (isFull || !hinted)
      this.dry.note(
        group.names.map(({ name }) => name),
        isFull,
        alone,
      );
    else if (found === 0) return this.leaseGroup(group, leaseMs, onStart);
    this.failures.tellExhausted(exhausted);
    if (this.stopped) {
      await this.statements.send((manager) => this.store.release(manager, leased));
      return moved;
    }
    const orphans = leased.filter(({ kind, event }) => kind === 'handler' && event === undefined);
    const whole = leased.filter((row) => !orphans.includes(row));
    if (leased.length > 0) this.pace.leaseTook(performance.now() - startedAt);
    for (const rows of this.plan.jobs(whole)) onStart(this.runner.start(rows, startedAt + leaseMs));
    for (const row of orphans) await this.failures.bury(row);
    // What was dead before it could run has not used the lane's turn.
    if (alone && exhausted.length + orphans.length > 0) return this.leaseGroup(group, leaseMs, onStart);
    return moved;
  }
}
