import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger, isHeard } from '../../core/log/inbox.logger.js';
import { orAborted } from '../../core/time/abort.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { runAround } from '../../core/around.js';
import { WebhookInboxError } from '../../core/errors.js';
import type { WebhookEvent } from '../../core/event.js';
import { outcomeOf } from '../../core/lazy.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { HandlerContext } from '../../core/context.js';
import { HandlerRegistry, namesOf, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { NotCommitted } from '../../storage/postgres/connection.js';
import { UserTransaction } from '../../storage/postgres/user-transaction.js';
import { attempted } from './attempt-span.js';
import { EventPreparer, type Prepared } from './event.preparer.js';
import { FailureSettler, type FailurePolicy, type RunOutcome } from './failure.settler.js';
import { LoneStatements } from './lone-statements.js';
import { refuseNewEffects } from './new-effects.js';
import { Outbox } from '../enqueue/outbox.js';
import { resultSummary } from './result.js';
import { rowEvent, rowFacts, runInfo } from '../relay/row-facts.js';
import { EnqueueStores, RunEnqueue } from '../enqueue/run-enqueue.js';
import { StaleFilter } from './stale.filter.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';

/** The lease ended before the settle: another process may be at it, so that this run is rolled back. */
export class LeaseLost extends WebhookInboxError {
  constructor() {
    super('LEASE_LOST', 'the lease ended before the run did');
  }
}

/** The code of one handler run: a method with `@OnWebhook`, or a route with `@UseWebhook`. */
export type HandlerCode = (event: WebhookEvent, context: HandlerContext) => unknown;

/** How a run inside a transaction ended. */
export interface RunInTransaction {
  readonly outcome: 'done' | 'superseded';
  /** Names of the rows that are there for a relay after the commit. */
  readonly woken: WokenNames;
}

/** Runs a leased handler row: the user's method and the fenced settle in one transaction. */
@Injectable()
export class HandlerRunner {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: SettleStore,
    private readonly turns: TurnStore,
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
    private readonly preparer: EventPreparer,
    private readonly stale: StaleFilter,
    private readonly outbox: Outbox,
    private readonly enqueueStores: EnqueueStores,
    private readonly wakeUp: WakeUp,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /**
   * @param awaitRedelivery the source, when its provider's redelivery is to repeat a failed run
   * @throws only when the failure could not be recorded: the database is unusable and the lease will end by itself
   */
  run(row: LeasedRow, signal: AbortSignal, timeoutMs: number, awaitRedelivery?: Source): Promise<RunOutcome> {
    const run = () => this.runNow(row, signal, timeoutMs, awaitRedelivery);
    return attempted([row], (outcome) => [outcome], run, awaitRedelivery !== undefined);
  }

  private async runNow(
    row: LeasedRow,
    signal: AbortSignal,
    timeoutMs: number,
    awaitRedelivery: Source | undefined,
  ): Promise<RunOutcome> {
    const handler = this.registry.handler(row.name)!;
    try {
      const prepared = await orAborted(this.preparer.prepare(row, handler, signal), signal);
      const code: HandlerCode = (event, context) => handler.invoke(event, context);
      const ran = await this.transaction(row, timeoutMs, (transaction) =>
        this.settled(transaction, row, prepared, code, signal, {
          commits: true,
          inDelivery: awaitRedelivery !== undefined,
        }),
      );
      return this.ended(row, ran);
    } catch (error) {
      const outcome = await this.committedEnd(row, error);
      if (outcome !== undefined) return this.ended(row, { outcome, woken: undefined });
      return await this.failures.settle(row, error, this.policy(handler, awaitRedelivery));
    }
  }

  policy(work: Pick<Handler, 'retry' | 'classify' | 'source'>, awaitRedelivery?: Source): FailurePolicy {
    const source = this.options.sources.get(work.source);
    return { retry: work.retry, classifiers: [work.classify, source?.classify], awaitRedelivery };
  }

  /** How the run has ended, if a COMMIT that was in doubt went through: the settle in it tells. */
  async committedEnd(row: LeasedRow, error: unknown): Promise<RunInTransaction['outcome'] | undefined> {
    if (!(error instanceof NotCommitted) || !error.inDoubt) return undefined;
    return this.statements.send((manager) => this.store.endOf(manager, row));
  }

  transaction<T>(
    row: Pick<LeasedRow, 'name'>,
    timeoutMs: number,
    work: (transaction: UserTransaction) => Promise<T>,
  ): Promise<T> {
    const onMisuse = (detail: string) =>
      this.alerts.raise({ kind: 'manager-misused', name: row.name, detail });
    return UserTransaction.run(this.dataSource, { timeoutMs, onMisuse }, work);
  }

  /** As `settled`, for work inside the claim's transaction, where the event is prepared too. */
  async within(
    transaction: UserTransaction,
    row: LeasedRow,
    code: HandlerCode,
    signal: AbortSignal,
  ): Promise<RunInTransaction> {
    const prepared = await orAborted(
      this.preparer.prepare(row, this.registry.handler(row.name), signal),
      signal,
    );
    return this.settled(transaction, row, prepared, code, signal, { commits: false, inDelivery: true });
  }

  /**
   * Runs the code and settles its row, inside a transaction that the caller commits.
   * `commits`: the transaction is this row's alone, and its settle may go with the COMMIT.
   * @throws what the code threw; LeaseLost when the fence refused the settle
   */
  private async settled(
    transaction: UserTransaction,
    row: LeasedRow,
    { event, current }: Prepared,
    code: HandlerCode,
    signal: AbortSignal,
    { commits, inDelivery }: { readonly commits: boolean; readonly inDelivery: boolean },
  ): Promise<RunInTransaction> {
    const { manager, queryRunner } = transaction;
    const handler = this.registry.handler(row.name);
    if (
      handler?.options.skipStale !== undefined &&
      (await transaction.asOurs((ours) => this.stale.isStale(ours, handler, event)))
    ) {
      if (!(await transaction.asOurs((ours) => this.store.supersede(ours, row)))) throw new LeaseLost();
      return { outcome: 'superseded', woken: await this.passTurn(transaction, row) };
    }
    const enqueuing = new RunEnqueue(this.enqueueStores, manager, row);
    const { enqueue, woken } = enqueuing;
    this.outbox.bind(queryRunner, enqueue);
    const { attempt, id: outboxId } = row;
    const context = { manager, enqueue, signal, attempt, outboxId, current };
    const run = async () => outcomeOf(await code(event, context), row.name, signal);
    const info = runInfo(row, 'handler', { inDelivery });
    const result = await transaction.asUser(() => runAround(this.options.around, info, run), signal);
    const summary = resultSummary(result);
    await refuseNewEffects(transaction, [enqueuing]);
    if (commits) {
      this.settleWithCommit(transaction, row, summary, woken);
      return { outcome: 'done', woken };
    }
    const settled = await transaction.asOurs((ours) => this.store.settle(ours, row, summary));
    if (!settled) throw new LeaseLost();
    const passed = await this.passTurn(transaction, row);
    return { outcome: 'done', woken: [...woken, ...passed] };
  }

  /** @param woken gets the names of the row that has the turn of the key then */
  private settleWithCommit(
    transaction: UserTransaction,
    row: LeasedRow,
    summary: string | undefined,
    woken: string[],
  ): void {
    const { name, orderKey } = row;
    const passing = orderKey === undefined ? [] : [this.turns.passing(orderKey)];
    transaction.commitWith({
      statements: [this.store.settleOrFail(row, summary), ...passing],
      refusal: (error) => (this.store.isRefusal(error) ? new LeaseLost() : undefined),
      answered: ([, passed]) => {
        if (orderKey !== undefined && passed!.rows.length > 0)
          woken.push(...namesOf(this.registry.handler(name)!));
      },
    });
  }

  /** @returns the names that the row may have which has the turn now */
  private async passTurn(transaction: UserTransaction, { orderKey, name }: LeasedRow): Promise<string[]> {
    if (orderKey === undefined) return [];
    const passed = await transaction.asOurs((ours) => this.turns.pass(ours, orderKey));
    return passed ? namesOf(this.registry.handler(name)!) : [];
  }

  /** Once its transaction has committed. */
  tellHandled(row: LeasedRow, outcome: RunOutcome): void {
    if (outcome === 'done' || outcome === 'superseded')
      this.lifecycle.emit('handled', () => ({ ...rowEvent(row), outcome }));
  }

  private ended(row: LeasedRow, { outcome, woken }: RunInTransaction): RunOutcome {
    this.wakeUp.wake(woken);
    this.tellHandled(row, outcome);
    if (outcome === 'done') this.tally.add(row.event?.source ?? '', 'handled');
    if (isHeard('log'))
      this.logger.log(logLine(outcome === 'done' ? 'handled' : 'superseded', rowFacts(row)));
    return outcome;
  }
}
