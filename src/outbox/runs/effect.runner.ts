import { Inject, Injectable } from '@nestjs/common';
import { runAround } from '../../core/around.js';
import { parseJson, UnreadableBody } from '../../core/body.js';
import { isKnownNotDone } from '../../core/classify.js';
import type { EffectContext } from '../../core/context.js';
import { PermanentError } from '../../core/errors.js';
import { outcomeOf } from '../../core/lazy.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { orAborted } from '../../core/time/waits.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { runInfo } from '../relay/row-facts.js';
import { runAttempt } from './attempt-span.js';
import { Destinations } from './destinations.js';
import { EffectDoubts, type Checked, type Completion } from './effect-doubts.js';
import { effectPolicy, EffectSettler, type Called } from './effect.settler.js';
import { tracksDoubt } from './failure-policy.js';
import { FailureSettler, type RunOutcome } from './failure.settler.js';
import { LoneStatements } from './lone-statements.js';

/** Runs a leased effect: the user's method outside any transaction, then the fenced settle. */
@Injectable()
export class EffectRunner {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly doubts: EffectDoubts,
    private readonly failures: FailureSettler,
    private readonly ends: EffectSettler,
    private readonly destinations: Destinations,
    private readonly store: OutboxStore,
    private readonly statements: LoneStatements,
  ) {}

  /** @throws only when the end could not be recorded: the database is unusable and the lease will end by itself */
  run(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    return runAttempt(
      [row],
      (outcome) => [outcome],
      () => this.attempt(row, signal),
    );
  }

  private async attempt(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    const effect = this.registry.effect(row.name)!;
    let payload: unknown;
    let destination: string | undefined;
    try {
      payload = readPayload(row);
      destination = this.destinations.of(effect, payload);
    } catch (error) {
      return await this.failures.settle(row, error, effectPolicy(effect, row.begun));
    }
    const waitMs = destination && (await this.destinations.admit(effect, destination, row));
    if (typeof waitMs === 'number') return await this.putOff(row, waitMs);
    let checked: Checked;
    try {
      checked = await this.doubts.check(effect, row, payload, signal);
    } catch (error) {
      return await this.fail(effect, row, payload, error, row.begun);
    }
    // Outside of a `try`: an error of our own database says nothing about the destination.
    if (checked.kind === 'park') return await this.failures.park(row, checked.reason);
    if (checked.kind === 'done') return await this.ends.settle(effect, row, checked, signal);
    if (checked.begins && !(await this.doubts.begin(row))) return 'lost';
    const call = this.call(effect, row, payload, signal);
    let called: Called;
    try {
      called = await orAborted(call, signal);
    } catch (error) {
      const mayBeDone = checked.inDoubt || (tracksDoubt(effect) && !isKnownNotDone(error));
      try {
        return await this.fail(effect, row, payload, error, mayBeDone);
      } finally {
        this.recordIfLate(row, call);
      }
    }
    const outcome = await this.ends.settle(effect, row, called, signal);
    await this.destinations.recordAnswer(effect, row, payload);
    return outcome;
  }

  private async fail(
    effect: Effect,
    row: LeasedRow,
    payload: unknown,
    error: unknown,
    mayBeDone: boolean,
  ): Promise<RunOutcome> {
    const outcome = await this.failures.settle(row, error, effectPolicy(effect, mayBeDone));
    await this.destinations.recordFailure(effect, row, payload, error);
    return outcome;
  }

  /**
   * A call that was given up goes on, and may still end well. Called after the attempt's own end is recorded, which would undo a late one.
   */
  private recordIfLate(row: LeasedRow, call: Promise<Called>): void {
    void call.then(
      (late) => this.ends.recordLate(row, late),
      () => undefined,
    );
  }

  /** Releases the row, as if it had not been leased. */
  private async putOff(row: LeasedRow, ms: number): Promise<RunOutcome> {
    const delayMs = Math.ceil(ms);
    const released = await this.statements.send((manager) => this.store.release(manager, [row], { delayMs }));
    return released === 1 ? 'put-off' : 'lost';
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
    const run = () => outcomeOf(() => effect.invoke(payload, context), row.name, signal);
    const result = await runAround(this.options.around, runInfo(row, 'effect'), run);
    return { result, completion };
  }
}

/**
 * Checks that the completion is a function: work that has begun already would not commit with the settle.
 * @throws PermanentError
 */
export function completionOf(effect: string, work: unknown): Completion {
  if (typeof work === 'function') return work as Completion;
  throw new PermanentError(
    `complete() of ${effect}: expected a function, which is called with the manager of the settle, received ${typeof work}`,
  );
}

/** The bytes are ours, written by JSON.stringify: anything else is damage, and no attempt will read them. */
export function readPayload(row: Pick<LeasedRow, 'payload'>): unknown {
  const payload = row.payload && parseJson(row.payload);
  if (payload === undefined) throw new UnreadableBody('the payload of the effect is missing or damaged');
  return payload;
}
