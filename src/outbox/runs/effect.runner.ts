import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger, isHeard } from '../../core/log/inbox.logger.js';
import { orAborted } from '../../core/time/abort.js';
import { runAround } from '../../core/around.js';
import { parseJson } from '../../core/body.js';
import { isKnownNotDone } from '../../core/classify.js';
import { PermanentError } from '../../core/errors.js';
import { outcomeOf } from '../../core/lazy.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { errorText, logLine } from '../../core/log/log.js';
import { UnreadableBody } from '../../core/payload.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { EffectContext } from '../../core/context.js';
import { HandlerRegistry, namesOf, type Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { attempted } from './attempt-span.js';
import { EffectDoubts, type Completion } from './effect-doubts.js';
import { FailureSettler, tracksDoubt, type FailurePolicy, type RunOutcome } from './failure.settler.js';
import { GroupSettle } from './group-settle.js';
import { HandlerRunner, LeaseLost } from './handler.runner.js';
import { LoneStatements } from './lone-statements.js';
import { Outbox } from '../enqueue/outbox.js';
import { effectResult, keptResult, ResultRefused } from './result.js';
import { rowEvent, rowFacts, runInfo } from '../relay/row-facts.js';
import { EnqueueStores, RunEnqueue } from '../enqueue/run-enqueue.js';
import { WakeUp } from '../wake/wake-up.js';

/** How an effect's method ended. */
interface Called {
  readonly result: unknown;
  readonly completion?: Completion;
}

/** Runs a leased effect: the user's method outside any transaction, then the fenced settle. */
@Injectable()
export class EffectRunner {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: SettleStore,
    private readonly settles: GroupSettle,
    private readonly turns: TurnStore,
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
    private readonly handlers: HandlerRunner,
    private readonly doubts: EffectDoubts,
    private readonly outbox: Outbox,
    private readonly enqueueStores: EnqueueStores,
    private readonly wakeUp: WakeUp,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /** @throws only when the end could not be recorded: the database is unusable and the lease will end by itself */
  run(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    return attempted(
      [row],
      (outcome) => [outcome],
      () => this.runNow(row, signal),
    );
  }

  private async runNow(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    let call: Promise<Called> | undefined;
    try {
      return await this.attempt(row, signal, (started) => {
        call = started;
      });
    } finally {
      // A call that outlives its attempt may still tell how it ended: after the attempt's own end, which would undo it.
      call?.then(
        (late) => signal.aborted && void this.recordLate(row, late),
        () => undefined,
      );
    }
  }

  private async attempt(
    row: LeasedRow,
    signal: AbortSignal,
    onCall: (call: Promise<Called>) => void,
  ): Promise<RunOutcome> {
    const effect = this.registry.effect(row.name)!;
    let inDoubt = row.begun;
    let called: Called;
    let calling = false;
    try {
      const payload = readPayload(row);
      const checked = await this.doubts.check(effect, row, payload, signal);
      if (checked.kind === 'park') return await this.failures.park(row, checked.reason);
      if (checked.kind === 'done') return await this.settle(effect, row, checked, signal);
      if (checked.kind === 'lost') return 'lost';
      inDoubt = checked.inDoubt;
      calling = true;
      const call = this.call(effect, row, payload, signal);
      onCall(call);
      called = await orAborted(call, signal);
    } catch (error) {
      const mayBeDone = inDoubt || (calling && tracksDoubt(effect) && !isKnownNotDone(error));
      return await this.failures.settle(row, error, policy(effect, mayBeDone));
    }
    // Outside of the above: what our own database refuses says nothing about the call.
    return this.settle(effect, row, called, signal);
  }

  private async call(effect: Effect, row: LeasedRow, payload: unknown, signal: AbortSignal): Promise<Called> {
    let completion: Completion | undefined;
    const context: EffectContext = {
      key: row.id,
      signal,
      timeoutMs: effect.timeoutMs,
      attempt: row.attempt,
      previous:
        row.previousResult === undefined ? undefined : { result: JSON.parse(row.previousResult) as unknown },
      complete: async (work) => {
        completion = completionOf(row.name, work);
      },
    };
    const run = async () => outcomeOf(await effect.invoke(payload, context), row.name, signal);
    const result = await runAround(this.options.around, runInfo(row, 'effect'), run);
    return { result, completion };
  }

  private async settle(
    effect: Effect,
    row: LeasedRow,
    called: Called,
    signal: AbortSignal,
  ): Promise<RunOutcome> {
    let kept = false;
    try {
      // First, and whatever becomes of the lease: the call was made, and the next attempt need not make it again.
      const json = asJson(row, called);
      if (called.completion !== undefined) {
        await this.statements.send((manager) => this.store.keepResult(manager, row.id, json!));
        kept = true;
      }
      this.wakeUp.wake(await this.commit(effect, row, called.completion, json, signal));
    } catch (error) {
      if (await this.statements.send((manager) => this.store.endOf(manager, row))) {
        this.wakeUp.wake();
        return 'done';
      }
      if (error instanceof LeaseLost) return this.lost(row, called);
      // With its result kept, the call is not in doubt.
      return await this.failures.settle(row, error, policy(effect, !kept && tracksDoubt(effect)));
    }
    this.lifecycle.emit('effectDone', () => rowEvent(row));
    if (isHeard('log')) this.logger.log(logLine('effect done', rowFacts(row)));
    return 'done';
  }

  /**
   * The fenced settle: with those of others, with the turn of its key, or with the user's own work.
   * @returns names of the rows that are there for a relay by it
   */
  private async commit(
    effect: Effect,
    row: LeasedRow,
    completion: Completion | undefined,
    json: string | undefined,
    signal: AbortSignal,
  ): Promise<string[]> {
    const settle = async (manager: EntityManager): Promise<string[]> => {
      if (!(await this.store.settle(manager, row, json))) throw new LeaseLost();
      const passed = row.orderKey !== undefined && (await this.turns.pass(manager, row.orderKey));
      return passed ? namesOf(effect) : [];
    };
    if (completion !== undefined) {
      return this.handlers.transaction(row, effect.timeoutMs, async (transaction) => {
        const { manager, queryRunner } = transaction;
        const run = new RunEnqueue(this.enqueueStores, manager, row);
        this.outbox.bind(queryRunner, run.enqueue);
        // As a later attempt would get it: a Date is text there.
        const result = JSON.parse(json!) as unknown;
        const complete = async () => {
          const ended = await completion({ manager, enqueue: run.enqueue, result });
          await outcomeOf(ended, `the completion of ${row.name}`, signal);
        };
        const info = runInfo(row, 'complete');
        await transaction.asUser(() => runAround(this.options.around, info, complete), signal);
        return [...(await transaction.asOurs(settle)), ...run.woken];
      });
    }
    if (row.orderKey === undefined) {
      if (!(await this.settles.settle({ lease: row, result: json }))) throw new LeaseLost();
      return [];
    }
    return this.statements.commit(settle);
  }

  private async lost(row: LeasedRow, called: Called): Promise<RunOutcome> {
    if (await this.settleLate(row, called)) return 'done';
    const text =
      'the effect ended after its lease had; it may have happened twice at a sink that ignores its key';
    this.logger.warn(logLine(text, rowFacts(row)));
    return 'lost';
  }

  private async recordLate(row: LeasedRow, called: Called): Promise<void> {
    try {
      const settled = await this.settleLate(row, called).catch((error: unknown) => {
        if (!(error instanceof ResultRefused)) throw error;
        return this.failures.refuseLate(row, error);
      });
      if (settled === undefined) return;
      this.logger.warn(logLine(settled ? 'a late end was recorded' : 'a late end was kept', rowFacts(row)));
    } catch (error) {
      this.logger.error(logLine(`a late end could not be recorded: ${errorText(error)}`, rowFacts(row)));
    }
  }

  /**
   * What is done about an end that came after its lease. A call with a completion is not done before that has committed: the next
   * attempt, of a parked row too, gets the result and need not call again.
   * @returns whether the row is done
   * @throws ResultRefused
   */
  private async settleLate(row: LeasedRow, called: Called): Promise<boolean> {
    const { completion } = called;
    const json = asJson(row, called);
    const settled =
      completion === undefined
        ? await this.statements.send((manager) => this.store.settleLate(manager, row, json))
        : await this.statements.send((manager) => this.store.resumeLate(manager, row, json!));
    // The row may have had the turn of its key, or a parked one may have held it.
    if (settled) this.wakeUp.wake();
    return settled && completion === undefined;
  }
}

/** Work that has begun already would not commit with the settle. @throws PermanentError */
function completionOf(effect: string, work: unknown): Completion {
  if (typeof work === 'function') return work as Completion;
  throw new PermanentError(
    `complete() of ${effect}: expected a function, which is called with the manager of the settle, received ${typeof work}`,
  );
}

/** The bytes are ours, written by JSON.stringify: anything else is damage, and no attempt will read them. */
function readPayload(row: LeasedRow): unknown {
  const payload = row.payload && parseJson(row.payload);
  if (payload === undefined) throw new UnreadableBody('the payload of the effect is missing or damaged');
  return payload;
}

/** @throws ResultRefused when there is a completion and it could not be given the result */
function asJson({ name }: LeasedRow, { result, completion }: Called): string | undefined {
  return completion === undefined ? effectResult(result) : keptResult(name, result);
}

function policy(effect: Effect, inDoubt = false): FailurePolicy {
  return { retry: effect.retry, classifiers: [effect.classify], effect, inDoubt };
}
