import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { orAborted } from '../../core/time/abort.js';
import { runAround } from '../../core/around.js';
import { WebhookInboxError } from '../../core/errors.js';
import { outcomeOf } from '../../core/lazy.js';
import { logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { BatchEvent } from '../../core/context.js';
import { namesOf, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import type { UserTransaction } from '../../storage/postgres/user-transaction.js';
import { attempted } from './attempt-span.js';
import { Deadline } from './deadline.js';
import { EventPreparer, type Prepared } from './event.preparer.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { HandlerRunner, LeaseLost } from './handler.runner.js';
import { refuseNewEffects } from './new-effects.js';
import { Outbox } from '../enqueue/outbox.js';
import { resultSummary } from './result.js';
import { rowFacts, runInfo } from '../relay/row-facts.js';
import { EnqueueStores, RunEnqueue } from '../enqueue/run-enqueue.js';
import { StaleFilter } from './stale.filter.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';

type Item = Prepared & { readonly row: LeasedRow };
/** What `hydrate` asks a provider for at once, for one batch. */
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
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: SettleStore,
    private readonly turns: TurnStore,
    private readonly preparer: EventPreparer,
    private readonly stale: StaleFilter,
    private readonly handlers: HandlerRunner,
    private readonly failures: FailureSettler,
    private readonly outbox: Outbox,
    private readonly enqueueStores: EnqueueStores,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
  ) {}

  /** @throws only when a failure could not be recorded: the database is unusable and the leases will end by themselves */
  run(handler: Handler, rows: readonly LeasedRow[], signal: AbortSignal): Promise<Outcomes> {
    return attempted(
      rows,
      (outcomes) => [...outcomes.values()],
      () => this.runNow(handler, rows, signal),
    );
  }

  private async runNow(handler: Handler, rows: readonly LeasedRow[], signal: AbortSignal): Promise<Outcomes> {
    const outcomes: Outcomes = new Map();
    const items = await this.prepared(handler, rows, signal, outcomes);
    await this.runItems(handler, items, signal, outcomes);
    return outcomes;
  }

  private async prepared(
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
        return { row, ...(await orAborted(this.preparer.prepare(row, handler, either), either)) };
      } catch (error) {
        outcomes.set(row.id, await this.fail(handler, row, error));
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
      const woken = await this.handlers.transaction(first, handler.timeoutMs, (transaction) =>
        this.settled(transaction, handler, items, either, outcomes),
      );
      this.ended(handler, items, outcomes, woken);
    } catch (error) {
      // All rows of a batch were settled by one commit, so that any of them tells of it.
      if ((await this.handlers.committedEnd(first, error)) !== undefined) {
        this.ended(handler, items, outcomes, undefined);
        return;
      }
      // Once the lease or the process ends, the halves would fare no better.
      if (items.length === 1 || signal.aborted) {
        for (const { row } of items) outcomes.set(row.id, await this.fail(handler, row, error));
        return;
      }
      const half = Math.ceil(items.length / 2);
      await this.runItems(handler, items.slice(0, half), signal, outcomes);
      await this.runItems(handler, items.slice(half), signal, outcomes);
    } finally {
      deadline.end();
    }
  }

  private ended(handler: Handler, items: readonly Item[], outcomes: Outcomes, woken: WokenNames): void {
    this.wakeUp.wake(woken);
    for (const { row } of items) this.handlers.tellHandled(row, outcomes.get(row.id) ?? 'lost');
    const done = items.filter(({ row }) => outcomes.get(row.id) === 'done');
    this.tally.add(handler.source, 'handled', done.length);
    this.logger.log(logLine('handled as a batch', { ...rowFacts(items[0]!.row), events: items.length }));
  }

  /** @returns names of the rows that are there for a relay after the commit */
  private async settled(
    transaction: UserTransaction,
    handler: Handler,
    items: readonly Item[],
    signal: AbortSignal,
    outcomes: Outcomes,
  ): Promise<string[]> {
    const fresh = await this.withoutStale(transaction, handler, items, outcomes);
    const woken = new Set<string>();
    if (fresh.length > 0) {
      for (const name of await this.handled(transaction, handler, fresh, signal, outcomes)) woken.add(name);
    }
    for (const { row } of items) {
      const { orderKey } = row;
      if (orderKey === undefined) continue;
      const passed = await transaction.asOurs((ours) => this.turns.pass(ours, orderKey));
      if (passed) for (const name of namesOf(handler)) woken.add(name);
    }
    return [...woken];
  }

  private async handled(
    transaction: UserTransaction,
    handler: Handler,
    fresh: readonly Item[],
    signal: AbortSignal,
    outcomes: Outcomes,
  ): Promise<string[]> {
    const { manager, queryRunner } = transaction;
    // Which event's effect it would be is not known, and under an id of its own a replay would do it again.
    this.outbox.bind(queryRunner, refuseInBatch);
    const runs = fresh.map(({ row }) => new RunEnqueue(this.enqueueStores, manager, row));
    const events: BatchEvent[] = fresh.map(({ event, current }, index) => ({
      ...event,
      current,
      enqueue: runs[index]!.enqueue,
    }));
    const run = async () =>
      outcomeOf(await handler.invokeBatch(events, { manager, signal }), handler.name, signal);
    const info = runInfo(fresh[0]!.row, 'batch', { events: events.length });
    const result = await transaction.asUser(() => runAround(this.options.around, info, run), signal);
    await refuseNewEffects(transaction, runs);
    const rows = fresh.map(({ row }) => row);
    const summary = resultSummary(result);
    const settles = rows.map((row) => ({ lease: row, result: summary }));
    const settled = await transaction.asOurs((ours) => this.store.settleMany(ours, settles));
    if (settled.size < rows.length) throw new LeaseLost();
    for (const { id } of rows) outcomes.set(id, 'done');
    return runs.flatMap((run) => run.woken);
  }

  // Sorted by mark, so that two batches raise their marks in the same order and never deadlock over them.
  private async withoutStale(
    transaction: UserTransaction,
    handler: Handler,
    items: readonly Item[],
    outcomes: Outcomes,
  ): Promise<Item[]> {
    if (handler.options.skipStale === undefined) return [...items];
    const stale = new Set<Item>();
    const sorted = items.toSorted((a, b) => (markOf(handler, a) < markOf(handler, b) ? -1 : 1));
    for (const item of sorted) {
      const { row, event } = item;
      if (!(await transaction.asOurs((ours) => this.stale.isStale(ours, handler, event)))) continue;
      if (!(await transaction.asOurs((ours) => this.store.supersede(ours, row)))) throw new LeaseLost();
      stale.add(item);
      outcomes.set(row.id, 'superseded');
    }
    return items.filter((item) => !stale.has(item));
  }

  private fail(handler: Handler, row: LeasedRow, error: unknown): Promise<RunOutcome> {
    return this.failures.settle(row, error, this.handlers.policy(handler));
  }
}

const markOf = (handler: Handler, { event }: Item) =>
  JSON.stringify([event.tenant, handler.options.skipStale!.key.call(handler.instance, event)]);

async function refuseInBatch(effect: string): Promise<never> {
  throw new WebhookInboxError(
    'ENQUEUE_REFUSED',
    `Effect '${effect}' was enqueued by Outbox.enqueue in a batch handler, where it belongs to no event: ` +
      `use the event's own \`enqueue\``,
  );
}
