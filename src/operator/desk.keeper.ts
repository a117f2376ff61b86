import {
  Inject,
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { endsWithin } from '../core/time/waits.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { HostTimers } from '../outbox/host-timers.js';
import { DeadLetters } from '../outbox/runs/dead-letters.js';
import { UnreportedDeaths } from '../outbox/runs/unreported-deaths.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { onConnection } from '../storage/postgres/connection.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import { DeskChores } from './desk-chores.js';
import { DeskWriter } from './desk-writer.js';
import { RejectionExplainer } from './explain/rejection.explainer.js';
import { FormerSources } from './former-sources.js';
import { SignOfLife } from './sign-of-life.js';

const TIMER = 'webhook-inbox:desk';
const ROUND_MS = 5_000;
/** For a shutdown: a database that does not answer is not waited for. */
const END_MS = 5_000;
/** Explaining may take its time. */
const EXPLAIN_MS = 30_000;

/**
 * Makes a round every few seconds, outside of any request. It writes this process's counts and alerts, gives a sign of life, and explains
 * samples of rejections. One process at a time also measures the backlog and prunes.
 */
@Injectable()
export class DeskKeeper implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown {
  private readonly logger = new InboxLogger();
  private failing = false;
  private reportedFormer = false;
  private state: 'idle' | 'started' | 'stopped' = 'idle';
  private running: Promise<void> = Promise.resolve();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly writer: DeskWriter,
    private readonly sign: SignOfLife,
    private readonly chores: DeskChores,
    private readonly explainer: RejectionExplainer,
    private readonly former: FormerSources,
    private readonly reads: BoundedRead,
    private readonly deadLetters: DeadLetters,
    private readonly unreported: UnreportedDeaths,
    private readonly timers: HostTimers,
  ) {}

  onApplicationBootstrap(): void {
    this.state = 'started';
    this.timers.schedule(TIMER, 0, () => this.scheduleRound());
  }

  onModuleDestroy(): void {
    this.timers.cancel(TIMER);
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.state !== 'started') return;
    this.state = 'stopped';
    this.timers.cancel(TIMER);
    // Counts are no reason to keep a process: a database that does not answer is not waited for.
    await endsWithin(this.running, END_MS);
    const leaving = this.quietly(async () => {
      await this.unreported.report();
      await this.flush();
      await this.sign.end();
    });
    await endsWithin(leaving, END_MS);
  }

  /** One round: everything counted since the last is written down. Tests call it; the timer does in production. */
  async round(): Promise<void> {
    // One at a time: a second one would return before what the first has drained is written down.
    const round = this.running.catch(() => undefined).then(() => this.roundNow());
    this.running = round.catch(() => undefined);
    return round;
  }

  private async roundNow(): Promise<void> {
    await this.flush();
    await this.unreported.report();
    if (!this.reportedFormer) {
      this.reportedFormer = true;
      await this.reads.run((bounded) => this.former.report(bounded));
    }
    if (!(await this.chores.measureIfOurs())) return this.deadLetters.recheck();
    // Rows that died where the process did not live to count them, or that a person has cleared.
    await this.deadLetters.check();
    await this.chores.pruneAtTimes();
  }

  private async flush(): Promise<void> {
    await this.writer.flush();
    await this.sign.give();
    await onConnection(this.dataSource, (manager) => this.explainer.explain(manager), EXPLAIN_MS);
  }

  private scheduleRound(): void {
    void this.quietly(() => this.round()).then(() => {
      if (this.state === 'started') this.timers.schedule(TIMER, ROUND_MS, () => this.scheduleRound());
    });
  }

  private async quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.failing = false;
    } catch (error) {
      // Once, until it works again: an application without the desk's tables should not log this every five seconds.
      if (!this.failing)
        this.logger.warn(logLine(`counts could not be written down: ${storeErrorText(error)}`, {}));
      this.failing = true;
    }
  }
}
