import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { runAround, type RunInfo } from '../../core/around.js';
import type { Enqueue } from '../../core/context.js';
import { WebhookInboxError } from '../../core/errors.js';
import type { WebhookEvent } from '../../core/event.js';
import { outcomeOf } from '../../core/lazy.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, namesOf, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow, NamedEffect } from '../../storage/leased-rows.js';
import { NotCommitted } from '../../storage/postgres/connection.js';
import { UserTransaction } from '../../storage/postgres/user-transaction.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { Outbox } from '../enqueue/outbox.js';
import { EnqueueStores, RunEnqueue } from '../enqueue/run-enqueue.js';
import { LeaseLost } from './deadline.js';
import { LoneStatements } from './lone-statements.js';
import { StaleFilter } from './stale.filter.js';

/**
 * A handler that was done for its event ran again and would enqueue effects for the first time. Its run is rolled back: such an effect
 * may be one that was done under another name or key.
 */
export class NewEffectsRefused extends WebhookInboxError {
  constructor(readonly effects: readonly NamedEffect[]) {
    const names = [...new Set(effects.map(({ name }) => `'${name}'`))].join(', ');
    super(
      'NEW_EFFECTS_REFUSED',
      `the handler was done for this event and would now enqueue ${names} for the first time; nothing was done. ` +
        `To allow it, replay the event with newEffects: 'allow'`,
    );
  }
}

/** How a run ended whose transaction has committed. */
export type CommittedEnd = 'done' | 'superseded';

/** The transaction of a run: it calls the application's code with an `enqueue`, settles the rows and passes their turns on. */
export class RunTransaction {
  private readonly enqueues: RunEnqueue[] = [];
  /** Names of the rows that have the turn of an order key now. */
  private readonly passed = new Set<string>();

  constructor(
    private readonly parts: RunTransactions,
    private readonly transaction: UserTransaction,
  ) {}

  /** The manager that the application's code gets. */
  get manager(): EntityManager {
    return this.transaction.manager;
  }

  /** Names of the rows that a relay can run once this has committed. */
  get woken(): string[] {
    return [...new Set([...this.passed, ...this.enqueues.flatMap(({ woken }) => woken)])];
  }

  /** The `enqueue` of one row's run. */
  enqueueOf(row: LeasedRow): Enqueue {
    const enqueue = new RunEnqueue(this.parts.enqueueStores, this.manager, row);
    this.enqueues.push(enqueue);
    return enqueue.enqueue;
  }

  /**
   * Calls the application's code. Meanwhile `Outbox.enqueue` with this transaction's manager is `enqueue`.
   * @throws what the code throws; ManagerMisused when it left a query behind
   */
  call(info: RunInfo, signal: AbortSignal, enqueue: Enqueue, code: () => unknown): Promise<unknown> {
    this.parts.outbox.bind(this.transaction.queryRunner, enqueue);
    const name = info.kind === 'complete' ? `the completion of ${info.name}` : info.name;
    const run = () => outcomeOf(code, name, signal);
    return this.transaction.asUser(() => runAround(this.parts.options.around, info, run), signal);
  }

  /**
   * Called after the user's code and before the settle, so that this code cannot catch the error.
   * @throws NewEffectsRefused
   */
  async refuseNewEffects(): Promise<void> {
    for (const run of this.enqueues.filter(({ hasAdded }) => hasAdded)) {
      const refused = await this.transaction.asOurs((ours) => run.findRefusedEffects(ours));
      if (refused.length > 0) throw new NewEffectsRefused(refused);
    }
  }

  /**
   * Settles the row of a stale event as superseded.
   * @returns whether the event was stale
   * @throws LeaseLost
   */
  async supersedeIfStale(
    row: LeasedRow,
    handler: Handler | undefined,
    event: WebhookEvent,
  ): Promise<boolean> {
    if (handler?.options.skipStale === undefined) return false;
    const { stale, store } = this.parts;
    if (!(await this.transaction.asOurs((ours) => stale.raiseMark(ours, handler, event)))) return false;
    if (!(await this.transaction.asOurs((ours) => store.supersede(ours, row)))) throw new LeaseLost();
    return true;
  }

  /** Settles the row as done. @throws LeaseLost */
  async settle(row: LeasedRow, result: string | undefined): Promise<void> {
    const settled = await this.transaction.asOurs((ours) => this.parts.store.settle(ours, row, result));
    if (!settled) throw new LeaseLost();
  }

  /** Settles the rows as done, all of them or none. @throws LeaseLost */
  async settleAll(rows: readonly LeasedRow[], result: string | undefined): Promise<void> {
    const settles = rows.map((lease) => ({ lease, result }));
    const settled = await this.transaction.asOurs((ours) => this.parts.store.settleMany(ours, settles));
    if (settled.size < rows.length) throw new LeaseLost();
  }

  /** Sends nothing yet. The settle and the turn go in one message with the COMMIT, which throws LeaseLost. */
  leaveSettleToCommit(row: LeasedRow, result: string | undefined): void {
    const { store, turns } = this.parts;
    const { orderKey } = row;
    this.transaction.commitWith({
      statements: [
        store.settleOrFail(row, result),
        ...(orderKey === undefined ? [] : [turns.passing(orderKey)]),
      ],
      refusal: (error) => (store.isRefusal(error) ? new LeaseLost() : undefined),
      answered: ([, passed]) => {
        if (orderKey !== undefined && passed!.rows.length > 0) this.notePassed(row);
      },
    });
  }

  /** Gives the next row of the same order key the turn. */
  async passTurn(row: LeasedRow): Promise<void> {
    const { orderKey } = row;
    if (orderKey === undefined) return;
    const passed = await this.transaction.asOurs((ours) => this.parts.turns.pass(ours, orderKey));
    if (passed) this.notePassed(row);
  }

  private notePassed({ kind, name }: LeasedRow): void {
    const { registry } = this.parts;
    const work = kind === 'handler' ? registry.handler(name) : registry.effect(name);
    for (const one of namesOf(work!)) this.passed.add(one);
  }
}

/** Opens the transactions in which the application's code runs. */
@Injectable()
export class RunTransactions {
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
