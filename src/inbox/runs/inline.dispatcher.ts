import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { Tally } from '../../core/telemetry/tally.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { DeliverySlots } from '../../outbox/slots/delivery-slots.js';
import { rowEvent, rowFacts } from '../../outbox/relay/row-facts.js';
import { runAttempt } from '../../outbox/runs/attempt-span.js';
import { Deadline } from '../../outbox/runs/deadline.js';
import type { RunOutcome } from '../../outbox/runs/failure.settler.js';
import { HandlerRunner } from '../../outbox/runs/handler.runner.js';
import { RunTransactions } from '../../outbox/runs/run.transaction.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { ClaimStore } from '../../storage/claim.store.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { UserTransaction } from '../../storage/postgres/user-transaction.js';
import type { IncomingEvent } from '../delivery.js';
import type { Verdict } from '../answers.js';
import { DeliveryClaims, type Taken } from './delivery-claims.js';
import {
  InFlight,
  InlineRecovery,
  ofInline,
  type Inline,
  type InlineWork,
  type Progress,
} from './inline-recovery.js';
import { PausedMeanwhile } from './paused-work.js';
import { ProviderRetries } from './provider-retries.js';

/**
 * Has what a handler left for COMMIT to check checked now, so that a failure is that handler's and not every one's. Rolled back: the
 * constraints are as they were, and COMMIT checks again.
 */
const CHECK_DEFERRED =
  'SAVEPOINT webhook_checked; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO SAVEPOINT webhook_checked';

/**
 * Claims an event and runs its inline handlers in one transaction, each under its own savepoint. A handler that fails leaves only its
 * failed attempt. The writes of the others commit with the claim.
 */
@Injectable()
export class InlineDispatcher {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly claims: ClaimStore,
    private readonly deliveryClaims: DeliveryClaims,
    private readonly recovery: InlineRecovery,
    private readonly providerRetries: ProviderRetries,
    private readonly runner: HandlerRunner,
    private readonly transactions: RunTransactions,
    private readonly lifecycle: WebhookLifecycle,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
    private readonly slots: DeliverySlots,
  ) {}

  async dispatch(
    source: Source,
    event: IncomingEvent,
    works: readonly InlineWork[],
    others: readonly Handler[],
  ): Promise<Verdict> {
    const inline: Inline = { source, event, works: new Map(works.map((work) => [work.name, work])), others };
    const progress: Progress = { startedAt: performance.now(), failed: false, afterCommit: [] };
    try {
      // One slot for all of them: they share a connection.
      await this.slots.run(works[0]!, source.ackTimeoutMs, (leftMs) =>
        this.runInSlot(inline, progress, works[0]!.name, leftMs),
      );
    } catch (error) {
      const verdict = await this.recovery.recover(inline, progress, error);
      if (verdict !== undefined) return verdict;
    }
    for (const tell of progress.afterCommit) tell();
    this.wakeUp.wake();
    return this.conclude(inline, progress.taken!, progress.failed);
  }

  private async runInSlot(
    inline: Inline,
    progress: Progress,
    name: string,
    timeoutMs: number,
  ): Promise<void> {
    const { source, event } = inline;
    const deadline = new Deadline(`the inline handlers of source '${source.name}'`, timeoutMs);
    try {
      await this.transactions.open(name, timeoutMs, async (transaction) => {
        if (!(await transaction.asOurs((manager) => this.claims.lockInline(manager, event))))
          throw new InFlight();
        const taken = await transaction.asOurs((manager) => this.recovery.take(manager, inline, false));
        progress.taken = taken;
        for (const row of ofInline(taken.leased, inline)) {
          const run = () => this.runUnderSavepoint(transaction, inline, row, deadline.signal, progress);
          const outcome = await runAttempt([row], (one) => [one], run, true);
          progress.failed ||= outcome === 'retry';
        }
      });
    } finally {
      deadline.end();
    }
  }

  /** After the commit: the rows that are not inline, and the verdict. */
  private async conclude(inline: Inline, taken: Taken, failed: boolean): Promise<Verdict> {
    const { source, event } = inline;
    this.deliveryClaims.report(event, taken);
    this.logger.log(
      logLine(taken.won ? 'claimed' : 'duplicate', {
        source: source.name,
        tenant: event.tenant,
        event: event.eventId,
        type: event.type,
        id: event.id,
      }),
    );
    if (source.retries === 'own') return { kind: taken.won ? 'ok' : 'duplicate' };
    const inlineRan = ofInline(taken.leased, inline).length > 0;
    const leased = taken.leased.filter((row) => !inline.works.has(row.name));
    const verdict = await this.providerRetries.runTaken(source, { ...taken, leased });
    if (failed) return { kind: 'failed' };
    return verdict.kind === 'duplicate' && inlineRan ? { kind: 'ok' } : verdict;
  }

  private async runUnderSavepoint(
    transaction: UserTransaction,
    { source, works }: Inline,
    row: LeasedRow,
    signal: AbortSignal,
    { afterCommit }: Progress,
  ): Promise<RunOutcome> {
    const work = works.get(row.name)!;
    await transaction.query('SAVEPOINT webhook_inline');
    try {
      const outcome = await this.runner.runWithin(transaction, row, work.code, signal);
      await transaction.query(CHECK_DEFERRED);
      await transaction.query('RELEASE SAVEPOINT webhook_inline');
      this.logger.log(logLine(`${outcome} inline`, rowFacts(row)));
      if (outcome === 'done') this.tally.add(source.name, 'handled');
      afterCommit.push(() => this.lifecycle.emit('handled', () => ({ ...rowEvent(row), outcome })));
      return outcome;
    } catch (error) {
      // Time is up: this connection is given up, and the rows are claimed again on another.
      if (signal.aborted || error instanceof PausedMeanwhile) throw error;
      await transaction.query('ROLLBACK TO SAVEPOINT webhook_inline');
      return await transaction.asOurs((manager) =>
        this.recovery.settleFailure({ manager, afterCommit }, source, row, work, error),
      );
    }
  }
}
