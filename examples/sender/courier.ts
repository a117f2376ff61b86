import { setTimeout as sleep } from 'node:timers/promises';
import type { Delivery } from './plan.js';
import { post } from './post.js';
import { signed } from './signatures.js';
import type { Tally } from './tally.js';

/** Deliveries under way at once. */
const CONCURRENCY = 32;
const ATTEMPTS = 20;
const PAUSE_MS = 250;
const STALE_MS = 15 * 60_000;

/** Delivers as providers do: many at once, and again after a while where the receiver asks for it. */
export class Courier {
  constructor(
    private readonly origin: string,
    private readonly tally: Tally,
  ) {}

  async deliverAll(deliveries: readonly Delivery[]): Promise<void> {
    const waiting = deliveries.values();
    const lane = async () => {
      for (const delivery of waiting) await this.deliver(delivery);
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, lane));
  }

  private async deliver(delivery: Delivery): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      if (await this.attempt(delivery)) return;
      await sleep(PAUSE_MS * attempt);
    }
  }

  private async attempt(delivery: Delivery): Promise<boolean> {
    const { event, kind } = delivery;
    const headers = signed(event, new Date(kind === 'stale' ? Date.now() - STALE_MS : Date.now()));
    // One blank more: the JSON says the same, and only a receiver that verifies the very bytes notices.
    const body = kind === 'tampered' ? Buffer.concat([event.body, Buffer.from(' ')]) : event.body;
    const startedAt = performance.now();
    try {
      const answer = await post(`${this.origin}/webhooks/${event.source}`, headers, body);
      return this.tally.add(delivery, answer.status, answer.body, performance.now() - startedAt);
    } catch {
      return this.tally.add(delivery, 0, '', 0);
    }
  }
}
