import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { retryWindowMs, type Source } from '../../core/options/resolve-source.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { Deadline } from '../../outbox/runs/deadline.js';
import { DeliverySlots, NoSlot } from '../../outbox/slots/delivery-slots.js';
import { FailureSettler, type RunOutcome } from '../../outbox/runs/failure.settler.js';
import { HandlerRunner } from '../../outbox/runs/handler.runner.js';
import { LoneStatements } from '../../outbox/runs/lone-statements.js';
import { rowFacts } from '../../outbox/relay/row-facts.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { Claimer } from '../claimer.js';
import type { IncomingEvent } from '../delivery.js';
import { DeliveryClaims, type Taken } from './delivery-claims.js';
import { PausedWork } from './paused-work.js';
import { PAUSED, type Verdict } from '../answers.js';

/** `retries: 'provider'`: claim and rows are committed leased to this process, and the answer waits for their settles. */
@Injectable()
export class ProviderRetries {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly claimer: Claimer,
    private readonly claims: DeliveryClaims,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly runner: HandlerRunner,
    private readonly failures: FailureSettler,
    private readonly slots: DeliverySlots,
    private readonly statements: LoneStatements,
    private readonly paused: PausedWork,
  ) {}

  async dispatch(source: Source, event: IncomingEvent, handlers: readonly Handler[]): Promise<Verdict> {
    const names = handlers.map((handler) => handler.name);
    const taken = await this.claimer.transaction((manager, secondTry) =>
      this.claims.take(manager, source, event, names, [], secondTry),
    );
    this.claims.report(event, taken);
    return this.runTaken(source, taken);
  }

  /** Runs the rows that were taken, after their commit. */
  async runTaken(source: Source, taken: Taken): Promise<Verdict> {
    this.failures.reportExhausted(taken.exhausted);
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
      return await this.slots.run(handler, source.ackTimeoutMs, (leftMs) =>
        this.runInSlot(source, row, Math.min(handler.timeoutMs, leftMs)),
      );
    } catch (error) {
      if (!(error instanceof NoSlot)) throw error;
      return await this.giveBack(source, row, error);
    }
  }

  private async runInSlot(source: Source, row: LeasedRow, timeoutMs: number): Promise<RunOutcome | 'paused'> {
    // The first check was before the claim and the wait for a slot.
    if (await this.paused.isAnyPaused(source.name, [this.registry.handler(row.name)!])) {
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

  /** A row that got no slot in time has not begun. It waits for the redelivery, and no attempt is counted. */
  private async giveBack(source: Source, row: LeasedRow, { message }: NoSlot): Promise<RunOutcome> {
    this.logger.warn(logLine(message, rowFacts(row, { next: "the provider's redelivery" })));
    await this.statements.send((manager) =>
      this.store.release(manager, [row], untilRedelivered(source, row)),
    );
    return 'retry';
  }
}

/** Due for our relay when no redelivery can come any more. */
export function untilRedelivered({ provider }: Source, row: LeasedRow | undefined) {
  return { delayMs: retryWindowMs(provider), since: row?.event?.receivedAt };
}
