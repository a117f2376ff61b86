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
import { namesToRunAgain } from './job.js';
import { Rounds } from './rounds.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';

const TIMER = 'webhook-inbox:relay';

/** The relay's timer: a round, then the next one when a commit wakes it, when a run ends, or after the poll interval. */
@Injectable()
export class RelayLoop {
  private readonly logger = new InboxLogger();
  private state: 'idle' | 'turning' | 'stopped' = 'stopped';
  private again = false;
  private held = 0;
  /** When a round last looked everywhere. */
  private lookedAt = -Infinity;
  /** When a round last read the outbox. */
  private readAt = performance.now();
  private readonly outage = new Outage();
  private renewal: NodeJS.Timeout | undefined;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly rounds: Rounds,
    private readonly timers: HostTimers,
    private readonly wakeUp: WakeUp,
  ) {}

  start(): void {
    if (this.options.relay === false || this.state !== 'stopped') return;
    this.state = 'idle';
    this.wakeUp.onWake((names) => this.wake(names));
    const everyMs = Math.min(this.options.relay.leaseMs / 3, MAX_TIMER_MS);
    this.renewal = setInterval(() => void this.rounds.renew(), everyMs);
    this.turn();
  }

  /** Whether it makes rounds of its own right now. */
  get turns(): boolean {
    return this.state !== 'stopped' && this.held === 0;
  }

  /** How long ago a round could last read the outbox, in milliseconds: what a probe of readiness asks. */
  get silentMs(): number {
    return performance.now() - this.readAt;
  }

  /**
   * The end of a run frees a place; it brings work that no commit has told of only when it is to be tried again.
   * @param again names of what it left to be run again
   */
  runEnded(again: readonly string[]): void {
    if (again.length > 0) this.rounds.wake(again);
    this.turn(false);
  }

  /** No rounds of its own while `work` goes on, which may ask the relay for its own. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    this.held += 1;
    try {
      return await work();
    } finally {
      this.held -= 1;
      this.turn();
    }
  }

  /** No more rounds; what runs goes on and its leases are still renewed. */
  stopLeasing(): void {
    this.rounds.stopLeasing();
    this.wakeUp.onWake(undefined);
    this.timers.cancel(TIMER);
    this.state = 'stopped';
  }

  /** Waits for what runs, within the grace. */
  async finish(): Promise<void> {
    if (this.options.relay !== false) await this.rounds.finish(this.options.relay.graceMs);
    clearInterval(this.renewal);
  }

  private wake(names: WokenNames): void {
    this.rounds.wake(names);
    this.turn(false);
  }

  // Never two rounds at once: a wake during one only asks for another after it.
  private turn(everywhere = true): void {
    this.again = true;
    if (everywhere) this.rounds.wake(undefined);
    if (this.state !== 'idle' || this.held > 0) return;
    this.state = 'turning';
    this.timers.cancel(TIMER);
    void neutral(() => this.makeRounds());
  }

  private async makeRounds(): Promise<void> {
    const { pollMs } = this.options.relay as { pollMs: number };
    try {
      while (this.again && this.held === 0 && this.state === 'turning') {
        this.again = false;
        // However busy the process is: what no commit tells of is found by this alone.
        if (performance.now() - this.lookedAt >= pollMs) {
          this.rounds.wake(undefined);
          this.lookedAt = performance.now();
        }
        let any = false;
        await this.rounds.start(true, (job) => {
          any = true;
          void job.ended.then((outcomes) => this.runEnded(namesToRunAgain(job, outcomes)));
        });
        // There may be more that is due.
        this.again ||= any;
        this.readAt = performance.now();
        const over = this.outage.ended();
        if (over !== undefined) this.logger.log(logLine('the outbox can be read again', over));
      }
    } catch (error) {
      if (this.outage.failed())
        this.logger.error(
          logLine(`the outbox could not be read: ${storeErrorText(error)}`, { retried: `each ${pollMs} ms` }),
        );
    }
    if (this.state !== 'turning') return;
    this.state = 'idle';
    this.timers.after(TIMER, pollMs, () => this.turn());
    // A wake that came during a round that failed has asked for this one, and nothing else will.
    if (this.again) this.turn(false);
  }
}
