import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { orAborted } from '../core/abort.js';
import { parseJson } from '../core/body.js';
import { errorText, logLine } from '../core/log.js';
import { UnreadableBody } from '../core/payload.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import type { CompletionContext, EffectContext } from '../handlers/context.js';
import { HandlerRegistry, type Effect } from '../handlers/handler.registry.js';
import { inTransaction } from '../storage/connection.js';
import { OutboxStore, type LeasedRow } from '../storage/outbox.store.js';
import { TurnStore } from '../storage/turn.store.js';
import { EffectDoubts } from './effect.doubts.js';
import { FailureSettler, type FailurePolicy, type RunOutcome } from './failure.settler.js';
import { HandlerRunner, LeaseLost } from './handler.runner.js';
import { effectResult } from './result.js';
import { rowFacts } from './row-facts.js';
import { EnqueueStores, RunEnqueue } from './run.enqueue.js';
import { WakeUp } from './wake-up.js';

type Completion = (context: CompletionContext) => unknown;

/** Runs a leased effect: the user's method outside any transaction, then the fenced settle. */
@Injectable()
export class EffectRunner {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: OutboxStore,
    private readonly turns: TurnStore,
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly handlers: HandlerRunner,
    private readonly doubts: EffectDoubts,
    private readonly enqueueStores: EnqueueStores,
    private readonly wakeUp: WakeUp,
  ) {}

  /** @throws only when the end could not be recorded: the database is unusable and the lease will end by itself */
  async run(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    const effect = this.registry.effect(row.name)!;
    let completion: Completion | undefined;
    let result: unknown;
    try {
      const payload = readPayload(row);
      const checked = await this.doubts.check(effect, row, payload, signal);
      if (checked.kind === 'park')
        return await this.failures.park(this.dataSource.manager, row, checked.reason);
      if (checked.kind === 'done') return await this.settle(effect, row, checked.result, undefined);
      if (checked.kind === 'lost') return 'lost';
      const context: EffectContext = {
        key: row.id,
        signal,
        timeoutMs: effect.timeoutMs,
        attempt: row.attempt,
        previous:
          row.previousResult === undefined
            ? undefined
            : { result: JSON.parse(row.previousResult) as unknown },
        complete: async (work) => {
          completion = work;
        },
      };
      const call = Promise.resolve(effect.invoke(payload, context));
      // A call that outlives its lease may still tell how it ended.
      call.then(
        (late) => signal.aborted && void this.settleLate(row, late),
        () => undefined,
      );
      result = await orAborted(call, signal);
    } catch (error) {
      return await this.failures.settle(this.dataSource.manager, row, error, policy(effect));
    }
    return await this.settle(effect, row, result, completion);
  }

  private async settle(
    effect: Effect,
    row: LeasedRow,
    result: unknown,
    completion: Completion | undefined,
  ): Promise<RunOutcome> {
    const json = effectResult(result);
    try {
      // First, and whatever becomes of the lease: the call was made, and the next attempt need not make it again.
      if (completion !== undefined)
        await this.store.keepResult(this.dataSource.manager, row.id, json ?? 'null');
      const wake = await this.commit(effect, row, json, result, completion);
      if (wake) this.wakeUp.wake();
    } catch (error) {
      if (await this.store.isDone(this.dataSource.manager, row)) return 'done';
      if (error instanceof LeaseLost) return this.lost(row, json);
      return await this.failures.settle(this.dataSource.manager, row, error, policy(effect));
    }
    this.logger.log(logLine('effect done', rowFacts(row)));
    return 'done';
  }

  /** The fenced settle: alone, with the turn of its key, or with the user's own work. True when there is more for a relay. */
  private async commit(
    effect: Effect,
    row: LeasedRow,
    json: string | undefined,
    result: unknown,
    completion: Completion | undefined,
  ): Promise<boolean> {
    const settle = async (manager: EntityManager): Promise<boolean> => {
      if (!(await this.store.settle(manager, row, json))) throw new LeaseLost();
      return row.orderKey !== undefined && this.turns.pass(manager, row.name, row.orderKey);
    };
    if (completion !== undefined) {
      return this.handlers.transaction(row, effect.timeoutMs, async (transaction) => {
        const { manager } = transaction;
        const run = new RunEnqueue(this.enqueueStores, manager, row);
        await transaction.asUser(() => completion({ manager, enqueue: run.enqueue, result }));
        return (await transaction.asOurs(settle)) || run.enqueued;
      });
    }
    if (row.orderKey === undefined) return settle(this.dataSource.manager);
    return inTransaction(this.dataSource.manager, effect.timeoutMs, settle);
  }

  private async lost(row: LeasedRow, json: string | undefined): Promise<RunOutcome> {
    if (await this.store.settleLate(this.dataSource.manager, row, json)) return 'done';
    const text =
      'the effect ended after its lease had; it may have happened twice at a sink that ignores its key';
    this.logger.warn(logLine(text, rowFacts(row)));
    return 'lost';
  }

  private async settleLate(row: LeasedRow, result: unknown): Promise<void> {
    try {
      const settled = await this.store.settleLate(this.dataSource.manager, row, effectResult(result));
      this.logger.warn(
        logLine(settled ? 'a late end was recorded' : 'a late end was dropped', rowFacts(row)),
      );
    } catch (error) {
      this.logger.error(logLine(`a late end could not be recorded: ${errorText(error)}`, rowFacts(row)));
    }
  }
}

/** The bytes are ours, written by JSON.stringify: anything else is damage, and no attempt will read them. */
function readPayload(row: LeasedRow): unknown {
  const payload = row.payload && parseJson(row.payload);
  if (payload === undefined) throw new UnreadableBody('the payload of the effect is missing or damaged');
  return payload;
}

function policy(effect: Effect): FailurePolicy {
  return { retry: effect.retry, classifiers: [effect.classify], effect };
}
