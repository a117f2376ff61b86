import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Instance } from '../core/instance.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { WebhookLifecycle } from '../core/telemetry/lifecycle-events.js';
import { logLine } from '../core/log/log.js';
import { retryWindowMs, type Source } from '../core/options/resolve-source.js';
import type { Handler } from '../handlers/handler.registry.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { Deadline } from '../outbox/runs/deadline.js';
import { DeliveryPlaces, NoPlace } from '../outbox/relay/delivery-places.js';
import { FailureSettler, type RunOutcome } from '../outbox/runs/failure.settler.js';
import { HandlerRunner } from '../outbox/runs/handler.runner.js';
import { LoneStatements } from '../outbox/runs/lone-statements.js';
import { rowFacts } from '../outbox/relay/row-facts.js';
import { StrangerRows } from '../outbox/relay/stranger-rows.js';
import type { NewHandlerRow } from '../storage/claim.store.js';
import { rowJustLeased, type LeasedRow, type LeaseResult } from '../storage/leased-rows.js';
import { OutboxStore } from '../storage/outbox.store.js';
import { Claimer } from './claimer.js';
import type { IncomingEvent } from './delivery.js';
import { PausedWork } from './paused-work.js';
import { PAUSED, type Verdict } from './verdict.js';

/** What a delivery may run of an event: its fresh rows, or those a redelivery takes over. */
export interface Taken extends Omit<LeaseResult, 'moved' | 'lastDue'> {
  readonly won: boolean;
  /** Rows that another process runs right now. */
  readonly busy: number;
}

/** A lease outlives the answer by this much, so that a slow settle is not taken for a lost one. */
const LEASE_MARGIN_MS = 5_000;

/** `retries: 'provider'`: claim and rows are committed leased to this process, and the answer waits for their settles. */
@Injectable()
export class ProviderRetries {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly claimer: Claimer,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly runner: HandlerRunner,
    private readonly failures: FailureSettler,
    private readonly instance: Instance,
    private readonly places: DeliveryPlaces,
    private readonly statements: LoneStatements,
    private readonly paused: PausedWork,
    private readonly strangers: StrangerRows,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  async dispatch(source: Source, event: IncomingEvent, handlers: readonly Handler[]): Promise<Verdict> {
    const names = handlers.map((handler) => handler.name);
    const taken = await this.claimer.transaction((manager, secondTry) =>
      this.take(manager, source, event, names, [], secondTry),
    );
    this.tell(event, taken);
    return this.runTaken(source, taken);
  }

  /** Of a claim that is committed. */
  tell({ source, tenant, eventId, type, id }: IncomingEvent, { won, leased }: Taken): void {
    const event = { source, tenant, eventId, type };
    if (won) this.lifecycle.emit('claimed', () => ({ ...event, id, handlers: leased.length }));
    else this.lifecycle.emit('duplicate', () => event);
  }

  /**
   * Claims the event with its rows leased to us; for a known one leases what no live lease holds. In the caller's transaction.
   * @param routes further names that this delivery can run: those of `@UseWebhook`
   */
  async take(
    manager: EntityManager,
    source: Source,
    event: IncomingEvent,
    names: readonly string[],
    routes: readonly { name: string; maxAttempts: number }[],
    secondTry = false,
  ): Promise<Taken> {
    const lease = { owner: this.instance.id, ms: source.ackTimeoutMs + LEASE_MARGIN_MS };
    const rows = names.map((name) => this.claimer.row(event, name, lease));
    const [result] = await this.claimer.claim(manager, [{ event, rows }], secondTry);
    if (result!.won) return won(event, rows, lease.owner, result!.receivedAt!);
    await this.claimer.duplicate(manager, source, event);
    const onlyRoutes = routes.filter((route) => this.registry.handler(route.name) === undefined);
    for (const { name } of onlyRoutes) await this.claimer.giveSkipped(manager, event, name);
    const runnable = [...this.runnable(source), ...onlyRoutes];
    const found = await this.store.leaseEvent(manager, lease.owner, lease.ms, event, runnable);
    const strangers = this.strangers.in(found.leased);
    await this.strangers.giveBack(manager, strangers);
    const leased = found.leased.filter((row) => !strangers.includes(row));
    return { ...found, won: false, leased, busy: found.busy + strangers.length };
  }

