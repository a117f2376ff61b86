import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger, isHeard } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { WebhookLifecycle } from '../core/telemetry/lifecycle-events.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { HandOff, type Offer } from '../outbox/relay/hand-off.js';
import { FailureSettler } from '../outbox/runs/failure.settler.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Claimer, type Claim, type ClaimedDelivery } from './claimer.js';
import type { IncomingEvent } from './delivery.js';
import { GroupCommit, TooMuchWaits } from './group-commit.js';
import { isOneEventsFault, unlessOneEventsFault, worst, type Verdict } from './answers.js';

/** A claim to be made, with the slots kept for those of its rows that run here at once. */
interface Offered extends Claim {
  readonly offer: Offer;
}

/** Claims events for the relay: claim and rows are committed, often with those of other deliveries, and the relay does the rest. */
@Injectable()
export class RelayClaims {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly claimer: Claimer,
    private readonly group: GroupCommit,
    private readonly handOff: HandOff,
    private readonly failures: FailureSettler,
    private readonly wakeUp: WakeUp,
    private readonly lifecycle: WebhookLifecycle,
    private readonly tally: Tally,
  ) {}

  /** @param route the name of an application's own route, which is owed what it cannot be given */
  async claim(source: Source, events: readonly IncomingEvent[], route?: string): Promise<Verdict> {
    const claims = events.map((event) => this.offer(event, route));
    let claimed: ClaimedDelivery;
    try {
      claimed = await this.group.claim({ source, claims });
    } catch (error) {
      const sent = !(error instanceof TooMuchWaits);
      for (const { offer } of claims) this.handOff[sent ? 'recover' : 'drop'](offer);
      return this.claimEach(source, events, error, route);
    }
    const { arrivals, woken, othersNotified } = claimed;
    // First of all, since code of the application, such as its logger, may throw. No other process runs the leased rows.
    for (const [index, { offer }] of claims.entries()) this.handOff.startRuns(offer, arrivals[index]);
    this.wakeUp.wake(woken, othersNotified);
    for (const [index, claim] of claims.entries()) {
      if (arrivals[index] === undefined) this.reportDuplicate(claim.event);
      else this.reportClaimed(claim);
    }
    return { kind: arrivals.some((arrival) => arrival !== undefined) ? 'ok' : 'duplicate' };
  }

  /** Waits for the claims of deliveries that have been answered. */
  finish(): Promise<void> {
    return this.group.finish();
  }

  private offer(event: IncomingEvent, route: string | undefined): Offered {
    const names = this.registry.match(event.source, event.type).map(({ name }) => name);
    // An event without an id of its own is not run by its route either.
    if (event.unusable !== undefined && route !== undefined) names.push(route);
    const rows = names.map((name) => this.claimer.rowFor(event, name));
    const offer = event.unusable === undefined ? this.handOff.offer(event, rows) : { rows, slots: [] };
    return { event, rows: offer.rows, offer };
  }

  /** After all together have failed by the fault of one of them, which must not keep the others out. */
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
    for (const event of events)
      verdicts.push(await unlessOneEventsFault(() => this.claim(source, [event], route)));
    return worst(verdicts);
  }

  private reportClaimed({ event, rows }: Claim): void {
    const { source, tenant, eventId, type, id, unusable } = event;
    if (unusable !== undefined) this.reportUnusable(event, unusable, rows);
    this.lifecycle.emit('claimed', () => ({ source, tenant, eventId, type, id, handlers: rows.length }));
    // The line is only made where it is logged: at thousands of events a second it costs time.
    if (isHeard('log'))
      this.logger.log(logLine('claimed', { source, tenant, event: eventId, type, id, rows: rows.length }));
  }

  private reportDuplicate(event: IncomingEvent): void {
    const { source, tenant, eventId, type } = event;
    this.tally.countDuplicate(event);
    this.lifecycle.emit('duplicate', () => ({ source, tenant, eventId, type }));
    if (isHeard('log')) this.logger.log(logLine('duplicate', { source, tenant, event: eventId, type }));
  }

  /** An item of a batch without a usable id. Its rows are dead, and raise the alert of dead rows. */
  private reportUnusable(event: IncomingEvent, error: string, rows: Claim['rows']): void {
    const { source, tenant, eventId } = event;
    const text = `an item of a batch has no usable event id, and is not run: ${error}`;
    this.logger.warn(logLine(text, { source, tenant, event: eventId }));
    const reason = 'unusable-id';
    this.failures.reportExhausted(
      rows.map(({ id, name }) => ({ id, name, attempt: 0, reason, error, event })),
    );
  }
}
