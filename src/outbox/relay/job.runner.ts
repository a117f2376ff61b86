import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import { Tally } from '../../core/telemetry/tally.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { HAND_OVER_MS } from '../engine/engine-link.js';
import { HandOver } from '../engine/hand-over.js';
import { BatchRunner, type Outcomes } from '../runs/batch.runner.js';
import { Deadline } from '../runs/deadline.js';
import { EffectRunner } from '../runs/effect.runner.js';
import { HandlerRunner } from '../runs/handler.runner.js';
import type { HeldSlot, Job, Occupant, StartedJob } from './job.js';
import { HandlerSlots, SlotQueue } from '../slots/handler-slots.js';
import { rowFacts } from './row-facts.js';
import { Solos } from '../slots/solo.js';
import { add, report, type TickReport } from './tick-report.js';
import { WakeUp } from '../wake/wake-up.js';

/** Runs leased rows, each in a slot. Prefetched rows wait here for one. Runs of deliveries use the same slots. */
@Injectable()
export class JobRunner {
  /** The outcomes of all runs since the process started. */
  totals: TickReport = report([]);
  private readonly logger = new InboxLogger();
  private readonly all = new Set<StartedJob>();
  private readonly held = new Set<Occupant>();
  private readonly queue = new SlotQueue<Occupant>();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly slots: HandlerSlots,
    private readonly handlers: HandlerRunner,
    private readonly batches: BatchRunner,
    private readonly effects: EffectRunner,
    private readonly handOver: HandOver,
    private readonly tally: Tally,
    private readonly solos: Solos,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Those that run and those that wait for a slot. */
  get jobs(): ReadonlySet<StartedJob> {
    return this.all;
  }

  /** All that takes a slot, or waits for one. */
  get occupants(): Occupant[] {
    return [...this.all, ...this.held];
  }

  /** Whether nothing may begin now, beside a row that was lost twice. */
  get isExclusive(): boolean {
    return this.exclusiveJob() !== undefined;
  }

  /** Keeps a slot for a row that is about to be claimed, leased to this process. Undefined where there is none. */
  holdSlot(row: LeasedRow, leaseEndsAt: number): HeldSlot | undefined {
    if (this.isExclusive || !this.slots.hasFreeSlot(this.registry.handler(row.name)!, this.occupants))
      return undefined;
    const slot: HeldSlot = { rows: [row], begun: true, leaseEndsAt };
    this.held.add(slot);
    return slot;
  }

  /** Whether a slot is kept for this row. */
  hasHeld(rowId: string): boolean {
    return [...this.held].some(({ rows }) => rows.some(({ id }) => id === rowId));
  }

  /** A slot for what a delivery runs, to be let go at its end; undefined when `signal` fires before one is free. */
  async waitForSlot(
    work: Pick<Handler, 'name' | 'source'>,
    signal: AbortSignal,
  ): Promise<Occupant | undefined> {
    const { name, source } = work;
    const slot: Occupant = {
      rows: [{ kind: 'handler', name, alone: false, event: { source } }],
      begun: true,
      ofDelivery: true,
    };
    const tryBegin = () => {
      if (this.isExclusive || !this.slots.hasDeliverySlot(work, this.occupants)) return false;
      this.held.add(slot);
      return true;
    };
    if (signal.aborted) return undefined;
    if (tryBegin()) return slot;
    const leave = () => void this.queue.remove((one) => one === slot);
    signal.addEventListener('abort', leave, { once: true });
    const begun = await this.queue.wait(slot, tryBegin);
    signal.removeEventListener('abort', leave);
    return begun ? slot : undefined;
  }

  freeSlot(slot: Occupant): void {
    this.held.delete(slot);
    this.queue.fill(() => this.occupants);
  }

  /** Runs the row that the slot was kept for. */
  startHeld(slot: HeldSlot, row: LeasedRow): StartedJob {
    this.held.delete(slot);
    return this.start([row], slot.leaseEndsAt, true);
  }

  /**
   * @param begun whether it has its slot already
   * @param after delays the code, while the job already holds its slot
   */
  start(
    rows: readonly LeasedRow[],
    leaseEndsAt: number,
    begun = false,
    after?: Promise<unknown>,
  ): StartedJob {
    return neutral(() => this.startNow(rows, leaseEndsAt, begun, after));
  }

