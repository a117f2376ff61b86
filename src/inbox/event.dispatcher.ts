import { Inject, Injectable } from '@nestjs/common';
import { SpanKind } from '@opentelemetry/api';
import { DataSource } from 'typeorm';
import { InboxLogger, isHeard } from '../core/log/inbox.logger.js';
import { EventIdUnusable, SignatureRejection } from '../core/errors.js';
import { WebhookLifecycle } from '../core/telemetry/lifecycle-events.js';
import { logLine } from '../core/log/log.js';
import { during } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { spanned } from '../core/telemetry/tracing.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry, type Handler } from '../handlers/handler.registry.js';
import { FailureSettler } from '../outbox/runs/failure.settler.js';
import type { HandlerCode } from '../outbox/runs/handler.runner.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { ClaimStore } from '../storage/claim.store.js';
import { Backlog } from './backlog.js';
import { isOneEventsFault, unavailable } from './claim-faults.js';
import { deliveryFacts, incomingEvents, type IncomingEvent, type VerifiedDelivery } from './delivery.js';
import { outsideWindow } from './delivery.verifier.js';
import { GroupCommit, TooMuchWaits } from './group-commit.js';
import { Claimer, type ClaimedDelivery } from './claimer.js';
import { HandOff, type Offer } from './hand-off.js';
import { InlineDispatcher, type InlineWork } from './inline.dispatcher.js';
import { PausedWork } from './paused-work.js';
import { ProviderRetries } from './provider-retries.js';
import { inTime, PAUSED, worst, type Verdict } from './verdict.js';

const SHUTTING_DOWN: Verdict = { kind: 'unavailable', why: 'shutting down' };

/**
 * Decides about one event, within the time that is left for the answer; undefined to have it claimed together with the others, for
 * the relay.
 */
type DecideOne = (event: IncomingEvent, ackTimeoutMs: number) => Promise<Verdict | undefined>;

/** Work during which the bytes of the delivery are counted. */
type Counted = <T>(work: Promise<T>) => Promise<T>;

/** Claims the events of a verified delivery with what is owed for them, and says what the answer may be. */
@Injectable()
export class EventDispatcher {
  private readonly logger = new InboxLogger();
  private draining = false;
  /** Handlers that a delivery waits for. */
  private readonly running = new Set<Promise<unknown>>();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly claims: ClaimStore,
    private readonly claimer: Claimer,
    private readonly failures: FailureSettler,
    private readonly handOff: HandOff,
    private readonly group: GroupCommit,
    private readonly inline: InlineDispatcher,
    private readonly providerRetries: ProviderRetries,
    private readonly wakeUp: WakeUp,
    private readonly backlog: Backlog,
    private readonly paused: PausedWork,
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /**
   * Never throws for what the database or a handler does: that is a verdict.
   * @throws EventIdUnusable, SignatureRejection (a stale delivery of an unknown event)
   */
  dispatch(delivery: VerifiedDelivery): Promise<Verdict> {
    const { source: asked } = delivery;
    // Nothing to decide about each: all of it is for the relay.
    if (asked.retries === 'own' && !this.registry.hasInline(asked.name)) return this.decide(delivery);
    return this.decide(delivery, (event, ackTimeoutMs) =>
      this.paused.undisturbed((check) => this.decideOne({ ...asked, ackTimeoutMs }, event, check)),
    );
  }

  private async decideOne(
    source: Source,
    event: IncomingEvent,
    check: () => void,
  ): Promise<Verdict | undefined> {
    const isInTime = source.ackTimeoutMs > 0;
    const handlers = this.registry.match(source.name, event.type);
    if (source.retries === 'provider') {
      if (this.draining) return SHUTTING_DOWN;
      if (await this.paused.any(source.name, handlers)) return this.whilePaused(event);
      if (!isInTime) return { kind: 'failed' };
    }
    const wanted = this.draining || !isInTime ? [] : handlers.filter((handler) => handler.inline);
    const inline = source.retries === 'own' ? await this.paused.without(source.name, wanted) : wanted;
    if (inline.length > 0) {
      const others = handlers.filter((handler) => !inline.includes(handler));
      const works = inline.map((handler) => asInlineWork(handler, check));
      return this.inline.dispatch(source, event, works, others);
    }
    if (source.retries === 'provider') return this.providerRetries.dispatch(source, event, handlers);
    return undefined;
  }

