import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { MAX_TIMER_MS } from '../../core/options/duration.js';
import { logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import { Outage } from '../../core/log/outage.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { storeErrorText } from '../../storage/postgres/store-error.js';
import { HostTimers } from '../host-timers.js';
import { namesToRunAgain, type StartedJob } from './job.js';
import { LeasedWork } from './leased-work.js';
import { Leaser } from './leaser.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';

const TIMER = 'webhook-inbox:relay';

/** The relay's timer: a round, then the next one when a commit wakes it, when a run ends, or after the poll interval. */
@Injectable()
export class RelayLoop {
  private readonly logger = new InboxLogger();
  private state: 'idle' | 'running' | 'stopped' = 'stopped';
  private again = false;
  private held = 0;
  /** Time of the last poll for all names. */
  private polledAt = -Infinity;
  /** When a round last read the outbox. */
  private readAt = performance.now();
  private readonly outage = new Outage();
  private renewal: NodeJS.Timeout | undefined;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly leaser: Leaser,
    private readonly work: LeasedWork,
    private readonly timers: HostTimers,
    private readonly wakeUp: WakeUp,
  ) {}

  start(): void {
    if (this.options.relay === false || this.state !== 'stopped') return;
    this.state = 'idle';
    this.wakeUp.onWake((names) => this.wake(names));
    const everyMs = Math.min(this.options.relay.leaseMs / 3, MAX_TIMER_MS);
    this.renewal = setInterval(() => void this.work.renew(), everyMs);
    this.requestRound();
  }

  /** Whether it makes rounds of its own right now. */
  get isRunning(): boolean {
    return this.state !== 'stopped' && this.held === 0;
  }

  /** Milliseconds since a round could last read the outbox. Readiness probes use it. */
  get silentMs(): number {
    return performance.now() - this.readAt;
  }

  /**
   * The end of a run frees a slot. It brings new work only when its row must run again.
   * @param again names of the rows that must run again
   */
  runEnded(again: readonly string[]): void {
    if (again.length > 0) this.leaser.wake(again);
    this.requestRound(false);
  }

  /** No rounds of its own while `work` goes on, which may ask the relay for its own. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    this.held += 1;
    try {
      return await work();
    } finally {
      this.held -= 1;
      this.requestRound();
    }
  }

  /** No more rounds. Running jobs go on, and their leases are still renewed. */
  stopLeasing(): void {
    this.work.stopLeasing();
    this.wakeUp.onWake(undefined);
    this.timers.cancel(TIMER);
    this.state = 'stopped';
  }

  /** Waits for running work, within the grace. */
  async finish(): Promise<void> {
    if (this.options.relay !== false) await this.work.finish(this.options.relay.graceMs);
    clearInterval(this.renewal);
  }

  private wake(names: WokenNames): void {
    this.leaser.wake(names);
    this.requestRound(false);
  }

  // Never two rounds at once: a wake during one only asks for another after it.
  private requestRound(everywhere = true): void {
    this.again = true;
    if (everywhere) this.leaser.wake(undefined);
    if (this.state !== 'idle' || this.held > 0) return;
    this.state = 'running';
    this.timers.cancel(TIMER);
    void neutral(() => this.makeRounds());
  }

  private async makeRounds(): Promise<void> {
    const { pollMs } = this.options.relay as { pollMs: number };
    try {
      while (this.again && this.held === 0 && this.state === 'running') {
        this.again = false;
        // However busy the process is, only this poll finds rows that no commit announces.
        if (performance.now() - this.polledAt >= pollMs) {
          this.leaser.wake(undefined);
          this.polledAt = performance.now();
        }
        let any = false;
        const onStart = (job: StartedJob) => {
          any = true;
          void job.ended.then((outcomes) => this.runEnded(namesToRunAgain(job, outcomes)));
        };
        await this.leaser.lease(true, { onStart });
        // There may be more that is due.
        this.again ||= any;
        this.readAt = performance.now();
        const over = this.outage.recordSuccess();
        if (over !== undefined) this.logger.log(logLine('the outbox can be read again', over));
      }
    } catch (error) {
      if (this.outage.recordFailure())
        this.logger.error(
          logLine(`the outbox could not be read: ${storeErrorText(error)}`, { retried: `each ${pollMs} ms` }),
        );
    }
    if (this.state !== 'running') return;
    this.state = 'idle';
    this.timers.schedule(TIMER, pollMs, () => this.requestRound());
    // A wake that came during a round that failed has asked for this one, and nothing else will.
    if (this.again) this.requestRound(false);
  }
}
