import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { NotCommitted } from '../../storage/postgres/connection.js';
import { UserTransaction } from '../../storage/postgres/user-transaction.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { Outbox } from '../enqueue/outbox.js';
import { EnqueueStores } from '../enqueue/run-enqueue.js';
import { LoneStatements } from './lone-statements.js';
import { RunTransaction, type RunParts } from './run.transaction.js';
import { StaleFilter } from './stale.filter.js';

/** How a run ended whose transaction has committed. */
export type CommittedEnd = 'done' | 'superseded';

/** Opens the transactions in which the application's code runs. */
@Injectable()
export class RunTransactions implements RunParts {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) readonly options: ResolvedOptions,
    readonly registry: HandlerRegistry,
    readonly store: SettleStore,
    readonly turns: TurnStore,
    readonly stale: StaleFilter,
    readonly outbox: Outbox,
    readonly enqueueStores: EnqueueStores,
    private readonly statements: LoneStatements,
    private readonly alerts: Alerts,
  ) {}

  /**
   * Opens a transaction for the runs of `name`, and commits it after `work`.
   * @throws NotCommitted, ManagerMisused, and the error of `work`; each rolls it back
   */
  run<T>(name: string, timeoutMs: number, work: (transaction: RunTransaction) => Promise<T>): Promise<T> {
    return this.open(name, timeoutMs, (transaction) => work(this.join(transaction)));
  }

  /** As `run`, for several runs in one transaction. */
  open<T>(name: string, timeoutMs: number, work: (transaction: UserTransaction) => Promise<T>): Promise<T> {
    const onMisuse = (detail: string) => this.alerts.raise({ kind: 'manager-misused', name, detail });
    return UserTransaction.run(this.dataSource, { timeoutMs, onMisuse }, work);
  }

  /** One run in a transaction that is open. */
  join(transaction: UserTransaction): RunTransaction {
    return new RunTransaction(this, transaction);
  }

  /** Finds out how the run ended, if `error` left its COMMIT in doubt. The settle in the transaction shows whether it went through. */
  async findCommittedEnd(row: LeasedRow, error: unknown): Promise<CommittedEnd | undefined> {
    if (!(error instanceof NotCommitted) || !error.inDoubt) return undefined;
    return this.statements.send((manager) => this.store.endOf(manager, row));
  }
}
