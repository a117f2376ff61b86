import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { endsWithin } from '../../core/time/waits.js';
import { errorText, logLine } from '../../core/log/log.js';
import { runningRelay, type ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { FailureSettler } from '../runs/failure.settler.js';
import { LeaseLost } from '../runs/deadline.js';
import { JobRunner } from './job.runner.js';
import { Leaser } from './leaser.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { rowFacts } from './row-facts.js';
import type { TickReport } from './tick-report.js';

/** How long a shutdown waits for what it has aborted, and for the database. */
const ABORT_MS = 1_000;

/** The rows that this process has leased: renews their leases, gives back rows that may not go on, and waits for running work. */
@Injectable()
export class LeasedWork {
  private readonly logger = new InboxLogger();
  private givenBack: Promise<void> | undefined;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly leaser: Leaser,
    private readonly runner: JobRunner,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
  ) {}

  /** The outcomes of all runs since the process started. */
  get totals(): TickReport {
    return this.runner.totals;
  }

  /** Prolongs the leases of running work; aborts a run whose lease is about to end, or was taken. */
  async renew(): Promise<void> {
    // A row that has waited for a slot for so long may find one in another process. It is not awaited, so that leases are renewed
    // meanwhile.
    // Rows that were lost twice stay: they only wait for the others to end.
    void this.leaser.giveBackWaiting(({ alone, wasLost }) => !(alone && wasLost));
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
      if (!(await endsWithin(renewing, leaseMs / 6)))
        this.logger.warn(logLine('leases are not renewed yet', { jobs: jobs.length }));
    } catch (error) {
      this.logger.warn(logLine(`leases could not be renewed: ${errorText(error)}`, { jobs: jobs.length }));
    }
    for (const job of jobs) {
      if (job.leaseEndsAt - performance.now() < leaseMs / 3) job.deadline.abort(new LeaseLost());
    }
  }

  /**
   * Other processes may take the rows that are leased here. So running jobs are aborted, waiting jobs are released, and nothing is leased
   * until `resume`.
   */
  suspend(): void {
    this.leaser.suspend();
    void this.leaser.giveBackWaiting();
    for (const job of this.runner.jobs) job.deadline.abort(new LeaseLost());
  }

  resume(): void {
    this.leaser.resume();
  }

  /** No more leases. Running jobs go on. */
  stopLeasing(): void {
    this.leaser.stop();
    this.givenBack = this.leaser.giveBackWaiting();
  }

  /**
   * Waits for running jobs, up to `graceMs` milliseconds. Jobs that still run then are aborted, and their rows released without counting
   * the attempt. A shutdown is not a failed attempt.
   */
  async finish(graceMs: number): Promise<void> {
    const ended = Promise.all([this.waitForRuns(), this.givenBack]);
    if (await endsWithin(ended, graceMs)) return;
    const jobs = [...this.runner.jobs];
    const rows = jobs.flatMap((job) => job.rows);
    for (const row of rows)
      this.logger.warn(logLine('aborted at shutdown; another process will run it again', rowFacts(row)));
    this.failures.abandon(rows);
    const given = { delayMs: ABORT_MS, running: true };
    const released = this.statements.send((manager) => this.store.release(manager, rows, given));
    await endsWithin(released, ABORT_MS).catch((error: unknown) => {
      this.logger.warn(logLine(`leases could not be given back: ${errorText(error)}`, { jobs: jobs.length }));
    });
    for (const job of jobs) job.deadline.abort(new LeaseLost());
    await endsWithin(ended, ABORT_MS);
  }

  /** Something has been paused: waits for a lease that may have been decided on before it, and gives back the rows that wait for a slot. */
  async givePausedBack(): Promise<void> {
    await this.leaser.waitForLease();
    await this.leaser.giveBackWaiting();
  }

  /** Waits for leases under way and for running work. */
  async waitForRuns(): Promise<void> {
    await this.leaser.waitForLease();
    await Promise.all([...this.runner.jobs].map((job) => job.ended));
  }

  /** How many rows are running. */
  get running(): number {
    return [...this.runner.jobs].reduce((count, job) => count + job.rows.length, 0);
  }
}
