import { hostname } from 'node:os';
import { runAround, type RunInfo } from '../core/around.js';
import type { EffectContext } from '../core/context.js';
import { PermanentError, WebhookInboxError } from '../core/errors.js';
import { outcomeOf } from '../core/lazy.js';
import { orAborted } from '../core/time/waits.js';
import type { EffectMessage, EngineReport, EngineDelivery } from '../core/options/effect-transport.js';
import { errorText } from '../core/log/log.js';
import { placeOfError } from '../core/log/stack.js';
import type { DeadReason } from '../core/states.js';
import type { Effect } from '../handlers/handler.registry.js';
import { probeAnswer, type Completion } from '../outbox/runs/effect-doubts.js';
import { completionOf, readPayload } from '../outbox/runs/effect.runner.js';
import { effectResult, keptResult } from '../outbox/runs/result.js';
import type { FailedSettle } from '../storage/settle.store.js';
import type { UserTransaction } from '../storage/postgres/user-transaction.js';
import type { ResolvedConsumer } from './consumer.options.js';

/** The effect is not called. */
export class NotAllowed extends PermanentError {
  readonly end: FailedSettle;

  constructor(reason: DeadReason, message: string) {
    super(message);
    this.end = { state: 'dead', reason };
  }
}

export const keyExpired = () =>
  new NotAllowed(
    'permanent-error',
    'the other side may have forgotten the key; another attempt may do it twice',
  );

/** One delivery of a message to this consumer. */
export class ConsumedRun {
  private readonly begunAt = new Date();
  /** Whether the application's code has been called. */
  begun = false;

  constructor(
    private readonly options: ResolvedConsumer,
    readonly effect: Effect,
    readonly message: EffectMessage,
    private readonly delivery: EngineDelivery,
    readonly signal: AbortSignal,
  ) {}

  /** Attempts, this one included. */
  get tries(): number {
    return this.delivery.attempt;
  }

  /** Since the key is in use. */
  get ageMs(): number {
    const { since } = this.message;
    return since === undefined ? 0 : Math.max(0, Date.now() - Date.parse(since));
  }

  /** @throws NotAllowed */
  checkAllowed(): void {
    const { retry, keyRetentionMs } = this.effect;
    if (this.tries > retry.maxAttempts)
      throw new NotAllowed('last-attempt-lost', 'the last attempt has no end: its consumer has died');
    const isRepeated = this.tries > 1 || this.message.repeated === true;
    if (isRepeated && this.ageMs > keyRetentionMs) throw keyExpired();
  }

  /**
   * Calls the probe where there is one, then the method, then its completion.
   * @param transaction in which the application may write; none without a DataSource
   * @returns the result as JSON
   */
  async call(transaction?: UserTransaction): Promise<string | undefined> {
    const { effect, message } = this;
    let completion: Completion | undefined;
    const complete: EffectContext['complete'] = async (work) => {
      if (transaction === undefined) throw withoutTransaction(effect.name);
      completion = completionOf(effect.name, work);
    };
    const payload = readPayload({ payload: Buffer.from(message.payload) });
    const probed = await this.probe(payload, complete, transaction);
    let result = probed?.result;
    if (probed === undefined) {
      completion = undefined;
      const { timeoutMs } = effect;
      const manager = transaction?.manager;
      const context = {
        key: message.id,
        signal: this.signal,
        timeoutMs,
        attempt: this.tries,
        manager,
        complete,
      };
      result = await this.userCode('effect', () => effect.invoke(payload, context), transaction);
    }
    if (completion === undefined) return effectResult(result);
    const json = keptResult(effect.name, result);
    await this.complete(completion, json, transaction!);
    return json;
  }

  report(outcome: 'done' | 'dead', more: Partial<EngineReport> = {}): EngineReport {
    const { id, life } = this.message;
    return {
      id,
      life,
      effect: this.effect.name,
      outcome,
      attempts: this.tries,
      begunAt: this.begunAt.toISOString(),
      endedAt: new Date().toISOString(),
      host: `${hostname()}:${process.pid}`,
      ...more,
    };
  }

  reportDead(error: unknown, reason: DeadReason): EngineReport {
    return this.report('dead', { reason, error: errorText(error), place: placeOfError(error) });
  }

  private async complete(work: Completion, json: string, transaction: UserTransaction): Promise<void> {
    const result = JSON.parse(json) as unknown;
    const context = { manager: transaction.manager, enqueue: refuseEnqueue, result };
    await this.userCode('complete', () => work(context), transaction);
  }

  /** A consumer cannot know whether an earlier attempt had begun its call, so it asks before each. Undefined when it must be made. */
  private async probe(
    payload: unknown,
    complete: EffectContext['complete'],
    transaction: UserTransaction | undefined,
  ): Promise<{ readonly result: unknown } | undefined> {
    const { options, instance, name } = this.effect;
    if (options.probe === undefined) return undefined;
    const context = { key: this.message.id, signal: this.signal, complete };
    const ask = () => options.probe!.call(instance, payload, context);
    const answer = probeAnswer(name, await this.userCode('probe', ask, transaction));
    if (typeof answer === 'object') return { result: answer.done };
    return answer === 'done' ? { result: undefined } : undefined;
  }

  private userCode(
    kind: RunInfo['kind'],
    code: () => unknown,
    transaction: UserTransaction | undefined,
  ): Promise<unknown> {
    this.begun = true;
    const { id: outboxId, event = {} } = this.message;
    const { name } = this.effect;
    const info = { kind, name, outboxId, attempt: this.tries, events: 1, inDelivery: false, ...event };
    const run = () => outcomeOf(code, name, this.signal);
    const call = () => runAround(this.options.around, info, run);
    return transaction === undefined ? orAborted(call(), this.signal) : transaction.asUser(call, this.signal);
  }
}

const withoutTransaction = (effect: string) =>
  new PermanentError(
    `complete() of ${effect} commits in the consumer's transaction, and there is none: give EffectConsumerModule a DataSource`,
  );

const refuseEnqueue = () =>
  Promise.reject(
    new WebhookInboxError(
      'ENQUEUE_REFUSED',
      'a consumer of an engine has no outbox: enqueue where WebhooksModule is, or from the handler that enqueued this effect',
    ),
  );
