import { setTimeout as sleep } from 'node:timers/promises';
import { post } from '../../../examples/sender/post.js';
import { awardee, stripeEvent, type SignedRequest } from '../../support/signing.js';
import type { Log, Sent } from './log.js';
import type { PlannedEvent } from './plan.js';

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 4_000;
/** Hours of a provider's retries, compressed. */
const ATTEMPTS = 120;
const AGAIN_AFTER_MS = 1_500;

/** A receiver, as its provider sees it. */
export interface Target {
  readonly name: string;
  readonly origin: string;
}

/** Sends events as providers do: until they are acknowledged, sometimes several times at once, sometimes once more. */
export class Provider {
  sent = 0;
  acknowledged = 0;
  private readonly underWay = new Set<Promise<void>>();

  constructor(
    private readonly events: { readonly length: number; at(n: number): PlannedEvent | undefined },
    /** Who gets the next request, as a balancer has it that finds out late who is up. */
    private readonly next: () => Target,
    private readonly log: Pick<Log<Sent>, 'write'>,
  ) {}

  /** Events that are released and not acknowledged yet. */
  get open(): number {
    return this.sent - this.acknowledged;
  }

  get left(): number {
    return this.events.length - this.sent;
  }

  /** Starts to deliver the next events, up to so many in all. */
  release(upTo: number): void {
    while (this.sent < Math.min(upTo, this.events.length)) {
      const event = this.events.at(this.sent)!;
      this.sent += 1;
      const delivered = this.deliver(event).finally(() => this.underWay.delete(delivered));
      this.underWay.add(delivered);
    }
  }

  /** Resolves when every event that was released is acknowledged, or given up. */
  async finished(): Promise<void> {
    while (this.underWay.size > 0) await Promise.all(this.underWay);
  }

  private async deliver(event: PlannedEvent): Promise<void> {
    await Promise.all(Array.from({ length: event.copies }, () => this.untilAcknowledged(event)));
    this.acknowledged += 1;
    if (!event.again) return;
    await sleep(AGAIN_AFTER_MS);
    await this.untilAcknowledged(event);
  }

  private async untilAcknowledged(event: PlannedEvent): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const status = await this.send(event, this.next());
      if (status >= 200 && status < 300) return;
      const ceiling = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10));
      await sleep(ceiling / 2 + Math.random() * (ceiling / 2));
    }
  }

  private async send(event: PlannedEvent, { name, origin }: Target): Promise<number> {
    const { source, id } = event;
    const path = source === 'routed' ? '/hooks/routed' : `/webhooks/${source}`;
    const { headers, body } = signed(event);
    const at = performance.now();
    const answer = await post(`${origin}${path}`, headers, body).catch(() => ({ status: 0, body: '' }));
    const ms = Math.round(performance.now() - at);
    this.log.write({ source, id, ...answer, at: Math.round(at), ms, to: name });
    return answer.status;
  }
}

/** Stripe signs the time of each attempt, others nothing but the body. */
function signed({ source, id, resource }: PlannedEvent): SignedRequest {
  return source === 'timed'
    ? stripeEvent(id, 'happened', { resource })
    : awardee(id, 'happened', { id, resource });
}
