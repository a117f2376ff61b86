import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger, isHeard } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { namesOf, type Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore } from '../../storage/settle.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { rowEvent, rowFacts, runInfo } from '../relay/row-facts.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';
import type { Completion } from './effect-doubts.js';
import { tracksDoubt, type FailurePolicy } from './failure-policy.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { GroupSettle } from './group-settle.js';
import { LeaseLost } from './deadline.js';
import { LoneStatements } from './lone-statements.js';
import { effectResult, keptResult, ResultRefused } from './result.js';
import { RunTransactions } from './run.transaction.js';

/** A warning about a call whose row may have another attempt. */
const MAY_BE_TWICE = 'it may have happened twice at a service that ignores its key';

/** How an effect's method ended. */
export interface Called {
  readonly result: unknown;
  readonly completion?: Completion;
}

/** Records how the call of an effect ended: fenced, and with the user's own work where it asked for a completion. */
@Injectable()
export class EffectSettler {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly store: SettleStore,
    private readonly settles: GroupSettle,
    private readonly turns: TurnStore,
    private readonly transactions: RunTransactions,
    private readonly failures: FailureSettler,
    private readonly statements: LoneStatements,
    private readonly wakeUp: WakeUp,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /** Settles a call that has ended: as done, or as failed where that is refused. */
  async settle(effect: Effect, row: LeasedRow, called: Called, signal: AbortSignal): Promise<RunOutcome> {
    let kept = false;
    let woken: WokenNames;
    try {
      // The result is kept first, even if the lease is lost: the call was made, and the next attempt need not make it again.
      const json = asJson(row, called);
      if (called.completion !== undefined) {
        await this.statements.send((manager) => this.store.keepResult(manager, row.id, json!));
        kept = true;
      }
      woken = await this.commit(effect, row, called.completion, json, signal);
    } catch (error) {
      if (await this.statements.send((manager) => this.store.endOf(manager, row)))
        return this.finish(row, undefined);
      if (error instanceof LeaseLost) return this.settleLost(row, called);
      // With its result kept, the call is not in doubt.
      return await this.failures.settle(row, error, effectPolicy(effect, !kept && tracksDoubt(effect)));
    }
    return this.finish(row, woken);
  }

  /**
   * Settles behind the fence: with other effects, with the turn of its key, or with the user's own work.
   * @returns names of the rows that this made due
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
      const committed = await this.transactions.run(row.name, effect.timeoutMs, async (transaction) => {
        const { manager } = transaction;
        const enqueue = transaction.enqueueOf(row);
        // As a later attempt would get it: a Date is text there.
        const result = JSON.parse(json!) as unknown;
        const complete = () => completion({ manager, enqueue, result });
        await transaction.call(runInfo(row, 'complete'), signal, enqueue, complete);
        await transaction.settle(row, json);
        await transaction.passTurn(row);
        return transaction;
      });
      return committed.woken;
    }
    if (row.orderKey === undefined) {
      if (!(await this.settles.settle({ lease: row, result: json }))) throw new LeaseLost();
      return [];
    }
    return this.statements.commit(settle);
  }

  private async settleLost(row: LeasedRow, called: Called): Promise<RunOutcome> {
    if (await this.settleLate(row, called)) return 'done';
    this.logger.warn(logLine(`the effect ended after its lease; ${MAY_BE_TWICE}`, rowFacts(row)));
    return 'lost';
  }

  /** Records the end of a call that was given up, once its attempt has ended. */
  async recordLate(row: LeasedRow, called: Called): Promise<void> {
    try {
      const text = (await this.settleLate(row, called)) ? 'a late end was recorded' : lateText(called);
      this.logger.warn(logLine(text, rowFacts(row)));
    } catch (error) {
      await this.recordRefused(row, error).catch((failed: unknown) =>
        this.logger.error(logLine(`a late end could not be recorded: ${errorText(failed)}`, rowFacts(row))),
      );
    }
  }

  /** @throws any other error than ResultRefused */
  private async recordRefused(row: LeasedRow, error: unknown): Promise<void> {
    if (!(error instanceof ResultRefused)) throw error;
    await this.failures.refuseLate(row, error);
  }

  /**
   * Records an end that came after its lease. A call with a completion is only done when the completion has committed. So the next attempt
   * gets the result and need not call again, also for a parked row.
   * @returns whether the row is done
   * @throws ResultRefused
   */
  private async settleLate(row: LeasedRow, called: Called): Promise<boolean> {
    const json = asJson(row, called);
    if (called.completion !== undefined) {
      const resumed = await this.statements.send((manager) => this.store.resumeLate(manager, row, json!));
      if (resumed) this.wakeUp.wake();
      return false;
    }
    let sent = 0;
    const settled = await this.statements.send(async (manager) => {
      sent += 1;
      if (await this.store.settleLate(manager, row, json)) return true;
      // A first sending may have done it, and its answer was lost. Otherwise a person has decided.
      return sent > 1 && (await this.store.endOf(manager, row)) === 'done';
    });
    if (settled) this.finish(row, undefined);
    return settled;
  }

  /**
   * The row is done by this attempt, whichever way its process has learned it.
   * @param woken names of the rows that this made due; undefined where they are unknown: it may have had, or held, the turn of its key
   */
  private finish(row: LeasedRow, woken: WokenNames): 'done' {
    this.wakeUp.wake(woken);
    this.lifecycle.emit('effectDone', () => rowEvent(row));
    if (isHeard('log')) this.logger.log(logLine('effect done', rowFacts(row)));
    return 'done';
  }
}

/** The warning about a late end that did not make its row done. */
const lateText = ({ completion }: Called) =>
  completion === undefined
    ? `a late end of the effect was not recorded; ${MAY_BE_TWICE}`
    : 'a late end was kept';

export function effectPolicy(effect: Effect, inDoubt = false): FailurePolicy {
  return { retry: effect.retry, classifiers: [effect.classify], effect, inDoubt };
}

/** @throws ResultRefused when there is a completion and it could not be given the result */
function asJson({ name }: LeasedRow, { result, completion }: Called): string | undefined {
  return completion === undefined ? effectResult(result) : keptResult(name, result);
}
