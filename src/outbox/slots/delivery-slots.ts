import { Injectable } from '@nestjs/common';
import { WebhookInboxError } from '../../core/errors.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { Deadline } from '../runs/deadline.js';
import type { Occupant } from '../relay/job.js';
import { JobRunner } from '../relay/job.runner.js';
import { WakeUp } from '../wake/wake-up.js';

/** A run of a delivery got no slot in time. None of its code has run. */
export class NoSlot extends WebhookInboxError {
  constructor(name: string) {
    super(
      'TIMED_OUT',
      `no slot was free for ${name} within half of the ackTimeout; raise relay.handlers and the pool, or make its handlers quicker`,
    );
  }
}

/** Of its ackTimeout: how long a run waits for a slot. One that began later would be cut short, and each time cost an attempt. */
const WAIT_SHARE = 0.5;

/**
 * Runs what deliveries run themselves (`inline`, `retries: 'provider'`, `@UseWebhook`) in the same slots as the relay's rows. Each
 * run holds a connection: without a slot, a dozen slow ones would hold the connections that claims need.
 */
@Injectable()
export class DeliverySlots {
  constructor(
    private readonly runner: JobRunner,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * @param run gets how many milliseconds are left
   * @throws NoSlot when none is free in time
   */
  async run<T>(
    work: Pick<Handler, 'name' | 'source'>,
    ackTimeoutMs: number,
    run: (leftMs: number) => Promise<T>,
  ): Promise<T> {
    const endsAt = performance.now() + ackTimeoutMs;
    const slot = await this.waitForSlot(work, ackTimeoutMs * WAIT_SHARE);
    if (slot === undefined) throw new NoSlot(work.name);
    try {
      return await run(Math.ceil(Math.max(1, endsAt - performance.now())));
    } finally {
      this.runner.freeSlot(slot);
      // The relay may have rows for the slot.
      this.wakeUp.wakeOwn([]);
    }
  }

  private async waitForSlot(
    work: Pick<Handler, 'name' | 'source'>,
    waitMs: number,
  ): Promise<Occupant | undefined> {
    const late = new Deadline(work.name, waitMs);
    try {
      return await this.runner.waitForSlot(work, late.signal);
    } finally {
      late.end();
    }
  }
}