  /** Under `retries: 'own'`: claims the event with some rows leased to us; a known one is left to the relay. */
  async takeOwn(
    manager: EntityManager,
    source: Source,
    event: IncomingEvent,
    leasedNames: readonly string[],
    otherNames: readonly string[],
  ): Promise<Taken> {
    const lease = { owner: this.instance.id, ms: source.ackTimeoutMs + LEASE_MARGIN_MS };
    const rows = leasedNames.map((name) => this.claimer.row(event, name, lease));
    const others = otherNames.map((name) => this.claimer.row(event, name));
    const [result] = await this.claimer.claim(manager, [{ event, rows: [...rows, ...others] }]);
    if (result!.won) return won(event, rows, lease.owner, result!.receivedAt!);
    await this.claimer.duplicate(manager, source, event);
    return { won: false, busy: 0, exhausted: [], leased: [] };
  }

  /** Runs what was taken and committed. */
  async runTaken(source: Source, taken: Taken): Promise<Verdict> {
    this.failures.tellExhausted(taken.exhausted);
    const runs = taken.leased.map((row) => this.run(source, row));
    // Each to its end, also where that of another could not be recorded: a shutdown waits for all of them.
    await Promise.allSettled(runs);
    const outcomes = await Promise.all(runs);
    if (outcomes.includes('retry')) return { kind: 'failed' };
    if (outcomes.includes('paused') && !taken.won) return PAUSED;
    if (outcomes.includes('lost') || taken.busy > 0)
      return { kind: 'unavailable', why: 'the event is being handled' };
    const settled = taken.won || taken.leased.length > 0 || taken.exhausted.length > 0;
    return { kind: settled ? 'ok' : 'duplicate' };
  }

  private async run(source: Source, row: LeasedRow): Promise<RunOutcome | 'paused'> {
    const handler = this.registry.handler(row.name)!;
    try {
      return await this.places.run(handler, source.ackTimeoutMs, (leftMs) =>
        this.runInPlace(source, row, Math.min(handler.timeoutMs, leftMs)),
      );
    } catch (error) {
      if (!(error instanceof NoPlace)) throw error;
      return await this.giveBack(source, row, error);
    }
  }

  private async runInPlace(
    source: Source,
    row: LeasedRow,
    timeoutMs: number,
  ): Promise<RunOutcome | 'paused'> {
    // The first look was before the claim and the wait for a place.
    if (await this.paused.any(source.name, [this.registry.handler(row.name)!])) {
      await this.statements.send((manager) => this.store.release(manager, [row]));
      return 'paused';
    }
    const deadline = new Deadline(row.name, timeoutMs);
    try {
      return await this.runner.run(row, deadline.signal, timeoutMs, source);
    } finally {
      deadline.end();
    }
  }

  /** What had no place in time has not begun: it waits for the redelivery, as after a failed attempt, and none is counted. */
  private async giveBack(source: Source, row: LeasedRow, { message }: NoPlace): Promise<RunOutcome> {
    this.logger.warn(logLine(message, rowFacts(row, { next: "the provider's redelivery" })));
    await this.statements.send((manager) =>
      this.store.release(manager, [row], untilRedelivered(source, row)),
    );
    return 'retry';
  }

  /** Names that a delivery of this source can run; a row of any other counts as busy. */
  private runnable(source: Source): { name: string; maxAttempts: number }[] {
    return [...this.registry.handlers()]
      .filter(([, handler]) => handler.source === source.name)
      .map(([name, handler]) => ({ name, maxAttempts: handler.retry.maxAttempts }));
  }
}

/** Due for our relay when no redelivery can come any more. */
export function untilRedelivered({ provider }: Source, row: LeasedRow | undefined) {
  return { delayMs: retryWindowMs(provider), since: row?.event?.receivedAt };
}

function won(event: IncomingEvent, rows: readonly NewHandlerRow[], owner: string, receivedAt: Date): Taken {
  const leased = rows.map((row) => rowJustLeased(event, row, owner, receivedAt));
  return { won: true, busy: 0, exhausted: [], leased };
}
