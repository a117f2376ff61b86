import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { orAborted } from '../core/abort.js';
import { parseJson } from '../core/body.js';
import { logLine } from '../core/log.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import type { CompletionContext, EffectContext } from '../handlers/context.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { OutboxStore, type LeasedRow } from '../storage/outbox.store.js';
import type { UserTransaction } from '../storage/user.transaction.js';
import type { Deadline } from './deadline.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { HandlerRunner, LeaseLost } from './handler.runner.js';
import { effectResult } from './result.js';
import { rowFacts } from './row-facts.js';
import { RunEnqueue } from './run.enqueue.js';
import { WakeUp } from './wake-up.js';

type Completion = (context: CompletionContext) => unknown;

/** Runs a leased effect: the user's method outside any transaction, then the fenced settle. */
@Injectable()
export class EffectRunner {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly handlers: HandlerRunner,
    private readonly wakeUp: WakeUp,
  ) {}

  /** @throws only when the end could not be recorded: the database is unusable and the lease will end by itself */
  async run(row: LeasedRow, deadline: Deadline): Promise<RunOutcome> {
    const effect = this.registry.effect(row.name)!;
    let completion: Completion | undefined;
    let result: unknown;
    try {
      const context: EffectContext = {
        key: row.id,
        signal: deadline.signal,
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
      const payload = parseJson(row.payload ?? Buffer.from('null'));
      const call = Promise.resolve(effect.invoke(payload, context));
      result = await orAborted(call, deadline.signal);
    } catch (error) {
      return await this.failures.settle(this.dataSource.manager, row, error, this.policy(row.name));
    }
    return await this.settle(row, effectResult(result), result, completion, effect.timeoutMs);
  }

  private async settle(
    row: LeasedRow,
    json: string | undefined,
    result: unknown,
    completion: Completion | undefined,
    timeoutMs: number,
  ): Promise<RunOutcome> {
    if (completion === undefined) {
      const settled = await this.store.settle(this.dataSource.manager, row, json);
      if (!settled) return this.lost(row);
    } else {
      // First, and whatever becomes of the lease: the call was made, and the next attempt need not make it again.
      await this.store.keepResult(this.dataSource.manager, row.id, json ?? 'null');
      try {
        const run = await this.handlers.transaction(row, timeoutMs, (transaction) =>
          this.complete(transaction, row, json, result, completion),
        );
        if (run.enqueued) this.wakeUp.wake();
      } catch (error) {
        if (await this.store.isDone(this.dataSource.manager, row)) return 'done';
        if (error instanceof LeaseLost) return this.lost(row);
        return await this.failures.settle(this.dataSource.manager, row, error, this.policy(row.name));
      }
    }
    this.logger.log(logLine('effect done', rowFacts(row)));
    return 'done';
  }

  private async complete(
    transaction: UserTransaction,
    row: LeasedRow,
    json: string | undefined,
    result: unknown,
    completion: Completion,
  ): Promise<RunEnqueue> {
    const { manager } = transaction;
    const run = new RunEnqueue(this.store, this.registry, manager, row.id, row.event);
    await transaction.asUser(() => completion({ manager, enqueue: run.enqueue, result }));
    const settled = await transaction.asOurs((ours) => this.store.settle(ours, row, json));
    if (!settled) throw new LeaseLost();
    return run;
  }

  private lost(row: LeasedRow): RunOutcome {
    const text =
      'the effect ended after its lease had; it may have happened twice at a sink that ignores its key';
    this.logger.warn(logLine(text, rowFacts(row)));
    return 'lost';
  }

  private policy(name: string) {
    const effect = this.registry.effect(name)!;
    return { retry: effect.retry, classifiers: [effect.classify] };
  }
}