  private startNow(
    rows: readonly LeasedRow[],
    leaseEndsAt: number,
    begun: boolean,
    after: Promise<unknown> | undefined,
  ): StartedJob {
    const row = rows[0]!;
    const solo = row.alone && row.wasLost ? this.solos.of(row, () => this.letOthersBegin()) : undefined;
    const job: Job = { rows, leaseEndsAt, deadline: new Deadline(row.name), begun, solo };
    const slotTaken = this.takeSlot(job);
    const slot = after === undefined ? slotTaken : after.then(() => slotTaken);
    const started: StartedJob = Object.assign(job, {
      ended: slot.then((begins) => (begins ? this.run(started) : new Map())),
    });
    this.all.add(started);
    return started;
  }

  /**
   * Removes jobs that wait for a slot. Their code has not run. The caller must release their leases.
   * @param leaves selects the jobs by their first row
   */
  removeWaiting(leaves: (row: LeasedRow) => boolean): readonly LeasedRow[] {
    const jobs = [...this.all].filter((job) => !job.begun && leaves(job.rows[0]!));
    this.queue.remove((one) => jobs.some((job) => job === one));
    for (const job of jobs) {
      this.all.delete(job);
      job.solo?.end();
    }
    // A row that was lost twice has held them up.
    this.queue.fill(() => this.occupants);
    return jobs.flatMap(({ rows }) => rows);
  }

  /** A row that was lost twice lets others begin. */
  private letOthersBegin(): void {
    this.queue.fill(() => this.occupants);
    this.wakeUp.wakeOwn([]);
  }

  private async takeSlot(job: Job): Promise<boolean> {
    return job.begun || this.tryBegin(job) || this.queue.wait(job, () => this.tryBegin(job));
  }

  private tryBegin(job: Job): boolean {
    const exclusiveJob = this.exclusiveJob();
    if (exclusiveJob !== undefined && exclusiveJob !== job) return false;
    const others = this.occupants.some((one) => one !== job && one.begun);
    if (job.solo !== undefined && !job.solo.mayBegin(others)) return false;
    job.begun = this.slots.hasSlot(job.rows[0]!, this.occupants);
    if (job.begun) job.solo?.begin();
    return job.begun;
  }

  private exclusiveJob(): Job | undefined {
    for (const job of this.all) if (job.solo?.holds === true) return job;
    return undefined;
  }

  private async run(job: StartedJob): Promise<Outcomes> {
    let outcomes: Outcomes = new Map();
    const [row] = job.rows;
    if (job.rows.length === 1) job.deadline.limit(this.limitOf(row!));
    const startedAt = performance.now();
    try {
      outcomes = await this.runRows(job);
    } catch (error) {
      this.logger.error(logLine(`the end of a run was not recorded: ${errorText(error)}`, rowFacts(row!)));
    } finally {
      job.deadline.end();
      job.solo?.end();
      this.all.delete(job);
    }
    if (row!.kind === 'handler')
      this.slots.prefetch.recordRun(this.registry.handler(row!.name)!.name, performance.now() - startedAt);
    this.queue.fill(() => this.occupants);
    for (const { id, event } of job.rows) {
      if (!outcomes.has(id)) outcomes.set(id, 'lost');
      if (outcomes.get(id) === 'lost') this.tally.add(event?.source ?? '', 'lost');
    }
    this.totals = add(this.totals, report([...outcomes.values()]));
    return outcomes;
  }

  /** How long the run of a row may take, in milliseconds. */
  private limitOf(row: LeasedRow): number {
    if (row.kind === 'handler') return this.registry.handler(row.name)!.timeoutMs;
    return this.registry.goesToEngine(row) ? HAND_OVER_MS : this.registry.effect(row.name)!.timeoutMs;
  }

  /** Runs the code, by the kind of the work. @throws when an end could not be recorded */
  private async runRows({ rows, deadline: { signal } }: Job): Promise<Outcomes> {
    const row = rows[0]!;
    // Lost, or given back at a shutdown, before it could begin.
    if (signal.aborted) return new Map();
    if (row.kind === 'effect') {
      const runner = this.registry.goesToEngine(row) ? this.handOver : this.effects;
      return new Map([[row.id, await runner.run(row, signal)]]);
    }
    const handler = this.registry.handler(row.name)!;
    if (handler.batch !== undefined) return this.batches.run(handler, rows, signal);
    return new Map([[row.id, await this.handlers.run(row, signal, handler.timeoutMs)]]);
  }
}
