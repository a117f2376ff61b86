import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { runningRelay, type ResolvedOptions } from '../../core/options/resolve-options.js';
import { endsWithin } from '../../core/time/waits.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore, type RunnableName } from '../../storage/outbox.store.js';
import { DueRows } from './due-rows.js';
import { FailureSettler } from '../runs/failure.settler.js';
import type { StartedJob } from './job.js';
import { JobRunner } from './job.runner.js';
import { LastPolls } from './last-polls.js';
import { LeasePlan, type LeaseGroup } from './lease-plan.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { MismatchedRows } from './mismatched-rows.js';
import { Turns } from './turns.js';
import type { WokenNames } from '../wake/wake-up.js';

/** How a round starts its jobs. */
export interface Starting {
  /** Called for each job as it starts. A later step of the round may still fail. */
  readonly onStart: (job: StartedJob) => void;
  /** Its code runs only then. @default at once */
  readonly after?: Promise<unknown>;
}

/** The smallest limit of a poll. No limit has cut short a poll that finds fewer rows. */
const smallestLimit = (names: readonly RunnableName[], limit: number) =>
  Math.min(limit, ...names.map((name) => Math.min(name.limit, name.shareLimit ?? name.limit)));

/** Rows to choose from, for each row that a poll takes. */
const CHOICE = 4;

/** Of many names a few rows each: a poll locks all rows from which it chooses. */
function fewOfEach(names: readonly RunnableName[], limit: number): readonly RunnableName[] {
  const most = Math.ceil((CHOICE * limit) / names.length);
  return names.map((name) => (name.limit > most ? { ...name, limit: most } : name));
}