  /** As `dispatch`, with the code of an application's own route as the only handler: inline, retried by the provider. */
  async dispatchRoute(delivery: VerifiedDelivery, name: string, code: HandlerCode): Promise<Verdict> {
    const { source } = delivery;
    const retry = { baseMs: 0, capMs: 0, maxAttempts: source.routeMaxAttempts };
    const routed: InlineWork = { name, source: source.name, retry, classify: undefined, code };
    const decideOne = async (event: IncomingEvent, ackTimeoutMs: number, check: () => void) => {
      if (this.draining) return SHUTTING_DOWN;
      if (ackTimeoutMs <= 0) return { kind: 'failed' } as const;
      const handlers = this.registry.match(source.name, event.type);
      if (await this.paused.any(source.name, [{ name, was: [] }, ...handlers])) return PAUSED;
      const inline = handlers.filter((handler) => handler.inline).map((one) => asInlineWork(one, check));
      const others = handlers.filter((handler) => !handler.inline);
      const limited: Source = { ...source, ackTimeoutMs, retries: 'provider' };
      return this.inline.dispatch(limited, event, [checked(routed, check), ...inline], others);
    };
    return this.decide(
      delivery,
      (event, ackTimeoutMs) => this.paused.undisturbed((check) => decideOne(event, ackTimeoutMs, check)),
      name,
    );
  }

  /**
   * A new event is claimed, for the relay to run after the pause: a pause may last longer than the provider goes on trying. One that
   * is known waits for its redelivery, or for the relay.
   */
  private async whilePaused(event: IncomingEvent): Promise<Verdict | undefined> {
    const claim = await this.claims.find(this.dataSource.manager, event);
    return claim === undefined ? undefined : PAUSED;
  }

  /** From now on inline work is left to other processes, and sources whose provider retries are answered 503. */
  startDraining(): void {
    this.draining = true;
  }

  get isDraining(): boolean {
    return this.draining;
  }

  /** How many deliveries wait for handlers. */
  get waiting(): number {
    return this.running.size;
  }

  /** Waits for what deliveries wait for, their handlers and their claims, up to the time in which all of them have been answered. */
  async finish(): Promise<void> {
    const longest = Math.max(...[...this.options.sources.values()].map(({ ackTimeoutMs }) => ackTimeoutMs));
    const ended = Promise.allSettled([...this.running, this.group.finish()]);
    await inTime(ended, longest + this.options.claimTimeoutMs);
  }

  /** @param route the name of an application's own route, which is owed what it cannot be given */
  private async decide(delivery: VerifiedDelivery, each?: DecideOne, route?: string): Promise<Verdict> {
    const { source, verifiedBy } = delivery;
    const startedAt = performance.now();
    this.tally.received(source.name, verifiedBy);
    const attributes = { 'messaging.system': 'webhook_inbox', 'webhook_inbox.source': source.name };
    const options = { kind: SpanKind.PRODUCER, attributes };
    const verdict = await spanned(`deliver ${source.name}`, options, async (span) => {
      const decided = await this.decideUncounted(delivery, each, route);
      span?.setAttribute('webhook_inbox.result', decided.kind);
      return decided;
    });
    this.tally.answered(source.name, verdict.kind, performance.now() - startedAt);
    if (verdict.kind === 'unavailable') {
      for (const facts of deliveryFacts(delivery))
        this.logger.warn(logLine(`answered 503: ${verdict.why}`, facts));
    }
    return verdict;
  }

