import { Injectable } from '@nestjs/common';
import { WebhookInboxError } from '../../core/errors.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { Deadline } from '../runs/deadline.js';
import type { Occupant } from './job.js';
import { JobRunner } from './job.runner.js';
import { WakeUp } from '../wake/wake-up.js';

/** A run that a delivery was to wait for had no place in time. Nothing of it has begun. */
export class NoPlace extends WebhookInboxError {
  constructor(name: string) {
    super(
      'TIMED_OUT',
      `no slot was free for ${name} within half of the ackTimeout; raise relay.handlers and the pool, or make its handlers quicker`,
    );
  }
}

/** Of its ackTimeout: how long a run waits for a place. One that began later would be cut short, and each time cost an attempt. */
const WAIT_SHARE = 0.5;

/**
 * Runs what deliveries run themselves (`inline`, `retries: 'provider'`, `@UseWebhook`) in the same places as the relay's rows. Each
 * run holds a connection: without a place, a dozen slow ones would hold the connections that claims need.
 */
@Injectable()
export class DeliveryPlaces {
  constructor(
    private readonly runner: JobRunner,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * @param run gets how many milliseconds are left
   * @throws NoPlace when none is free in time
   */
  async run<T>(
    work: Pick<Handler, 'name' | 'source'>,
    ackTimeoutMs: number,
    run: (leftMs: number) => Promise<T>,
  ): Promise<T> {
    const endsAt = performance.now() + ackTimeoutMs;
    const place = await this.place(work, ackTimeoutMs * WAIT_SHARE);
    if (place === undefined) throw new NoPlace(work.name);
    try {
      return await run(Math.ceil(Math.max(1, endsAt - performance.now())));
    } finally {
      this.runner.letGo(place);
      // The relay may have rows for the place.
      this.wakeUp.wakeOwn([]);
    }
  }

  private async place(work: Pick<Handler, 'name' | 'source'>, waitMs: number): Promise<Occupant | undefined> {
    const late = new Deadline(work.name, waitMs);
    try {
      return await this.runner.placeFor(work, late.signal);
    } finally {
      late.end();
    }
  }
}
