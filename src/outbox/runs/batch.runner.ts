import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { WebhookInboxError } from '../../core/errors.js';
import { logLine } from '../../core/log/log.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { Tally } from '../../core/telemetry/tally.js';
import type { BatchEvent } from '../../core/context.js';
import type { Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { runAttempt } from './attempt-span.js';
import { Deadline } from './deadline.js';
import { EventPreparer, type Prepared } from './event.preparer.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { resultSummary } from './result.js';
import { rowEvent, rowFacts, runInfo } from '../relay/row-facts.js';
import { RunTransactions, type RunTransaction } from './run.transaction.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';

type Item = Prepared & { readonly row: LeasedRow };
/** The most `hydrate` calls at once for one batch. */
const PREPARED_AT_ONCE = 10;

export type Outcomes = Map<string, RunOutcome>;

/**
 * Runs handlers with `batch`: many events in one transaction. A batch that fails is rolled back and split in halves, until what
 * fails stands alone and fails alone.
 */
@Injectable()
export class BatchRunner {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly preparer: EventPreparer,
    private readonly transactions: RunTransactions,
    private readonly failures: FailureSettler,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /** @throws only when a failure could not be recorded: the database is unusable and the leases will end by themselves */
  run(handler: Handler, rows: readonly LeasedRow[], signal: AbortSignal): Promise<Outcomes> {
    return runAttempt(
      rows,
      (outcomes) => [...outcomes.values()],
      () => this.runNow(handler, rows, signal),
    );
  }

  private async runNow(handler: Handler, rows: readonly LeasedRow[], signal: AbortSignal): Promise<Outcomes> {
    const outcomes: Outcomes = new Map();
    const items = await this.prepareAll(handler, rows, signal, outcomes);
    await this.runItems(handler, items, signal, outcomes);
    return outcomes;
  }

  private async prepareAll(
    handler: Handler,
    rows: readonly LeasedRow[],
    signal: AbortSignal,
    outcomes: Outcomes,
  ): Promise<Item[]> {
    const deadline = new Deadline(handler.name, handler.timeoutMs);
    const either = AbortSignal.any([signal, deadline.signal]);
    const items: (Item | undefined)[] = [];
    const prepare = async (row: LeasedRow): Promise<Item | undefined> => {
      try {
        return { row, ...(await this.preparer.prepare(row, handler, either)) };
      } catch (error) {
        outcomes.set(row.id, await this.failures.settleHandler(row, error, handler));
        return undefined;
      }
    };
    try {
      for (let at = 0; at < rows.length; at += PREPARED_AT_ONCE) {
        items.push(...(await Promise.all(rows.slice(at, at + PREPARED_AT_ONCE).map(prepare))));
      }
    } finally {
      deadline.end();
    }
    return items.filter((item) => item !== undefined);
  }

  private async runItems(
    handler: Handler,
    items: readonly Item[],
    signal: AbortSignal,
    outcomes: Outcomes,
  ): Promise<void> {
    if (items.length === 0) return;
    const first = items[0]!.row;
    const deadline = new Deadline(handler.name, handler.timeoutMs);
    const either = AbortSignal.any([signal, deadline.signal]);
    try {
      const { woken } = await this.transactions.run(handler.name, handler.timeoutMs, async (transaction) => {
        await this.runAndSettle(transaction, handler, items, either, outcomes);
        return transaction;
      });
      this.finish(handler, items, outcomes, woken);
    } catch (error) {
      // One commit settled all rows of the batch, so any of them shows whether it went through.
      if ((await this.transactions.findCommittedEnd(first, error)) !== undefined) {
        this.finish(handler, items, outcomes, undefined);
        return;
      }
      // Once the lease or the process ends, the halves would fare no better.
      if (items.length === 1 || signal.aborted) {
        for (const { row } of items)
          outcomes.set(row.id, await this.failures.settleHandler(row, error, handler));
        return;
      }
      const half = Math.ceil(items.length / 2);
      await this.runItems(handler, items.slice(0, half), signal, outcomes);
      await this.runItems(handler, items.slice(half), signal, outcomes);
    } finally {
      deadline.end();
    }
  }

  private finish(handler: Handler, items: readonly Item[], outcomes: Outcomes, woken: WokenNames): void {
    this.wakeUp.wake(woken);
    for (const { row } of items) {
      const outcome = outcomes.get(row.id) === 'superseded' ? 'superseded' : 'done';
      this.lifecycle.emit('handled', () => ({ ...rowEvent(row), outcome }));
    }
    const done = items.filter(({ row }) => outcomes.get(row.id) === 'done');
    this.tally.add(handler.source, 'handled', done.length);
    this.logger.log(logLine('handled as a batch', { ...rowFacts(items[0]!.row), events: items.length }));
  }

  private async runAndSettle(
    transaction: RunTransaction,
    handler: Handler,
    items: readonly Item[],
    signal: AbortSignal,
    outcomes: Outcomes,
  ): Promise<void> {
    const fresh = await this.supersedeStale(transaction, handler, items, outcomes);
    if (fresh.length > 0) await this.call(transaction, handler, fresh, signal);
    for (const { row } of fresh) outcomes.set(row.id, 'done');
    for (const { row } of items) await transaction.passTurn(row);
  }

  private async call(
    transaction: RunTransaction,
    handler: Handler,
    fresh: readonly Item[],
    signal: AbortSignal,
  ): Promise<void> {
    const { manager } = transaction;
    const events: BatchEvent[] = fresh.map(({ row, event, current }) => ({
      ...event,
      current,
      enqueue: transaction.enqueueOf(row),
    }));
    const info = runInfo(fresh[0]!.row, 'batch', { events: events.length });
    const code = () => handler.invokeBatch(events, { manager, signal });
    const result = await transaction.call(info, signal, refuseInBatch, code);
    await transaction.refuseNewEffects();
    await transaction.settleAll(
      fresh.map(({ row }) => row),
      resultSummary(result),
    );
  }

  // Sorted by mark, so that two batches raise their marks in the same order and never deadlock over them.
  private async supersedeStale(
    transaction: RunTransaction,
    handler: Handler,
    items: readonly Item[],
    outcomes: Outcomes,
  ): Promise<Item[]> {
    if (handler.options.skipStale === undefined) return [...items];
    const stale = new Set<Item>();
    const sorted = items.toSorted((a, b) => (markOf(handler, a) < markOf(handler, b) ? -1 : 1));
    for (const item of sorted) {
      const { row, event } = item;
      if (!(await transaction.supersedeIfStale(row, handler, event))) continue;
      stale.add(item);
      outcomes.set(row.id, 'superseded');
    }
    return items.filter((item) => !stale.has(item));
  }
}

const markOf = (handler: Handler, { event }: Item) =>
  JSON.stringify([event.tenant, handler.options.skipStale!.key.call(handler.instance, event)]);

/** Which event's effect it would be is not known, and under an id of its own a replay would do it again. */
async function refuseInBatch(effect: string): Promise<never> {
  throw new WebhookInboxError(
    'ENQUEUE_REFUSED',
    `Effect '${effect}' was enqueued by Outbox.enqueue in a batch handler, where it belongs to no event: ` +
      `use the event's own \`enqueue\``,
  );
}
