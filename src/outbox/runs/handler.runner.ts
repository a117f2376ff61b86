import { Injectable } from '@nestjs/common';
import { InboxLogger, isHeard } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import type { HandlerContext } from '../../core/context.js';
import type { WebhookEvent } from '../../core/event.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { Tally } from '../../core/telemetry/tally.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { UserTransaction } from '../../storage/postgres/user-transaction.js';
import { rowEvent, rowFacts, runInfo } from '../relay/row-facts.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';
import { runAttempt } from './attempt-span.js';
import { EventPreparer, type Prepared } from './event.preparer.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { resultSummary } from './result.js';
import { RunTransactions, type CommittedEnd, type RunTransaction } from './run.transaction.js';

/** The code of one handler run: a method with `@OnWebhook`, or a route with `@UseWebhook`. */
export type HandlerCode = (event: WebhookEvent, context: HandlerContext) => unknown;

/** Runs a leased handler row: the user's method and the fenced settle in one transaction. */
@Injectable()
export class HandlerRunner {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly preparer: EventPreparer,
    private readonly transactions: RunTransactions,
    private readonly failures: FailureSettler,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /**
   * @param awaitRedelivery the source, when its provider's redelivery must repeat a failed run
   * @throws only when the failure could not be recorded; the lease then ends by itself
   */
  run(row: LeasedRow, signal: AbortSignal, timeoutMs: number, awaitRedelivery?: Source): Promise<RunOutcome> {
    const run = () => this.attempt(row, signal, timeoutMs, awaitRedelivery);
    return runAttempt([row], (outcome) => [outcome], run, awaitRedelivery !== undefined);
  }

  private async attempt(
    row: LeasedRow,
    signal: AbortSignal,
    timeoutMs: number,
    awaitRedelivery: Source | undefined,
  ): Promise<RunOutcome> {
    const handler = this.registry.handler(row.name)!;
    try {
      const prepared = await this.preparer.prepare(row, handler, signal);
      return await this.commit(row, handler, prepared, signal, timeoutMs, awaitRedelivery !== undefined);
    } catch (error) {
      const outcome = await this.transactions.findCommittedEnd(row, error);
      if (outcome !== undefined) return this.finish(row, outcome, undefined);
      return await this.failures.settleHandler(row, error, handler, awaitRedelivery);
    }
  }

  private async commit(
    row: LeasedRow,
    handler: Handler,
    prepared: Prepared,
    signal: AbortSignal,
    timeoutMs: number,
    inDelivery: boolean,
  ): Promise<RunOutcome> {
    const code: HandlerCode = (event, context) => handler.invoke(event, context);
    const { outcome, transaction } = await this.transactions.run(row.name, timeoutMs, async (transaction) => {
      if (await transaction.supersedeIfStale(row, handler, prepared.event)) {
        await transaction.passTurn(row);
        return { outcome: 'superseded' as const, transaction };
      }
      const result = await this.call(transaction, row, prepared, code, signal, inDelivery);
      transaction.leaveSettleToCommit(row, result);
      return { outcome: 'done' as const, transaction };
    });
    // Read after the COMMIT, whose answer says whether a turn was passed.
    return this.finish(row, outcome, transaction.woken);
  }

  /**
   * Prepares the event, runs the code and settles its row, inside a transaction that the caller commits.
   * @throws what the code throws; LeaseLost when the fence refused the settle
   */
  async runWithin(
    open: UserTransaction,
    row: LeasedRow,
    code: HandlerCode,
    signal: AbortSignal,
  ): Promise<CommittedEnd> {
    const handler = this.registry.handler(row.name);
    const prepared = await this.preparer.prepare(row, handler, signal);
    const transaction = this.transactions.join(open);
    const isStale = await transaction.supersedeIfStale(row, handler, prepared.event);
    if (!isStale) {
      const result = await this.call(transaction, row, prepared, code, signal, true);
      await transaction.settle(row, result);
    }
    await transaction.passTurn(row);
    return isStale ? 'superseded' : 'done';
  }

  /** @returns a summary of what the code returned */
  private async call(
    transaction: RunTransaction,
    row: LeasedRow,
    { event, current }: Prepared,
    code: HandlerCode,
    signal: AbortSignal,
    inDelivery: boolean,
  ): Promise<string | undefined> {
    const { manager } = transaction;
    const enqueue = transaction.enqueueOf(row);
    const { attempt, id: outboxId } = row;
    const context: HandlerContext = { manager, enqueue, signal, attempt, outboxId, current };
    const info = runInfo(row, 'handler', { inDelivery });
    const result = await transaction.call(info, signal, enqueue, () => code(event, context));
    const summary = resultSummary(result);
    await transaction.refuseNewEffects();
    return summary;
  }

  private finish(row: LeasedRow, outcome: CommittedEnd, woken: WokenNames): RunOutcome {
    this.wakeUp.wake(woken);
    this.lifecycle.emit('handled', () => ({ ...rowEvent(row), outcome }));
    if (outcome === 'done') this.tally.add(row.event?.source ?? '', 'handled');
    if (isHeard('log'))
      this.logger.log(logLine(outcome === 'done' ? 'handled' : 'superseded', rowFacts(row)));
    return outcome;
  }
}
