import { Inject, Injectable } from '@nestjs/common';
import { SpanKind } from '@opentelemetry/api';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { EventIdUnusable, SignatureRejection } from '../core/errors.js';
import { logLine } from '../core/log/log.js';
import { during } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { inSpan } from '../core/telemetry/tracing.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { HandlerCode } from '../outbox/runs/handler.runner.js';
import { Admission } from './admission.js';
import { deliveryFacts, incomingEvents, type IncomingEvent, type VerifiedDelivery } from './delivery.js';
import { DeliveryRuns, type RunOne } from './runs/delivery-runs.js';
import { RelayClaims } from './relay-claims.js';
import { orUnavailable, unavailable, worst, type Verdict } from './answers.js';

/**
 * Receives one verified delivery, from its events to the verdict:
 *
 * 1. A delivery outside the signature's window is refused, unless its events are known.
 * 2. Events are admitted: with `maxPending`, no new ones while too many rows are pending.
 * 3. Work of the delivery runs: inline handlers, routes with `@UseWebhook`, and sources whose provider retries.
 * 4. All other events are claimed for the relay, in one commit.
 */
@Injectable()
export class EventDispatcher {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly admission: Admission,
    private readonly runs: DeliveryRuns,
    private readonly claims: RelayClaims,
    private readonly tally: Tally,
  ) {}

  /**
   * Claims the events of a delivery and returns the verdict. An error of the database or of a handler is a verdict too.
   * @throws EventIdUnusable, SignatureRejection (a stale delivery of an unknown event)
   */
  dispatch(delivery: VerifiedDelivery): Promise<Verdict> {
    return this.observe(delivery, () => this.process(delivery, this.runs.runnerFor(delivery.source)));
  }

  /** As `dispatch`, with the code of an application's own route as the only handler: inline, retried by the provider. @internal */
  dispatchRoute(delivery: VerifiedDelivery, name: string, code: HandlerCode): Promise<Verdict> {
    const runOne = this.runs.routeRunnerFor(delivery.source, name, code);
    return this.observe(delivery, () => this.process(delivery, runOne, name));
  }

  /** @param route the name of an application's own route, which is owed the events that it cannot be given */
  private async process(
    delivery: VerifiedDelivery,
    runOne: RunOne | undefined,
    route?: string,
  ): Promise<Verdict> {
    const events = incomingEvents(delivery);
    try {
      const late = delivery.stale ? await this.refuseUnknown(delivery, events) : undefined;
      if (late !== undefined) return late;
      if (events.length === 0) return { kind: 'ok' };
      const admitted = this.options.maxPending === false ? events : await this.admit(delivery, events);
      if ('kind' in admitted) return admitted;
      const { ran, left } = runOne
        ? await this.runs.run(delivery, admitted, runOne)
        : { ran: [], left: admitted };
      const claimed = left.length > 0 ? [await this.claim(delivery, left, route)] : [];
      const refused = admitted.length < events.length ? [this.tooMuchPending()] : [];
      return worst([...refused, ...ran, ...claimed]);
    } catch (error) {
      if (error instanceof EventIdUnusable || error instanceof SignatureRejection) throw error;
      return unavailable(error);
    }
  }

  private refuseUnknown(
    delivery: VerifiedDelivery,
    events: readonly IncomingEvent[],
  ): Promise<Verdict | void> {
    return this.inClaimTime(delivery, this.admission.refuseStale(delivery, events));
  }

  private admit(
    delivery: VerifiedDelivery,
    events: readonly IncomingEvent[],
  ): Promise<Verdict | readonly IncomingEvent[]> {
    return this.inClaimTime(delivery, this.admission.admit(events));
  }

  private claim(
    delivery: VerifiedDelivery,
    events: readonly IncomingEvent[],
    route: string | undefined,
  ): Promise<Verdict> {
    return this.inClaimTime(delivery, this.claims.claim(delivery.source, events, route));
  }

  /** Work that goes on after its answer keeps the bytes counted: while a pool gives no connection, they pile up. */
  private inClaimTime<T>({ request }: VerifiedDelivery, work: Promise<T>): Promise<T | Verdict> {
    return orUnavailable(during(request, work), this.options.claimTimeoutMs);
  }

  private tooMuchPending(): Verdict {
    return { kind: 'unavailable', why: `at least ${String(this.options.maxPending)} rows are pending` };
  }

  /** Counts and traces the delivery, and says why it was answered 503. */
  private async observe(delivery: VerifiedDelivery, work: () => Promise<Verdict>): Promise<Verdict> {
    const { source, verifiedBy } = delivery;
    const startedAt = performance.now();
    this.tally.countReceived(source.name, verifiedBy);
    const attributes = { 'messaging.system': 'webhook_inbox', 'webhook_inbox.source': source.name };
    const options = { kind: SpanKind.PRODUCER, attributes };
    const verdict = await inSpan(`deliver ${source.name}`, options, async (span) => {
      const decided = await work();
      span?.setAttribute('webhook_inbox.result', decided.kind);
      return decided;
    });
    this.tally.countAnswered(source.name, verdict.kind, performance.now() - startedAt);
    if (verdict.kind === 'unavailable') {
      for (const facts of deliveryFacts(delivery))
        this.logger.warn(logLine(`answered 503: ${verdict.why}`, facts));
    }
    return verdict;
  }
}
