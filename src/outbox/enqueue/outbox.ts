import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { uuidV7 } from '../../core/ids.js';
import type { Enqueue, Enqueued, EnqueueOptions, EffectName, EffectPayload } from '../../core/context.js';
import { WebhookInboxError } from '../../core/errors.js';
import { checkInput, OUTBOX_ID } from '../../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { currentTrace } from '../../core/telemetry/tracing.js';
import { firstName, HandlerRegistry, type Effect } from '../../handlers/handler.registry.js';
import { dataSourceOf } from '../../storage/postgres/connection.js';
import { EffectStore } from '../../storage/effect.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { sharesTables } from '../../storage/schema/own-schema.js';
import { checkEnqueue } from './enqueue.options.js';
import { freeze, newEffect } from './run-enqueue.js';
import { WakeUp } from '../wake/wake-up.js';

/** Options of `Outbox.enqueue`. */
export interface OutboxEnqueueOptions extends EnqueueOptions {
  /**
   * Accepts a manager without a transaction. The effect is then owed from this call on, even if the caller's own writes fail.
   * @default false: such a manager is refused
   */
  readonly outsideTransaction?: boolean;
}

/** How `Outbox.cancel` ended. */
export type CancelOutcome = 'cancelled' | 'running' | 'settled' | 'unknown';

/** Effects for any service or cron of the application: enqueued in its own transaction, run after that has committed. */
@Injectable()
export class Outbox {
  private readonly runs = new WeakMap<QueryRunner, Enqueue>();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: EffectStore,
    private readonly turns: TurnStore,
    private readonly registry: HandlerRegistry,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * Enqueues an effect with the transaction of `manager`. With a manager of a handler's run it is that run's own `enqueue`.
   * Elsewhere a `key` is unique for the effect: enqueuing it again gives the row that is there. A manager without an open transaction
   * is refused: the effect would stay when the caller's writes fail, and be missing when they were committed before it.
   * @throws WebhookInboxError UNKNOWN_EFFECT, ENQUEUE_REFUSED, PAYLOAD_REFUSED
   */
  async enqueue<N extends EffectName>(
    manager: EntityManager,
    effect: N,
    payload: EffectPayload<N>,
    { outsideTransaction, ...options }: OutboxEnqueueOptions = {},
  ): Promise<Enqueued> {
    const run = manager.queryRunner && this.runs.get(manager.queryRunner);
    if (run !== undefined) return run(effect, payload, options);
    if (!sharesTables(dataSourceOf(manager), this.dataSource)) throw ofOtherDatabase(effect);
    const known = this.registry.knownEffect(effect);
    const { name, was } = known;
    checkEnqueue(name, options);
    const inTransaction = manager.queryRunner?.isTransactionActive === true;
    if (!inTransaction && outsideTransaction !== true) throw withoutTransaction(name);
    const key = options.key ?? '';
    // The unique index knows the first name. Before `was` said so, another one may have been taken for the first.
    const former = was.length > 0 ? await this.store.idOfKey(manager, [...was, name], key) : undefined;
    if (former !== undefined) return { id: former, existing: true };
    const id = uuidV7();
    const frozen = freeze(name, payload);
    const row = { ...newEffect(known, payload, options), id, payload: frozen, trace: currentTrace() };
    const inserted = await this.store.enqueue(manager, [row]);
    if (!inserted.has(id))
      return { id: (await this.store.idOfKey(manager, [firstName(known)], key)) ?? id, existing: true };
    // In a transaction of the application's the commit is still to come: the next poll finds the row.
    if (!inTransaction) this.wakeUp.wake([name]);
    return { id, existing: false };
  }

  /**
   * Calls an effect back, with the transaction of `manager`: a scheduled one, or one that waits for its first or next attempt. Attempts
   * that were made are not undone. The key stays taken: schedule again under another key.
   * @param key under which `Outbox.enqueue` enqueued it outside of a run; or the `id` that any enqueue gave
   * @returns `running` while an instance has it, or while the end of its call is not known: it was not cancelled. `settled`: it is done,
   * dead or parked. `unknown`: there is no such row
   * @throws WebhookInboxError UNKNOWN_EFFECT, ENQUEUE_REFUSED
   */
  async cancel<N extends EffectName>(
    manager: EntityManager,
    effect: N,
    key: string | { readonly id: string },
  ): Promise<CancelOutcome> {
    if (!sharesTables(dataSourceOf(manager), this.dataSource)) throw ofOtherDatabase(effect);
    const known = this.registry.knownEffect(effect);
    const id = typeof key === 'string' ? await this.idOf(manager, known, key) : key.id;
    if (id === undefined) return 'unknown';
    checkInput(OUTBOX_ID, id, 'id');
    const found = await this.store.cancel(manager, id);
    if (found === undefined) return 'unknown';
    if (found.turn !== undefined) await this.turns.pass(manager, found.turn);
    // In a transaction of the application's the commit is still to come: the next poll finds the row.
    if (found.turn !== undefined && manager.queryRunner?.isTransactionActive !== true) this.wakeUp.wake();
    if (found.state === 'cancelled') return 'cancelled';
    return found.state === 'pending' || found.state === 'handed' ? 'running' : 'settled';
  }

  private idOf(manager: EntityManager, { name, was }: Effect, key: string): Promise<string | undefined> {
    return this.store.idOfKey(manager, [...new Set([...was, name])], key);
  }

  /** Makes `enqueue` on this query runner's manager the run's own. @internal */
  bind(runner: QueryRunner, enqueue: Enqueue): void {
    this.runs.set(runner, enqueue);
  }
}

function ofOtherDatabase(effect: string): WebhookInboxError {
  return new WebhookInboxError(
    'ENQUEUE_REFUSED',
    `Effect '${effect}' was enqueued with a manager of another database than that of WebhooksModule: no transaction commits in both. ` +
      `Use a manager of the module's DataSource, or of another one that leads to the same database`,
  );
}

function withoutTransaction(effect: string): WebhookInboxError {
  return new WebhookInboxError(
    'ENQUEUE_REFUSED',
    `Effect '${effect}' was enqueued with a manager that has no open transaction, so it would not commit with your writes. ` +
      `Use the manager of the transaction: dataSource.transaction((manager) => outbox.enqueue(manager, '${effect}', …)). ` +
      `If no write belongs to it, give { outsideTransaction: true }`,
  );
}
