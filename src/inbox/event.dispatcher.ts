import { Inject, Injectable } from '@nestjs/common';
import { SpanKind } from '@opentelemetry/api';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { EventIdUnusable, SignatureRejection } from '../core/errors.js';
import { logLine } from '../core/log/log.js';
import { during } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { spanned } from '../core/telemetry/tracing.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { HandlerCode } from '../outbox/runs/handler.runner.js';
import { Admission } from './admission.js';
import { unavailable } from './claim-faults.js';
import { deliveryFacts, incomingEvents, type IncomingEvent, type VerifiedDelivery } from './delivery.js';
import { DeliveryRuns, type RunOne } from './delivery-runs.js';
import { RelayClaims } from './relay-claims.js';
import { inTime, worst, type Verdict } from './verdict.js';

/** Claims the events of a verified delivery with what is owed for them, and says what the answer may be. */
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
   * Never throws for what the database or a handler does: that is a verdict.
   * @throws EventIdUnusable, SignatureRejection (a stale delivery of an unknown event)
   */
  dispatch(delivery: VerifiedDelivery): Promise<Verdict> {
    return this.told(delivery, () => this.decide(delivery, this.runs.of(delivery.source)));
  }

  /** As `dispatch`, with the code of an application's own route as the only handler: inline, retried by the provider. */
  dispatchRoute(delivery: VerifiedDelivery, name: string, code: HandlerCode): Promise<Verdict> {
    const runOne = this.runs.ofRoute(delivery.source, name, code);
    return this.told(delivery, () => this.decide(delivery, runOne, name));
  }

  /** @param route the name of an application's own route, which is owed what it cannot be given */
  private async decide(
    delivery: VerifiedDelivery,
    runOne: RunOne | undefined,
    route?: string,
  ): Promise<Verdict> {
    const { source, request } = delivery;
    const events = incomingEvents(delivery);
    // Work that goes on after its answer has the bytes: while a pool gives no connection, they pile up.
    const inClaimTime = <T>(work: Promise<T>) => inTime(during(request, work), this.options.claimTimeoutMs);
    try {
      if (delivery.stale) {
        const late = await inClaimTime(this.admission.refuseStale(delivery, events));
        if (late !== undefined) return late;
      }
      if (events.length === 0) return { kind: 'ok' };
      const verdicts: Verdict[] = [];
      let rest: readonly IncomingEvent[] = events;
      if (this.options.maxPending !== false) {
        const admitted = await inClaimTime(this.admission.admitted(events));
        if ('kind' in admitted) return admitted;
        if (admitted.length < events.length) verdicts.push(tooMuchPending(this.options.maxPending));
        rest = admitted;
      }
      if (runOne !== undefined) {
        const { ran, left } = await this.runs.run(delivery, rest, runOne);
        verdicts.push(...ran);
        rest = left;
      }
      if (rest.length > 0) verdicts.push(await inClaimTime(this.claims.claim(source, rest, route)));
      return worst(verdicts);
    } catch (error) {
      if (error instanceof EventIdUnusable || error instanceof SignatureRejection) throw error;
      return unavailable(error);
    }
  }

  /** Counts and traces the delivery, and says why it was answered 503. */
  private async told(delivery: VerifiedDelivery, decide: () => Promise<Verdict>): Promise<Verdict> {
    const { source, verifiedBy } = delivery;
    const startedAt = performance.now();
    this.tally.received(source.name, verifiedBy);
    const attributes = { 'messaging.system': 'webhook_inbox', 'webhook_inbox.source': source.name };
    const options = { kind: SpanKind.PRODUCER, attributes };
    const verdict = await spanned(`deliver ${source.name}`, options, async (span) => {
      const decided = await decide();
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
}

function tooMuchPending(maxPending: number): Verdict {
  return { kind: 'unavailable', why: `at least ${maxPending} rows are pending` };
}
