import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CronJob } from 'cron';
import { MAX_TIMER_MS } from '../core/options/duration.js';
import { ConfigurationError } from '../core/errors.js';
import { neutral } from '../core/neutral.js';

/** Timers and crons on the host's own SchedulerRegistry, so that an operator sees them beside the application's. */
@Injectable()
export class HostTimers {
  private registry: SchedulerRegistry | undefined;
  private readonly timeouts = new Set<string>();
  private readonly crons = new Set<string>();
  private isOver = false;

  constructor(private readonly moduleRef: ModuleRef) {}

  /** @throws ConfigurationError when the application has no ScheduleModule */
  connect(): void {
    try {
      this.registry = this.moduleRef.get(SchedulerRegistry, { strict: false });
    } catch (error) {
      throw new ConfigurationError(
        `WebhooksModule needs the application's scheduler: expected ScheduleModule.forRoot() among the imports of the root module, ` +
          `found none. This package does not import it: a second one would fire every cron of the application twice.`,
        { cause: error },
      );
    }
  }

  /** Runs `work` once after `ms` milliseconds; replaces the timer of that name. After `cancelAll` nothing runs any more. */
  schedule(name: string, ms: number, work: () => void, { keepsAlive = true } = {}): void {
    if (this.isOver) return;
    this.cancel(name);
    const fire = () => {
      this.cancel(name);
      work();
    };
    const timer = neutral(() => setTimeout(fire, Math.min(ms, MAX_TIMER_MS)));
    if (!keepsAlive) timer.unref();
    this.registry!.addTimeout(name, timer);
    this.timeouts.add(name);
  }

  /** @throws ConfigurationError when the expression is no cron expression */
  scheduleCron(name: string, expression: string, work: () => void): void {
    let job: CronJob;
    try {
      const onTick = () => neutral(work);
      job = CronJob.from({ cronTime: expression, onTick, start: true, waitForCompletion: true });
    } catch (error) {
      throw new ConfigurationError(`${name}: expected a cron expression, received '${expression}'`, {
        cause: error,
      });
    }
    // The registry's own CronJob may come from another copy of the same package; it only needs start and stop.
    this.registry!.addCronJob(name, job);
    this.crons.add(name);
  }

  cancel(name: string): void {
    if (this.timeouts.delete(name) && this.registry!.doesExist('timeout', name))
      this.registry!.deleteTimeout(name);
  }

  cancelAll(): void {
    this.isOver = true;
    for (const name of this.timeouts) this.cancel(name);
    for (const name of this.crons) {
      if (this.registry!.doesExist('cron', name)) this.registry!.deleteCronJob(name);
    }
    this.crons.clear();
  }
}
