import { Inject, Injectable } from '@nestjs/common';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { endsWithin } from '../../core/time/waits.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { NewHandlerRow } from '../../storage/claim.store.js';
import { rowJustLeased, type LeasedRow, type NewEvent } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { WakeUp } from '../wake/wake-up.js';
import { namesToRunAgain, type HeldSlot } from './job.js';
import { JobRunner } from './job.runner.js';
import { PausedNames, type Paused } from './paused-names.js';
import { RelayLoop } from './relay.loop.js';
import { Leaser } from './leaser.js';
import { rowFacts } from './row-facts.js';

/** Rows about to be inserted with a claim, and the slots kept for those that run here at once. */
export interface Offer {
  readonly rows: readonly NewHandlerRow[];
  readonly slots: readonly HeldSlot[];
}

/** First pause before a lease in doubt is released again. Each later pause is twice as long. */
const GIVE_BACK_AGAIN_MS = 1_000;

/**
 * Warm hand-off: a row that finds a free slot is inserted leased to this process. It runs right after the commit with its event in memory,
 * without a poll. This needs that no other row of its name waits, so that earlier rows go first. Rows with an order key or a limit of their
 * own are left to the lease.
 */
@Injectable()
export class HandOff {
  private readonly logger = new InboxLogger();
  private readonly givingBack = new Set<Promise<void>>();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly leaser: Leaser,
    private readonly instance: Instance,
    private readonly loop: RelayLoop,
    private readonly runner: JobRunner,
    private readonly paused: PausedNames,
    private readonly statements: LoneStatements,
    private readonly store: OutboxStore,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Leases the rows that find a free slot. The caller must end each offer with `startRuns`, `drop` or `recover`. */
  offer(event: NewEvent, owed: readonly NewHandlerRow[]): Offer {
    const slots: HeldSlot[] = [];
    const rows = owed.map((row) => {
      const slot = this.holdSlot(event, row);
      if (slot === undefined) return row;
      slots.push(slot);
      return { ...row, lease: { owner: this.instance.id, ms: this.leaseMs } };
    });
    return { rows, slots };
  }

  /** The claim was committed. @param receivedAt undefined when the event was known, and no row was inserted */
  startRuns({ slots }: Pick<Offer, 'slots'>, receivedAt: Date | undefined): void {
    if (receivedAt === undefined) return this.drop({ slots });
    for (const slot of slots) {
      const [row] = slot.rows;
      const begun = { ...row, event: { ...row.event!, receivedAt } };
      this.track(neutral(() => this.begin(slot, begun)));
    }
  }

  /** The claim was not made, and nothing of it was sent. */
  drop({ slots }: Pick<Offer, 'slots'>): void {
    for (const slot of slots) this.freeSlot(slot);
  }

  /** The claim failed, but may have been committed all the same. Its rows are then leased although no process runs them. */
  recover({ slots }: Pick<Offer, 'slots'>): void {
    for (const slot of slots) this.track(neutral(() => this.giveBackInDoubt(slot)));
  }

  /** Waits until what has been committed runs, or has been given back. False when it took longer. */
  async finish(maxMs: number): Promise<boolean> {
    return endsWithin(Promise.all(this.givingBack), maxMs);
  }

  private get leaseMs(): number {
    return this.options.relay === false ? 0 : this.options.relay.leaseMs;
  }

  private holdSlot(event: NewEvent, row: NewHandlerRow): HeldSlot | undefined {
    const { relay, sources } = this.options;
    const handler = this.registry.handler(row.name)!;
    if (relay === false || !relay.handOff || !this.loop.isRunning || this.leaser.isHalted) return undefined;
    if (!this.leaser.wasEmpty(row.name)) return undefined;
    if (this.isPaused(this.paused.known, handler)) return undefined;
    const limited = handler.concurrency ?? sources.get(handler.source)?.concurrency;
    if (row.orderKey !== undefined || handler.batch !== undefined || limited !== undefined) return undefined;
    const leased = rowJustLeased(event, row, this.instance.id);
    // From before the insert: the lease ends no sooner than this process believes.
    return this.runner.holdSlot(leased, performance.now() + relay.leaseMs);
  }

  private async begin(slot: HeldSlot, row: LeasedRow): Promise<void> {
    const paused = await this.paused.read(this.leaseMs).catch(() => undefined);
    // Nothing is awaited from here on, so that this decision still holds when the run starts.
    if (!this.mayBegin(slot, row, paused)) {
      await this.giveBack(slot);
      return;
    }
    try {
      const job = this.runner.startHeld(slot, { ...row, arrivedAt: performance.now() });
      void job.ended.then((outcomes) => this.loop.runEnded(namesToRunAgain(job, outcomes)));
    } catch (error) {
      this.logger.error(logLine(`a committed row could not be started: ${errorText(error)}`, rowFacts(row)));
      await this.giveBack(slot);
    }
  }

  private mayBegin({ leaseEndsAt }: HeldSlot, { name }: LeasedRow, paused: Paused | undefined): boolean {
    if (this.isPaused(paused, this.registry.handler(name)!)) return false;
    // One that has waited for long might be taken before its first renewal.
    const leftMs = leaseEndsAt - performance.now();
    return (
      this.loop.isRunning &&
      !this.leaser.isHalted &&
      !this.runner.isExclusive &&
      leftMs > (2 * this.leaseMs) / 3
    );
  }

  private isPaused(paused: Paused | undefined, handler: Handler): boolean {
    if (paused === undefined) return true;
    return paused.hasWork('handler', handler) || paused.has('source', handler.source);
  }

  /**
   * The server may commit the claim after this process has given it up, for example behind a lock or a half-open connection. So the release
   * is repeated until the lease would have ended. It is not awaited: the fence protects everything else.
   */
  private async giveBackInDoubt(slot: HeldSlot): Promise<void> {
    if (await this.giveBack(slot)) return;
    const [row] = slot.rows;
    let delayMs = GIVE_BACK_AGAIN_MS;
    const again = () => {
      if (performance.now() + delayMs > slot.leaseEndsAt) return;
      setTimeout(() => {
        delayMs *= 2;
        // A second claim under the same ids has brought it here.
        if ([...this.runner.jobs].some(({ rows }) => rows.some(({ id }) => id === row.id))) return;
        // Such a claim is under way, or its row is about to begin. It may still meet the first one's row, and not run it.
        if (this.runner.hasHeld(row.id)) return again();
        void this.release(row).then((released) => (released ? undefined : again()));
      }, delayMs).unref();
    };
    again();
  }

  private async giveBack(slot: HeldSlot): Promise<boolean> {
    try {
      return await this.release(slot.rows[0]);
    } finally {
      this.freeSlot(slot);
    }
  }

  /** Whether there was a lease. */
  private async release(row: LeasedRow): Promise<boolean> {
    try {
      const released = await this.statements.send((manager) => this.store.release(manager, [row]));
      if (released > 0) this.wakeUp.wake([row.name]);
      return released > 0;
    } catch (error) {
      const text = `a lease could not be given back, and will end: ${errorText(error)}`;
      this.logger.warn(logLine(text, rowFacts(row)));
      return false;
    }
  }

  private freeSlot(slot: HeldSlot): void {
    this.runner.freeSlot(slot);
    this.loop.runEnded([]);
  }

  private track(work: Promise<void>): void {
    const ended: Promise<void> = work
      .catch((error: unknown) => this.logger.error(logLine(`hand-off failed: ${errorText(error)}`, {})))
      .finally(() => this.givingBack.delete(ended));
    this.givingBack.add(ended);
  }
}
