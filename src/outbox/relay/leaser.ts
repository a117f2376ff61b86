import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { runningRelay, type ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { onConnection } from '../../storage/postgres/connection.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { DryNames } from './dry-names.js';
import { FailureSettler } from '../runs/failure.settler.js';
import type { StartedJob } from './job.js';
import { JobRunner } from './job.runner.js';
import { LeasePlan, type LeaseGroup, type Look } from './lease-plan.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { Pace } from './pace.js';
import { ScanStarts } from './scan-starts.js';
import { StrangerRows } from './stranger-rows.js';
import { Turns } from './turns.js';
import { UntoldDeaths } from '../runs/untold-deaths.js';
import type { WokenNames } from '../wake/wake-up.js';

/** What a round does with the jobs that it starts. */
export interface Starting {
  /** Told of each job as it starts: what comes after it in the round may fail. */
  readonly onStart: (job: StartedJob) => void;
  /** Its code runs only then. @default at once */
  readonly after?: Promise<unknown>;
}

/** As many rows as a look must find for there to be more: the least that it was limited to. */
const mostOf = ({ names, limit, alone = false }: LeaseGroup) =>
  alone ? 1 : Math.min(limit, ...names.map((name) => Math.min(name.limit, name.shareLimit ?? name.limit)));

/** Asking which of fewer are due costs as much as leasing them. */
const MANY_BATCHES = 4;

/** Leases due rows and starts them: one round's looks, of which each is a statement. */
@Injectable()
export class Leaser {
  private readonly logger = new InboxLogger();
  private leasing: Promise<unknown> = Promise.resolve();
  private readonly dry = new DryNames();
  private readonly starts = new ScanStarts();
  private stopped = false;
  private suspended = false;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly instance: Instance,
    private readonly store: OutboxStore,
    private readonly plan: LeasePlan,
    private readonly pace: Pace,
    private readonly turns: Turns,
    private readonly runner: JobRunner,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
    private readonly strangers: StrangerRows,
    private readonly untold: UntoldDeaths,
  ) {}

  // One lease at a time, so that two never count the same free places.
  lease(ahead: boolean, starting: Starting): Promise<void> {
    const next = this.leasing.catch(() => undefined).then(() => this.leaseNow(ahead, starting));
    this.leasing = next;
    return next;
  }

  private async leaseNow(ahead: boolean, starting: Starting): Promise<void> {
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
      moved += await this.leaseGroup(this.dry.without(wanted), leaseMs, starting);
      if (this.runner.isExclusive) return;
    }
    // What has just come into the lane need not wait for another round.
    if (moved > 0) await this.leaseGroup(lane!.group(this.runner.occupants), leaseMs, starting);
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

  /** Rows of these names have been committed: the next round looks for them. */
  wake(names: WokenNames): void {
    this.dry.forget(names);
    this.starts.forget(names);
    this.turns.wake(names);
  }

  /** Whether nothing of this name was due when it was last looked for. */
  isDry(name: string): boolean {
    return this.dry.has(name);
  }

  /** No more leases. */
  stop(): void {
    this.stopped = true;
  }

  /** No leases until `resume`. */
  suspend(): void {
    this.suspended = true;
  }

  resume(): void {
    this.suspended = false;
  }

  /** Whether nothing is leased now. */
  get isHalted(): boolean {
    return this.stopped || this.suspended;
  }

  /** Waits for what is being leased now. */
  async ended(): Promise<void> {
    await this.leasing.catch(() => undefined);
  }

  /** Leased ahead, and not begun. */
  async giveBackWaiting(leaves: (row: LeasedRow) => boolean = () => true): Promise<void> {
    const rows = this.runner.takeWaiting(leaves);
    if (rows.length === 0) return;
    try {
      await this.statements.send((manager) => this.store.release(manager, rows));
      this.wake([...new Set(rows.map(({ name }) => name))]);
    } catch (error) {
      const text = `leases could not be given back, and will end: ${errorText(error)}`;
      this.logger.warn(logLine(text, { rows: rows.length }));
    }
  }

  /** Says how many rows have come into the lane. */
  private async leaseGroup(group: LeaseGroup, leaseMs: number, starting: Starting): Promise<number> {
    const { limit, alone = false } = group;
    const names = alone ? group.names : this.starts.of(group.names);
    if (this.isHalted || limit <= 0 || names.length === 0) return 0;
    const startedAt = performance.now();
    this.dry.lookBegins();
    const lease = (connection: EntityManager) =>
      alone
        ? this.store.leaseAlone(connection, this.instance.id, leaseMs, names)
        : this.store.lease(connection, this.instance.id, leaseMs, names, limit);
    const { leased, exhausted, moved, lastDue } = await this.untold.unlessAnswered(() =>
      onConnection(this.dataSource, lease, leaseMs),
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
    else if (found === 0) return this.leaseGroup(group, leaseMs, starting);
    this.failures.tellExhausted(exhausted);
    if (!alone)
      this.turns.leased(
        leased,
        names.map(({ name }) => name),
        isFull,
      );
    if (this.isHalted) {
      await this.statements.send((manager) => this.store.release(manager, leased));
      return moved;
    }
    const orphans = leased.filter(({ kind, event }) => kind === 'handler' && event === undefined);
    const strangers = this.strangers.in(leased);
    const whole = leased.filter((row) => !orphans.includes(row) && !strangers.includes(row));
    if (leased.length > 0) this.pace.leaseTook(performance.now() - startedAt);
    for (const rows of this.plan.jobs(whole))
      starting.onStart(this.runner.start(rows, startedAt + leaseMs, false, starting.after));
    for (const row of orphans) await this.failures.bury(row);
    if (strangers.length > 0)
      await this.statements.send((manager) => this.strangers.giveBack(manager, strangers));
    // What was dead before it could run has not used the lane's turn.
    if (alone && exhausted.length + orphans.length + strangers.length > 0)
      return this.leaseGroup(group, leaseMs, starting);
    return moved;
  }
}
