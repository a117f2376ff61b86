import type { Delivery } from './plan.js';
import type { SentEvent } from './sent.event.js';

/** What came back. */
export class Tally {
  deliveries = 0;
  ok = 0;
  duplicates = 0;
  /** Refused as they should be, by what was wrong with them. */
  readonly rejected = { tampered: 0, stale: 0 };
  /** Not answered, or told to come back; sent again. */
  postponed = 0;
  /** Answers that should not be: a refused genuine delivery, a forgery that was believed. */
  readonly unexpected = new Map<string, number>();
  readonly acknowledged = new Set<SentEvent>();
  /** Milliseconds until a genuine delivery was acknowledged. */
  readonly ackMs: number[] = [];

  /** @returns false when the delivery has to be sent again */
  add({ event, kind }: Delivery, status: number, body: string, ms: number): boolean {
    this.deliveries += 1;
    if (status === 503 || status === 0) {
      this.postponed += 1;
      return false;
    }
    if (kind !== 'genuine' && status === 401) {
      this.rejected[kind] += 1;
    } else if (kind === 'genuine' && status === 200) {
      if (body.includes('"duplicate"')) this.duplicates += 1;
      else this.ok += 1;
      this.acknowledged.add(event);
      this.ackMs.push(ms);
    } else {
      const what = `${kind} ${event.source} answered ${status} ${body.slice(0, 80)}`;
      this.unexpected.set(what, (this.unexpected.get(what) ?? 0) + 1);
    }
    return true;
  }
}
