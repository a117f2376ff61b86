import { Inject, Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { UnreadableBody } from '../core/body.js';
import { isWholeDatabases } from '../core/classify.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';
import { logStack, placeOfError } from '../core/log/stack.js';
import { Outage } from '../core/log/outage.js';
import type {
  EffectMessage,
  EngineReport,
  EngineDelivery,
  EngineVerdict,
} from '../core/options/effect-transport.js';
import { sleep } from '../core/time/waits.js';
import { HandlerRegistry, type Effect } from '../handlers/handler.registry.js';
import { Deadline } from '../outbox/runs/deadline.js';
import { effectPolicy } from '../outbox/runs/effect.settler.js';
import { decide } from '../outbox/runs/failure-policy.js';
import { ConsumedStore, type ConsumedEffect } from '../storage/engine/consumed.store.js';
import { NotCommitted, onConnection } from '../storage/postgres/connection.js';
import { UserTransaction } from '../storage/postgres/user-transaction.js';
import { ConsumedRun, keyExpired, NotAllowed } from './consumed.run.js';
import type { ResolvedConsumer } from './consumer.options.js';
import { messageFacts } from './message-facts.js';
import { CONSUMER_DATA_SOURCE, CONSUMER_OPTIONS } from './consumer.tokens.js';
import { Turnstile } from './turnstile.js';

/** Another version of the application may have the method. */
const UNKNOWN_AGAIN_MS = 30_000;
/** Another delivery of the same effect runs now. */
const BUSY_AGAIN_MS = 1_000;
const DATABASE_AGAIN_MS = 1_000;
const REPORT_AGAIN_MS = [100, 500, 2_000, 5_000];
const FIND_MS = 10_000;

/** An earlier delivery has done the effect. */
class AlreadyDone extends Error {}

/** Runs deliveries of an engine. With a DataSource an effect is done once: its record commits with its writes. */
@Injectable()
export class ConsumerRuns {
  private readonly logger = new InboxLogger();
  private readonly outage = new Outage();
  private readonly unknown = new Set<string>();
  private readonly turnstile = new Turnstile();

  constructor(
    @Inject(CONSUMER_OPTIONS) private readonly options: ResolvedConsumer,
    @Inject(CONSUMER_DATA_SOURCE) private readonly dataSource: DataSource | undefined,
    private readonly registry: HandlerRegistry,
    private readonly store: ConsumedStore,
  ) {}

  /** @throws when the message must come again at once, as at a shutdown */
  async handle(message: EffectMessage, delivery: EngineDelivery): Promise<EngineVerdict> {
    const effect = this.registry.effect(message.effect);
    if (effect === undefined) return this.passOver(message);
    const leave = await this.turnstile.enter(effect.name, effect.concurrency);
    try {
      for (;;) {
        delivery.signal.throwIfAborted();
        const verdict = await this.attempt(effect, message, delivery);
        if (verdict !== undefined) return verdict;
        // The database is down. To give the message back would use its attempts up.
        await sleep(DATABASE_AGAIN_MS, delivery.signal);
      }
    } finally {
      leave();
    }
  }

  private passOver(message: EffectMessage): EngineVerdict {
    const { effect } = message;
    if (!this.unknown.has(effect)) {
      this.unknown.add(effect);
      const text =
        'the engine brings an effect that no method here takes: it is given back, for another consumer';
      this.logger.warn(logLine(text, messageFacts(message)));
    }
    return { kind: 'again', delayMs: UNKNOWN_AGAIN_MS };
  }

  /** Undefined when the database could not be used, and nothing was called. */
  private async attempt(
    effect: Effect,
    message: EffectMessage,
    delivery: EngineDelivery,
  ): Promise<EngineVerdict | undefined> {
    const deadline = new Deadline(effect.name, effect.timeoutMs);
    const signal = AbortSignal.any([deadline.signal, delivery.signal]);
    const run = new ConsumedRun(this.options, effect, message, delivery, signal);
    let result: string | undefined;
    try {
      result = await this.run(run);
    } catch (error) {
      return await this.ended(run, error, delivery.signal);
    } finally {
      deadline.end();
    }
    // Outside of the `try` above: that a report does not get through says nothing about the effect.
    return this.report(run, run.report('done', { result }), delivery.signal);
  }

  private async run(run: ConsumedRun): Promise<string | undefined> {
    const { dataSource, store } = this;
    const { id } = run.message;
    if (dataSource === undefined) {
      run.checkAllowed();
      return run.call();
    }
    const { name, timeoutMs } = run.effect;
    const onMisuse = (detail: string) =>
      this.logger.error(logLine(`manager misused: ${detail}`, messageFacts(run.message, run.tries)));
    return UserTransaction.run(dataSource, { timeoutMs, onMisuse }, async (transaction) => {
      const isOurs = await transaction.asOurs((manager) => store.claim(manager, id, name, run.tries));
      if (!isOurs) throw new AlreadyDone();
      run.checkAllowed();
      const result = await run.call(transaction);
      if (result !== undefined) await transaction.asOurs((manager) => store.keepResult(manager, id, result));
      return result;
    });
  }

  private async ended(
    run: ConsumedRun,
    error: unknown,
    signal: AbortSignal,
  ): Promise<EngineVerdict | undefined> {
    if (error instanceof AlreadyDone || (error instanceof NotCommitted && error.inDoubt)) {
      const done = await this.find(run);
      if (done !== undefined) return this.reportAgain(run, done, signal);
    }
    // The engine gives it to another consumer.
    signal.throwIfAborted();
    if (!run.begun && !(error instanceof NotAllowed || error instanceof UnreadableBody))
      return this.notBegun(run, error);
    return this.failed(run, error, signal);
  }

  /** On a connection of its own: after a COMMIT in doubt, the first is gone. */
  private find({ message }: ConsumedRun): Promise<ConsumedEffect | undefined> {
    return onConnection(this.dataSource!, (manager) => this.store.find(manager, message.id), FIND_MS);
  }

  private reportAgain(
    run: ConsumedRun,
    { attempt, result, consumedAt }: ConsumedEffect,
    signal: AbortSignal,
  ): Promise<EngineVerdict> {
    const at = consumedAt.toISOString();
    const times = { begunAt: at, endedAt: at, attempts: attempt };
    return this.report(run, run.report('done', { result: result ?? undefined, ...times }), signal);
  }

  private notBegun({ message, tries }: ConsumedRun, error: unknown): EngineVerdict | undefined {
    if (this.outage.recordFailure())
      this.logger.warn(logLine(`effect not begun: ${errorText(error)}`, messageFacts(message, tries)));
    return isWholeDatabases(error) ? undefined : { kind: 'again', delayMs: BUSY_AGAIN_MS };
  }

  private async failed(run: ConsumedRun, error: unknown, signal: AbortSignal): Promise<EngineVerdict> {
    const { effect, message, tries } = run;
    const to = error instanceof NotAllowed ? error.end : decide(run, error, effectPolicy(effect));
    const at = placeOfError(error);
    const next = to.state === 'pending' ? `${to.delayMs} ms` : 'dead';
    this.logger.warn(
      logLine(`attempt failed: ${errorText(error)}`, { ...messageFacts(message, tries), at, next }),
    );
    logStack(this.logger, error, { ...messageFacts(message, tries), at });
    if (to.state === 'pending') return { kind: 'again', delayMs: to.delayMs };
    // Another attempt would come after the key is forgotten: a person decides.
    const report =
      to.state === 'dead'
        ? run.reportDead(error, to.reason)
        : run.reportDead(keyExpired(), 'permanent-error');
    return this.report(run, report, signal);
  }

  /** Reports, and only then acknowledges: a report that is lost would leave the row to its time. */
  private async report(run: ConsumedRun, report: EngineReport, signal: AbortSignal): Promise<EngineVerdict> {
    for (let failures = 0; ; failures += 1) {
      try {
        await this.options.transport.report(report);
        break;
      } catch (error) {
        if (signal.aborted || failures >= REPORT_AGAIN_MS.length) throw error;
        await sleep(REPORT_AGAIN_MS[failures]!, signal);
      }
    }
    this.outage.recordSuccess();
    if (report.outcome === 'done') await this.noteReported(run.message);
    return { kind: 'ack' };
  }

  private async noteReported(message: EffectMessage): Promise<void> {
    if (this.dataSource === undefined) return;
    try {
      await onConnection(this.dataSource, (manager) => this.store.noteReported(manager, message.id), FIND_MS);
    } catch (error) {
      // It only tells a person.
      this.logger.debug(logLine(`a report was not noted: ${errorText(error)}`, messageFacts(message)));
    }
  }
}
