import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { Tally } from '../../core/telemetry/tally.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { MismatchedRows } from '../../outbox/relay/mismatched-rows.js';
import type { NewHandlerRow } from '../../storage/claim.store.js';
import { rowJustLeased, type LeaseResult } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { Claimer } from '../claimer.js';
import type { IncomingEvent } from '../delivery.js';
import { Redeliveries } from '../redeliveries.js';

/** The rows of an event that a delivery may run: fresh ones, or those that a redelivery takes over. */
export interface Taken extends Pick<LeaseResult, 'leased' | 'exhausted'> {
  readonly won: boolean;
  /** Rows that another process runs right now. */
  readonly busy: number;
}

/** A lease outlives the answer by this much, so that a slow settle is not taken for a lost one. */
const LEASE_MARGIN_MS = 5_000;

/** Claims events whose handlers the delivery runs itself, with their rows leased to this process. */
@Injectable()
export class DeliveryClaims {
  constructor(
    private readonly claimer: Claimer,
    private readonly redeliveries: Redeliveries,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly instance: Instance,
    private readonly mismatched: MismatchedRows,
    private readonly lifecycle: WebhookLifecycle,
    private readonly tally: Tally,
  ) {}

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
    const rows = names.map((name) => this.claimer.rowFor(event, name, lease));
    const [result] = await this.claimer.claim(manager, [{ event, rows }], secondTry);
    if (result!.won) return won(event, rows, lease.owner, result!.receivedAt!);
    await this.redeliveries.record(manager, source, event);
    const onlyRoutes = routes.filter((route) => this.registry.handler(route.name) === undefined);
    for (const { name } of onlyRoutes) await this.claimer.giveSkipped(manager, event, name);
    const runnable = [...this.runnable(source), ...onlyRoutes];
    const found = await this.store.leaseEvent(manager, lease.owner, lease.ms, event, runnable);
    const mismatched = found.leased.filter((row) => this.registry.mismatches(row));
    await this.mismatched.giveBack(manager, mismatched);
    const leased = found.leased.filter((row) => !mismatched.includes(row));
    return { ...found, won: false, leased, busy: found.busy + mismatched.length };
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
    const rows = leasedNames.map((name) => this.claimer.rowFor(event, name, lease));
    const others = otherNames.map((name) => this.claimer.rowFor(event, name));
    const [result] = await this.claimer.claim(manager, [{ event, rows: [...rows, ...others] }]);
    if (result!.won) return won(event, rows, lease.owner, result!.receivedAt!);
    await this.redeliveries.record(manager, source, event);
    return { won: false, busy: 0, exhausted: [], leased: [] };
  }

  /** Call it after the commit: a transaction that fails is tried again, and would be counted twice. */
  report({ source, tenant, eventId, type, id }: IncomingEvent, { won, leased }: Taken): void {
    const event = { source, tenant, eventId, type };
    if (won) return this.lifecycle.emit('claimed', () => ({ ...event, id, handlers: leased.length }));
    this.tally.countDuplicate(event);
    this.lifecycle.emit('duplicate', () => event);
  }

  /** Names that a delivery of this source can run; a row of any other counts as busy. */
  private runnable(source: Source): { name: string; maxAttempts: number }[] {
    return [...this.registry.handlers()]
      .filter(([, handler]) => handler.source === source.name)
      .map(([name, handler]) => ({ name, maxAttempts: handler.retry.maxAttempts }));
  }
}

function won(event: IncomingEvent, rows: readonly NewHandlerRow[], owner: string, receivedAt: Date): Taken {
  const leased = rows.map((row) => rowJustLeased(event, row, owner, receivedAt));
  return { won: true, busy: 0, exhausted: [], leased };
}
