import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { errorText, logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { BatchRunner, type Outcomes } from '../runs/batch.runner.js';
import { Deadline } from '../runs/deadline.js';
import { EffectRunner } from '../runs/effect.runner.js';
import { HandlerRunner } from '../runs/handler.runner.js';
import type { HeldPlace, Job, Occupant, StartedJob } from './job.js';
import { LeasePlan } from './lease-plan.js';
import { Pace } from './pace.js';
import { PlaceQueue } from './place-queue.js';
import { rowFacts } from './row-facts.js';
import { Solos } from './solo.js';
import { add, report, type TickReport } from './tick-report.js';
import { WakeUp } from '../wake/wake-up.js';

/** Runs leased rows, each in a place; what was leased ahead waits for one. What deliveries run takes the same places. */
@Injectable()
export class JobRunner {
  /** What became of every run since the process started. */
  totals: TickReport = report([]);
  private readonly logger = new InboxLogger();
  private readonly all = new Set<StartedJob>();
  private readonly held = new Set<Occupant>();
  private readonly queue = new PlaceQueue<Occupant>();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly plan: LeasePlan,
    private readonly pace: Pace,
    private readonly handlers: HandlerRunner,
    private readonly batches: BatchRunner,
    private readonly effects: EffectRunner,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
    private readonly solos: Solos,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Those that run and those that wait for a place. */
  get jobs(): ReadonlySet<StartedJob> {
    return this.all;
  }

  /** All that takes a place, or waits for one. */
  get occupants(): Occupant[] {
    return [...this.all, ...this.held];
  }

  /** Whether nothing may begin now, beside a row that was lost twice. */
  get isExclusive(): boolean {
    return this.holder() !== undefined;
  }

  /** Keeps a place for a row that is about to be claimed, leased to this process. Undefined where there is none. */
  hold(row: LeasedRow, leaseEndsAt: number): HeldPlace | undefined {
    if (this.isExclusive || !this.plan.hasRoom(this.registry.handler(row.name)!, this.occupants))
      return undefined;
    const place: HeldPlace = { rows: [row], begun: true, leaseEndsAt };
    this.held.add(place);
    return place;
  }

  /** A place for what a delivery runs, to be let go at its end; undefined when `signal` fires before one is free. */
  async placeFor(work: Pick<Handler, 'name' | 'source'>, signal: AbortSignal): Promise<Occupant | undefined> {
    const { name, source } = work;
    const place: Occupant = {
      rows: [{ kind: 'handler', name, alone: false, event: { source } }],
      begun: true,
      ofDelivery: true,
    };
    const begins = () => {
      if (this.isExclusive || !this.plan.hasPlaceFor(work, this.occupants)) return false;
      this.held.add(place);
      return true;
    };
    if (signal.aborted) return undefined;
    if (begins()) return place;
    const leave = () => void this.queue.take((one) => one === place);
    signal.addEventListener('abort', leave, { once: true });
    const begun = await this.queue.wait(place, begins);
    signal.removeEventListener('abort', leave);
    return begun ? place : undefined;
  }

  letGo(place: Occupant): void {
    this.held.delete(place);
    this.queue.fill(() => this.occupants);
  }

  /** Runs the row that the place was kept for. */
  startHeld(place: HeldPlace, row: LeasedRow): StartedJob {
    this.held.delete(place);
    return this.start([row], place.leaseEndsAt, true);
  }

  /**
   * @param begun it has its place
   * @param after has it wait in its place, before its code runs
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
    for (const one of rows) this.tellHistory(one);
    const solo = row.alone && row.wasLost ? this.solos.of(row, () => this.changed()) : undefined;
    const job: Job = { rows, leaseEndsAt, deadline: new Deadline(row.name), begun, solo };
    const placed = this.place(job);
    const place = after === undefined ? placed : after.then(() => placed);
    const started: StartedJob = Object.assign(job, {
      ended: place.then((begins) => (begins ? this.run(started) : new Map())),
    });
    this.all.add(started);
    return started;
  }

  /**
   * Jobs that wait for a place leave without having begun; their leases are the caller's to give back.
   * @param leaves which of them
   */
  takeWaiting(leaves: (row: LeasedRow) => boolean): readonly LeasedRow[] {
    const jobs = [...this.all].filter((job) => !job.begun && leaves(job.rows[0]!));
    this.queue.take((one) => jobs.some((job) => job === one));
    for (const job of jobs) {
      this.all.delete(job);
      job.solo?.ended();
    }
    // A row that was lost twice has held them up.
    this.queue.fill(() => this.occupants);
    return jobs.flatMap(({ rows }) => rows);
  }

  /** A row that was lost twice lets others begin. */
  private changed(): void {
    this.queue.fill(() => this.occupants);
    this.wakeUp.wakeOwn([]);
  }

  private async place(job: Job): Promise<boolean> {
    return job.begun || this.begins(job) || this.queue.wait(job, () => this.begins(job));
  }

  private begins(job: Job): boolean {
    const holder = this.holder();
    if (holder !== undefined && holder !== job) return false;
    const others = this.occupants.some((one) => one !== job && one.begun);
    if (job.solo !== undefined && !job.solo.mayBegin(others)) return false;
    job.begun = this.plan.hasPlace(job.rows[0]!, this.occupants);
    if (job.begun) job.solo?.begun();
    return job.begun;
  }

  private holder(): Job | undefined {
    for (const job of this.all) if (job.solo?.holds === true) return job;
    return undefined;
  }

  private async run(job: StartedJob): Promise<Outcomes> {
    let outcomes: Outcomes = new Map();
    const [row] = job.rows;
    const work =
      row!.kind === 'handler' ? this.registry.handler(row!.name)! : this.registry.effect(row!.name)!;
    if (job.rows.length === 1) job.deadline.limit(work.timeoutMs);
    const startedAt = performance.now();
    try {
      outcomes = await this.outcomes(job);
    } catch (error) {
      this.logger.error(logLine(`the end of a run was not recorded: ${errorText(error)}`, rowFacts(row!)));
    } finally {
      job.deadline.end();
      job.solo?.ended();
      this.all.delete(job);
    }
    if (row!.kind === 'handler') this.pace.runTook(work.name, performance.now() - startedAt);
    this.queue.fill(() => this.occupants);
    for (const { id, event } of job.rows) {
      if (!outcomes.has(id)) outcomes.set(id, 'lost');
      if (outcomes.get(id) === 'lost') this.tally.add(event?.source ?? '', 'lost');
    }
    this.totals = add(this.totals, report([...outcomes.values()]));
    return outcomes;
  }

  private async outcomes({ rows, deadline }: Job): Promise<Outcomes> {
    const row = rows[0]!;
    // Lost, or given back at a shutdown, before it could begin.
    if (deadline.signal.aborted) return new Map();
    const handler = this.registry.handler(row.name);
    if (row.kind === 'effect') return new Map([[row.id, await this.effects.run(row, deadline.signal)]]);
    if (handler!.batch !== undefined) return this.batches.run(handler!, rows, deadline.signal);
    return new Map([[row.id, await this.handlers.run(row, deadline.signal, handler!.timeoutMs)]]);
  }

  private tellHistory(row: LeasedRow): void {
    if (row.alone)
      this.logger.warn(logLine('the last attempt never ended', rowFacts(row, { lost: row.lost })));
    if (row.kind !== 'handler' || (row.tries === 1 && !row.alone)) return;
    if (this.options.sources.get(row.event!.source)?.retries !== 'provider') return;
    const { source, tenant, eventId } = row.event!;
    const event = { source, tenant, eventId };
    this.alerts.raise({ kind: 'not-redelivered', outboxId: row.id, name: row.name, event });
  }
}