/** Leases due rows and starts them. A round consists of polls, and each poll is one statement. */
@Injectable()
export class Leaser {
  private readonly logger = new InboxLogger();
  private leasing: Promise<unknown> = Promise.resolve();
  private readonly last = new LastPolls();
  private stopped = false;
  private suspended = false;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly plan: LeasePlan,
    private readonly dueRows: DueRows,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly turns: Turns,
    private readonly runner: JobRunner,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
    private readonly mismatched: MismatchedRows,
  ) {}

  /**
   * One round: leases due rows and starts their runs, without waiting for their ends. One at a time, so that two never count the same free
   * slots.
   * @param prefetches whether rows of quick handlers may be leased that must wait for a slot
   * @throws when the outbox could not be read; runs may have started before
   */
  lease(prefetches: boolean, starting: Starting): Promise<void> {
    const next = this.leasing.catch(() => undefined).then(() => this.leaseNow(prefetches, starting));
    this.leasing = next;
    return next;
  }

  /**
   * As `lease`, for a round by itself. The runs begin after the last poll: a poll that is answered late must not find rows that this round
   * has enqueued. They begin after a sixth of the lease at the latest, since a poll may never be answered.
   */
  async leaseTogether(onStart: Starting['onStart']): Promise<void> {
    let looked: () => void;
    const all = new Promise<void>((resolve) => (looked = resolve));
    const after = endsWithin(all, runningRelay(this.options).leaseMs / 6);
    try {
      await this.lease(false, { onStart, after });
    } finally {
      looked!();
    }
  }

  private async leaseNow(prefetches: boolean, starting: Starting): Promise<void> {
    const { leaseMs } = runningRelay(this.options);
    if (this.runner.isExclusive) return;
    // A connection that is half open never answers: it is given up, and the next round has another.
    if (await this.turns.give(leaseMs)) this.last.forget(undefined);
    if (this.last.wereAllEmpty(this.plan.nameCounts)) return;
    const polls = await this.plan.polls(leaseMs, prefetches);
    const [quarantine] = polls;
    // The quarantine's poll has all names that are not paused. Prefetched rows of a paused name must not begin.
    await this.giveBackWaiting(({ name }) => !quarantine!.names.includes(name));
    let moved = 0;
    for (const poll of polls) {
      if (this.last.wereEmpty(poll)) continue;
      const wanted = poll.group(this.runner.occupants);
      moved += await this.leaseGroup(this.last.withoutEmpty(wanted), leaseMs, starting);
      if (this.runner.isExclusive) return;
    }
    // Rows that have just moved to the quarantine need not wait for another round.
    if (moved > 0) await this.leaseGroup(quarantine!.group(this.runner.occupants), leaseMs, starting);
  }

  /** Rows of these names have been committed: the next round polls for them. */
  wake(names: WokenNames): void {
    this.last.forget(names);
    this.turns.wake(names);
  }

  /** Whether the last poll found no due row of this name. */
  wasEmpty(name: string): boolean {
    return this.last.wasEmpty(name);
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
  async waitForLease(): Promise<void> {
    await this.leasing.catch(() => undefined);
  }

  /** Releases prefetched rows that have not begun. */
  async giveBackWaiting(leaves: (row: LeasedRow) => boolean = () => true): Promise<void> {
    const rows = this.runner.removeWaiting(leaves);
    if (rows.length === 0) return;
    try {
      await this.statements.send((manager) => this.store.release(manager, rows));
      this.wake([...new Set(rows.map(({ name }) => name))]);
    } catch (error) {
      const text = `leases could not be given back, and will end: ${errorText(error)}`;
      this.logger.warn(logLine(text, { rows: rows.length }));
    }
  }

  /** Says how many rows have come into the quarantine. */
  private async leaseGroup(group: LeaseGroup, leaseMs: number, starting: Starting): Promise<number> {
    const { limit, alone = false } = group;
    const names = alone ? group.names : fewOfEach(this.last.withCursors(group.names), limit);
    if (this.isHalted || limit <= 0 || names.length === 0) return 0;
    const startedAt = performance.now();
    this.last.begin();
    const { leased, exhausted, moved, lastDue, seen } = alone
      ? await this.dueRows.leaseQuarantined(names, leaseMs)
      : await this.dueRows.lease(names, limit, leaseMs);
    const found = leased.length + exhausted.length + moved;
    const isFull = found >= (alone ? 1 : smallestLimit(names, limit));
    const hinted = names.some(({ since }) => since !== undefined);
    if (isFull && !alone) this.last.recordFull(names, lastDue, seen);
    else if (hinted) this.last.forgetCursors(names);
    // Behind a hint there was nothing more: before it there may be.
    const mayHaveMore = ({ name, since }: RunnableName) =>
      isFull && (alone || since !== undefined || seen.has(name));
    if (isFull || !hinted) this.last.record(names, mayHaveMore, alone);
    else if (found === 0) return this.leaseGroup(group, leaseMs, starting);
    if (exhausted.length > 0) this.failures.reportExhausted(exhausted);
    if (!alone)
      this.turns.noteBacklog(
        leased,
        names.map(({ name }) => name),
        isFull,
      );
    if (this.isHalted) {
      await this.statements.send((manager) => this.store.release(manager, leased));
      return moved;
    }
    const orphans = leased.filter(({ kind, event }) => kind === 'handler' && event === undefined);
    const mismatched = leased.filter((row) => this.registry.mismatches(row));
    const whole = leased.filter((row) => !orphans.includes(row) && !mismatched.includes(row));
    for (const rows of this.plan.jobs(whole)) {
      for (const row of rows) this.dueRows.reportHistory(row);
      starting.onStart(this.runner.start(rows, startedAt + leaseMs, false, starting.after));
    }
    for (const row of orphans) await this.failures.bury(row);
    if (mismatched.length > 0)
      await this.statements.send((manager) => this.mismatched.giveBack(manager, mismatched));
    // A row that was dead before it could run has not used the slot of the quarantine.
    if (alone && exhausted.length + orphans.length + mismatched.length > 0)
      return this.leaseGroup(group, leaseMs, starting);
    return moved;
  }
}
