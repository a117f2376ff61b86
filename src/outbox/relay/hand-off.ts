import { Inject, Injectable } from '@nestjs/common';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { within } from '../../core/time/within.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { NewHandlerRow } from '../../storage/claim.store.js';
import { rowJustLeased, type LeasedRow, type NewEvent } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { WakeUp } from '../wake/wake-up.js';
import { namesToRunAgain, type HeldPlace } from './job.js';
import { JobRunner } from './job.runner.js';
import { PausedNames, type Paused } from './paused-names.js';
import { RelayLoop } from './relay.loop.js';
import { Rounds } from './rounds.js';
import { rowFacts } from './row-facts.js';

/** Rows about to be inserted with a claim, and the places kept for those that run here at once. */
export interface Offer {
  readonly rows: readonly NewHandlerRow[];
  readonly places: readonly HeldPlace[];
}

/** When a lease in doubt is looked for again; each time twice as long after. */
const GIVE_BACK_AGAIN_MS = 1_000;

/**
 * Warm hand-off: a row that finds a place free is inserted leased to this process and runs right after the commit, with its event in
 * memory, instead of being looked for. Only while nothing of its name waits: what came before goes first. Never one with an order key
 * or a limit of its own, which the lease decides about.
 */
@Injectable()
export class HandOff {
  private readonly logger = new InboxLogger();
  private readonly givingBack = new Set<Promise<void>>();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly rounds: Rounds,
    private readonly instance: Instance,
    private readonly loop: RelayLoop,
    private readonly runner: JobRunner,
    private readonly paused: PausedNames,
    private readonly statements: LoneStatements,
    private readonly store: OutboxStore,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Leases those of the rows that find a place free. The end of the claim must be told: `claimed`, `dropped` or `inDoubt`. */
  offer(event: NewEvent, owed: readonly NewHandlerRow[]): Offer {
    const places: HeldPlace[] = [];
    const rows = owed.map((row) => {
      const place = this.place(event, row);
      if (place === undefined) return row;
      places.push(place);
      return { ...row, lease: { owner: this.instance.id, ms: this.leaseMs } };
    });
    return { rows, places };
  }

  /** The claim was committed. @param receivedAt undefined when the event was known, and no row was inserted */
  claimed({ places }: Pick<Offer, 'places'>, receivedAt: Date | undefined): void {
    if (receivedAt === undefined) return this.dropped({ places });
    for (const place of places) {
      const [row] = place.rows;
      const begun = { ...row, event: { ...row.event!, receivedAt } };
      this.track(neutral(() => this.begin(place, begun)));
    }
  }

  /** The claim was not made, and nothing of it was sent. */
  dropped({ places }: Pick<Offer, 'places'>): void {
    for (const place of places) this.letGo(place);
  }

  /** The claim failed, and may have been committed all the same: then its rows are leased, and nobody runs them. */
  inDoubt({ places }: Pick<Offer, 'places'>): void {
    for (const place of places) this.track(neutral(() => this.giveBackInDoubt(place)));
  }

  /** Waits until what has been committed runs, or has been given back. False when it took longer. */
  async finish(maxMs: number): Promise<boolean> {
    return within(Promise.all(this.givingBack), maxMs);
  }

  private get leaseMs(): number {
    return this.options.relay === false ? 0 : this.options.relay.leaseMs;
  }

  private place(event: NewEvent, row: NewHandlerRow): HeldPlace | undefined {
    const { relay, sources } = this.options;
    const handler = this.registry.handler(row.name)!;
    if (relay === false || !relay.handOff || !this.loop.turns || this.rounds.isHalted) return undefined;
    if (!this.rounds.isDry(row.name)) return undefined;
    if (this.isPaused(this.paused.known, handler)) return undefined;
    const limited = handler.concurrency ?? sources.get(handler.source)?.concurrency;
    if (row.orderKey !== undefined || handler.batch !== undefined || limited !== undefined) return undefined;
    const leased = rowJustLeased(event, row, this.instance.id);
    // From before the insert: the lease ends no sooner than this process believes.
    return this.runner.hold(leased, performance.now() + relay.leaseMs);
  }

  private async begin(place: HeldPlace, row: LeasedRow): Promise<void> {
    const paused = await this.paused.read(this.leaseMs).catch(() => undefined);
    // Nothing is awaited from here on: what is decided holds when it starts.
    if (!this.mayBegin(place, row, paused)) {
      await this.giveBack(place);
      return;
    }
    try {
      const job = this.runner.startHeld(place, { ...row, arrivedAt: performance.now() });
      void job.ended.then((outcomes) => this.loop.runEnded(namesToRunAgain(job, outcomes)));
    } catch (error) {
      this.logger.error(logLine(`a committed row could not be started: ${errorText(error)}`, rowFacts(row)));
      await this.giveBack(place);
    }
  }

  private mayBegin({ leaseEndsAt }: HeldPlace, { name }: LeasedRow, paused: Paused | undefined): boolean {
    if (this.isPaused(paused, this.registry.handler(name)!)) return false;
    // One that has waited for long might be taken before its first renewal.
    const leftMs = leaseEndsAt - performance.now();
    return (
      this.loop.turns && !this.rounds.isHalted && !this.runner.isExclusive && leftMs > (2 * this.leaseMs) / 3
    );
  }

  private isPaused(paused: Paused | undefined, handler: Handler): boolean {
    if (paused === undefined) return true;
    return paused.hasWork('handler', handler) || paused.has('source', handler.source);
  }

  /**
   * The server may commit the claim after this process has given it up, as behind a lock or a half-open connection: it is looked for
   * until the lease would have ended. Not waited for: behind the fence, nothing else depends on it.
   */
  private async giveBackInDoubt(place: HeldPlace): Promise<void> {
    if (await this.giveBack(place)) return;
    const [row] = place.rows;
    let delayMs = GIVE_BACK_AGAIN_MS;
    const again = () => {
      if (performance.now() + delayMs > place.leaseEndsAt) return;
      setTimeout(() => {
        // A second claim under the same ids may have brought it here.
        if ([...this.runner.jobs].some(({ rows }) => rows.some(({ id }) => id === row.id))) return;
        delayMs *= 2;
        void this.release(row).then((released) => (released ? undefined : again()));
      }, delayMs).unref();
    };
    again();
  }

  private async giveBack(place: HeldPlace): Promise<boolean> {
    try {
      return await this.release(place.rows[0]);
    } finally {
      this.letGo(place);
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

  private letGo(place: HeldPlace): void {
    this.runner.letGo(place);
    this.loop.runEnded([]);
  }

  private track(work: Promise<void>): void {
    const ended: Promise<void> = work
      .catch((error: unknown) => this.logger.error(logLine(`hand-off failed: ${errorText(error)}`, {})))
      .finally(() => this.givingBack.delete(ended));
    this.givingBack.add(ended);
  }
}
