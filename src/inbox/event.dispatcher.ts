import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { isDatabaseUnavailable } from '../core/classify.js';
import { EventIdUnusable, SignatureRejection } from '../core/errors.js';
import { errorText, logLine } from '../core/log.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { Tally } from '../core/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry, type Handler } from '../handlers/handler.registry.js';
import type { HandlerCode } from '../outbox/handler.runner.js';
import { WakeUp } from '../outbox/wake-up.js';
import { ClaimStore } from '../storage/claim.store.js';
import { Claimer } from './claimer.js';
import { incomingEvents, type IncomingEvent, type VerifiedDelivery } from './delivery.js';
import { outsideWindow } from './delivery.verifier.js';
import { InlineDispatcher, type InlineWork } from './inline.dispatcher.js';
import { ProviderRetries } from './provider.retries.js';
import { worst, type Verdict } from './verdict.js';

/** Claims the events of a verified delivery with what is owed for them, and says what the answer may be. */
@Injectable()
export class EventDispatcher {
  private readonly logger = new Logger('WebhookInbox');
  private draining = false;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly claims: ClaimStore,
    private readonly claimer: Claimer,
    private readonly inline: InlineDispatcher,
    private readonly providerRetries: ProviderRetries,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
  ) {}

  /**
   * Never throws for what the database or a handler does: that is a verdict.
   * @throws EventIdUnusable, SignatureRejection (a stale delivery of an unknown event)
   */
  async dispatch(delivery: VerifiedDelivery): Promise<Verdict> {
    return this.decide(delivery, async (event) => {
      const { source } = delivery;
      const handlers = this.registry.match(source.name, event.type);
      const inline = this.draining ? [] : handlers.filter((handler) => handler.inline);
      if (source.retries === 'provider' && this.draining)
        return { kind: 'unavailable', why: 'shutting down' };
      if (inline.length > 0) {
        const others = handlers.filter((handler) => !handler.inline);
        return this.inline.dispatch(source, event, inline.map(asInlineWork), others);
      }
      if (source.retries === 'provider') return this.providerRetries.dispatch(source, event, handlers);
      return undefined;
    });
  }

  /** As `dispatch`, with the code of an application's own route as the only handler: inline, retried by the provider. */
  async dispatchRoute(delivery: VerifiedDelivery, name: string, code: HandlerCode): Promise<Verdict> {
    if (this.draining) return { kind: 'unavailable', why: 'shutting down' };
    const { source } = delivery;
    const retry = { baseMs: 0, capMs: 0, maxAttempts: source.maxAttempts };
    const work: InlineWork = { name, source: source.name, retry, classify: undefined, code };
    return this.decide(delivery, (event) => {
      const handlers = this.registry.match(source.name, event.type);
      const inline = handlers.filter((handler) => handler.inline).map(asInlineWork);
      const others = handlers.filter((handler) => !handler.inline);
      return this.inline.dispatch({ ...source, retries: 'provider' }, event, [work, ...inline], others);
    });
  }

  /** From now on inline work is left to other processes, and sources whose provider retries are answered 503. */
  startDraining(): void {
    this.draining = true;
  }

  get isDraining(): boolean {
    return this.draining;
  }

  /** `each` decides about one event, or returns undefined to have it claimed together with the others. */
  private async decide(
    delivery: VerifiedDelivery,
    each: (event: IncomingEvent) => Promise<Verdict | undefined>,
  ): Promise<Verdict> {
    return this.tally.delivery(delivery.source.name, delivery.verifiedBy, () =>
      this.decideUncounted(delivery, each),
    );
  }

  private async decideUncounted(
    delivery: VerifiedDelivery,
    each: (event: IncomingEvent) => Promise<Verdict | undefined>,
  ): Promise<Verdict> {
    const events = incomingEvents(delivery);
    try {
      if (delivery.stale) return await this.onlyKnown(delivery, events);
      const verdicts: Verdict[] = [];
      const together: IncomingEvent[] = [];
      for (const event of events) {
        const verdict = await this.inTime(
          each(event),
          delivery.source.ackTimeoutMs + this.options.claimTimeoutMs,
        );
        if (verdict === undefined) together.push(event);
        else verdicts.push(verdict);
      }
      if (together.length > 0)
        verdicts.push(
          await this.inTime(this.claimAll(delivery.source, together), this.options.claimTimeoutMs),
        );
      return events.length === 0 ? { kind: 'ok' } : worst(verdicts);
    } catch (error) {
      if (error instanceof EventIdUnusable || error instanceof SignatureRejection) throw error;
      return this.unavailable(delivery, error);
    }
  }

  /** `retries: 'own'`, nothing inline: claim and rows are committed, the relay does the rest. */
  private async claimAll(source: Source, events: readonly IncomingEvent[]): Promise<Verdict> {
    try {
      return await this.claimTogether(source, events);
    } catch (error) {
      if (events.length === 1 || isDatabaseUnavailable(error)) throw error;
      // One event of a batch that PostgreSQL refuses must not keep the others out.
      const verdicts: Verdict[] = [];
      for (const event of events) verdicts.push(await this.claimTogether(source, [event]));
      return worst(verdicts);
    }
  }

  private async claimTogether(source: Source, events: readonly IncomingEvent[]): Promise<Verdict> {
    const claims = events.map((event) => ({
      event,
      rows: this.registry.match(event.source, event.type).map(({ name }) => this.claimer.row(event, name)),
    }));
    let work = false;
    const results = await this.claimer.transaction(async (manager, secondTry) => {
      work = false;
      const all = await this.claimer.claim(manager, claims, secondTry);
      for (const [index, { won }] of all.entries()) {
        const revived = !won && (await this.claimer.duplicate(manager, source, events[index]!));
        work ||= revived || (won && claims[index]!.rows.length > 0);
      }
      return all;
    });
    for (const [index, event] of events.entries()) {
      this.log(event, results[index]!.won ? 'claimed' : 'duplicate', claims[index]!.rows.length);
    }
    if (work) this.wakeUp.wake();
    return { kind: results.some((result) => result.won) ? 'ok' : 'duplicate' };
  }

  /** A signature outside the window may still be that of a retry with its first timestamp: if the event is known, it was. */
  private async onlyKnown(delivery: VerifiedDelivery, events: readonly IncomingEvent[]): Promise<Verdict> {
    for (const event of events) {
      if ((await this.claims.find(this.dataSource.manager, event)) === undefined)
        throw outsideWindow(delivery.source, undefined);
      this.tally.duplicate(event);
    }
    return { kind: 'duplicate' };
  }

  /** An answer is not kept waiting; a claim that commits later is met by the redelivery as a duplicate. */
  private async inTime<T>(work: Promise<T>, ms: number): Promise<T | Verdict> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Verdict>((resolve) => {
      timer = setTimeout(
        () => resolve({ kind: 'unavailable', why: `the database did not answer within ${ms} ms` }),
        ms,
      );
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private unavailable(delivery: VerifiedDelivery, error: unknown): Verdict {
    const text = `not claimed, answered 503: ${errorText(error)}`;
    this.logger.error(logLine(text, { source: delivery.source.name, tenant: delivery.tenant }));
    return { kind: 'unavailable', why: errorText(error) };
  }

  private log({ source, tenant, eventId, type, id }: IncomingEvent, message: string, rows: number): void {
    this.logger.log(logLine(message, { source, tenant, event: eventId, type, id, rows }));
  }
}

function asInlineWork(handler: Handler): InlineWork {
  return { ...handler, code: (event, context) => handler.invoke(event, context) };
}