  private async decideUncounted(
    delivery: VerifiedDelivery,
    each: DecideOne | undefined,
    route: string | undefined,
  ): Promise<Verdict> {
    const events = incomingEvents(delivery);
    const { claimTimeoutMs, maxPending } = this.options;
    // What goes on after its answer has the bytes: while a pool gives no connection, they pile up.
    const counted: Counted = (work) => during(delivery.request, work);
    try {
      if (delivery.stale) {
        const late = await inTime(counted(this.refuseUnknown(delivery, events)), claimTimeoutMs);
        if (late !== undefined) return late;
      }
      if (events.length === 0) return { kind: 'ok' };
      if (each === undefined && maxPending === false)
        return await inTime(counted(this.claimAll(delivery.source, events)), claimTimeoutMs);
      const admitted = await this.admitted(events, counted);
      if (!(admitted instanceof Set)) return admitted;
      const verdicts: Verdict[] = [];
      if (admitted.size < events.length) {
        const why = `at least ${String(maxPending)} rows are pending`;
        verdicts.push({ kind: 'unavailable', why });
      }
      const together: IncomingEvent[] = [];
      const startedAt = performance.now();
      for (const event of admitted) {
        // One answer, and one time for all that it waits for.
        const leftMs = Math.ceil(delivery.source.ackTimeoutMs - (performance.now() - startedAt));
        const ms = Math.max(leftMs, 0) + claimTimeoutMs;
        // Without an id of its own it is not run, whoever would run it.
        const verdict =
          event.unusable === undefined && each
            ? await this.alone(() => inTime(counted(this.tracked(each(event, leftMs))), ms))
            : undefined;
        if (verdict === undefined) together.push(event);
        else verdicts.push(verdict);
      }
      if (together.length > 0)
        verdicts.push(await inTime(counted(this.claimAll(delivery.source, together, route)), claimTimeoutMs));
      return worst(verdicts);
    } catch (error) {
      if (error instanceof EventIdUnusable || error instanceof SignatureRejection) throw error;
      return unavailable(error);
    }
  }

  /**
   * While too much is pending, only known events: their redeliveries add no row, and are all that works off what waits for them
   * under `retries: 'provider'`.
   */
  private async admitted(
    events: readonly IncomingEvent[],
    counted: Counted,
  ): Promise<Set<IncomingEvent> | Verdict> {
    if (this.options.maxPending === false) return new Set(events);
    const known = async () => {
      if (!(await this.backlog.isFull())) return new Set(events);
      const found = new Set<IncomingEvent>();
      for (const event of events) {
        if ((await this.claims.find(this.dataSource.manager, event)) !== undefined) found.add(event);
      }
      return found;
    };
    return inTime(counted(known()), this.options.claimTimeoutMs);
  }

  private tracked<T>(work: Promise<T>): Promise<T> {
    const ended = work.finally(() => this.running.delete(ended));
    this.running.add(ended);
    return ended;
  }

  /** `retries: 'own'`, nothing inline: claim and rows are committed, the relay does the rest. */
  private async claimAll(source: Source, events: readonly IncomingEvent[], route?: string): Promise<Verdict> {
    const offers = events.map((event) => this.offer(event, route));
    let claimed: ClaimedDelivery;
    try {
      claimed = await this.group.claim({ source, claims: offers });
    } catch (error) {
      const sent = !(error instanceof TooMuchWaits);
      for (const offer of offers) this.handOff[sent ? 'inDoubt' : 'dropped'](offer);
      return this.claimEach(source, events, error, route);
    }
    const { arrivals, woken, othersAreTold } = claimed;
    // Before anything of the application's, such as its logger, may throw: nobody else runs what is leased.
    for (const [index, offer] of offers.entries()) this.handOff.claimed(offer, arrivals[index]);
    this.wakeUp.wake(woken, othersAreTold);
    for (const [index, { event, rows }] of offers.entries()) {
      const isNew = arrivals[index] !== undefined;
      if (isNew && event.unusable !== undefined) this.tellUnusable(event, event.unusable, rows);
      this.log(event, isNew ? rows.length : undefined);
    }
    return { kind: arrivals.some((arrival) => arrival !== undefined) ? 'ok' : 'duplicate' };
  }

