import { Injectable } from '@nestjs/common';
import type { StartedJob } from './job.js';
import { Leaser } from './leaser.js';
import { add, report, type TickReport } from './tick-report.js';

/**
 * Runs what the outbox owes: handlers, and the external side effects that they enqueued. One row's life:
 *
 * 1. It is leased: `Leaser` marks due rows as this instance's for a time, in one statement.
 * 2. It gets a slot: `JobRunner` runs as many at once as the pool and the limits of its name allow.
 * 3. It runs: `HandlerRunner` in a transaction, `EffectRunner` outside of any, under the row's id as the key of the effect.
 * 4. It is settled behind a fence, which refuses a run whose lease was lost: done, or by `FailureSettler` due again, dead or parked.
 *
 * `RelayLoop` makes rounds by itself. A serverless function, a cron or a test makes its own here.
 */
@Injectable()
export class OutboxRelay {
  constructor(private readonly leaser: Leaser) {}

  /**
   * Makes one round: leases due rows for which there are slots, runs them to their end, and reports how the runs ended. Effects that a
   * handler of this round enqueues wait for the next round.
   * @throws when the outbox could not be read; runs that had started have ended by then
   */
  async tick(): Promise<TickReport> {
    this.leaser.wake(undefined);
    const ends: StartedJob['ended'][] = [];
    try {
      await this.leaser.leaseTogether((job) => ends.push(job.ended));
    } finally {
      await Promise.all(ends);
    }
    const outcomes = await Promise.all(ends);
    return report(outcomes.flatMap((one) => [...one.values()]));
  }

  /** Rounds until nothing is due or `maxMs` milliseconds have passed: for serverless functions and crons. */
  async drain({ maxMs }: { readonly maxMs: number }): Promise<TickReport> {
    const end = performance.now() + maxMs;
    let total = report([]);
    for (;;) {
      const one = await this.tick();
      total = add(total, one);
      if (one.leased === 0 || performance.now() >= end) return total;
    }
  }
}