  private offer(event: IncomingEvent, route: string | undefined): Offer {
    const handlers = this.registry.match(event.source, event.type);
    if (event.unusable === undefined) return this.handOff.offer(event, handlers);
    const names = [...handlers.map(({ name }) => name), ...(route === undefined ? [] : [route])];
    return { event, rows: names.map((name) => this.claimer.row(event, name)), places: [] };
  }

  /** An item of a batch that has no usable id. Its rows are dead, and a person is told as of any dead row. */
  private tellUnusable(event: IncomingEvent, error: string, rows: Offer['rows']): void {
    const { source, tenant, eventId } = event;
    this.logger.warn(
      logLine(`an item of a batch has no usable event id, and is not run: ${error}`, {
        source,
        tenant,
        event: eventId,
      }),
    );
    const reason = 'unusable-id';
    this.failures.tellExhausted(rows.map(({ id, name }) => ({ id, name, attempt: 0, reason, error, event })));
  }

  /** After all together have failed by the fault of one of them. */
  private async claimEach(
    source: Source,
    events: readonly IncomingEvent[],
    error: unknown,
    route: string | undefined,
  ): Promise<Verdict> {
    if (events.length === 1 || !isOneEventsFault(error)) throw error;
    // Under the same ids: a lease given back late would be that of the second try.
    if (!(await this.handOff.finish(this.options.claimTimeoutMs))) throw error;
    const verdicts: Verdict[] = [];
    for (const event of events) verdicts.push(await this.alone(() => this.claimAll(source, [event], route)));
    return worst(verdicts);
  }

  /** One event of a batch that PostgreSQL refuses, or that another transaction holds, must not keep the others out. */
  private async alone<T>(work: () => Promise<T>): Promise<T | Verdict> {
    try {
      return await work();
    } catch (error) {
      if (!isOneEventsFault(error)) throw error;
      return unavailable(error);
    }
  }

  /**
   * A signature outside the window may still be that of a retry with its first timestamp: if the event is known, it was, and is
   * met as any other redelivery is.
   * @throws SignatureRejection
   */
  private async refuseUnknown(delivery: VerifiedDelivery, events: readonly IncomingEvent[]): Promise<void> {
    for (const event of events) {
      if ((await this.claims.find(this.dataSource.manager, event)) === undefined)
        throw outsideWindow(delivery.source, delivery.skewMs);
    }
  }

  /** @param rows of the claim; undefined for a duplicate, whose id and rows are in no table */
  private log({ source, tenant, eventId, type, id }: IncomingEvent, rows: number | undefined): void {
    const event = { source, tenant, eventId, type };
    if (rows === undefined) this.lifecycle.emit('duplicate', () => event);
    else this.lifecycle.emit('claimed', () => ({ ...event, id, handlers: rows }));
    // A line that nobody gets is not made: at thousands of events a second it shows.
    if (!isHeard('log')) return;
    const facts = { source, tenant, event: eventId, type };
    this.logger.log(
      rows === undefined ? logLine('duplicate', facts) : logLine('claimed', { ...facts, id, rows }),
    );
  }
}

function asInlineWork(handler: Handler, check: () => void): InlineWork {
  return checked({ ...handler, code: (event, context) => handler.invoke(event, context) }, check);
}

/** With a last look for a pause in the turn in which its code begins. */
function checked(work: InlineWork, check: () => void): InlineWork {
  const code: HandlerCode = (event, context) => {
    check();
    return work.code(event, context);
  };
  return { ...work, code };
}
