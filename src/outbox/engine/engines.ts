import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { Outage } from '../../core/log/outage.js';
import type { EffectTransport, Subscription } from '../../core/options/effect-transport.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { endsWithin, sleep } from '../../core/time/waits.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { EngineStore } from '../../storage/engine/engine.store.js';
import { HostTimers } from '../host-timers.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { WakeUp } from '../wake/wake-up.js';
import { EngineReports } from './engine-reports.js';

const TIMER = 'webhook-inbox:unheard';
const MAX_EVERY_MS = 30_000;
const MAX_ROWS = 500;
const AGAIN_MS = [200, 1_000, 5_000, 15_000];
/** For a shutdown: an engine that does not answer is not waited for. */
const CLOSE_MS = 2_000;

/** Takes the reports of the engines, and takes back effects that were not reported in their time. */
@Injectable()
export class Engines {
  private readonly logger = new InboxLogger();
  private readonly subscriptions = new Set<Subscription>();
  private readonly stopped = new AbortController();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly reports: EngineReports,
    private readonly store: EngineStore,
    private readonly statements: LoneStatements,
    private readonly alerts: Alerts,
    private readonly timers: HostTimers,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Of a process with a relay. */
  start(): void {
    if (this.options.relay === false) return;
    for (const transport of this.transports) void this.subscribe(transport);
    this.lookAgain();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await Promise.all([...this.subscriptions].map((one) => one.close(CLOSE_MS)));
  }

  /** After the last message was published. */
  async close(): Promise<void> {
    const closing = [...this.transports].map((transport) => endsWithin(transport.close(), CLOSE_MS));
    for (const ended of await Promise.allSettled(closing)) {
      if (ended.status === 'rejected')
        this.logger.warn(logLine(`an engine's connections were not closed: ${errorText(ended.reason)}`, {}));
    }
  }

  /** Has rows handed over again whose time for a report has passed, under the same ids. Returns how many. */
  async takeBackUnheard(): Promise<number> {
    const rows = new Map<string, number>();
    for (let found = MAX_ROWS; found === MAX_ROWS;) {
      const names = await this.statements.send((manager) => this.store.takeBackUnheard(manager, MAX_ROWS));
      found = 0;
      for (const { name, rows: count } of names) {
        rows.set(name, (rows.get(name) ?? 0) + count);
        found += count;
      }
    }
    for (const [name, count] of rows) this.alerts.raise({ kind: 'unheard', name, rows: count });
    if (rows.size > 0) this.wakeUp.wake([...rows.keys()]);
    return [...rows.values()].reduce((sum, count) => sum + count, 0);
  }

  private get transports(): ReadonlySet<EffectTransport> {
    return new Set(this.options.transports.map(({ transport }) => transport));
  }

  private async subscribe(transport: EffectTransport): Promise<void> {
    const { signal } = this.stopped;
    const outage = new Outage();
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        const subscription = await transport.onReports((report) => this.reports.record(report));
        if (signal.aborted) await subscription.close(0);
        else this.subscriptions.add(subscription);
        return;
      } catch (error) {
        if (outage.recordFailure())
          this.logger.warn(logLine(`reports of ${transport.name} are not taken: ${errorText(error)}`, {}));
        await sleep(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]!, signal);
      }
    }
  }

  private async lookForUnheard(): Promise<void> {
    try {
      await this.takeBackUnheard();
    } catch (error) {
      this.logger.warn(logLine(`effects of engines could not be looked through: ${errorText(error)}`, {}));
    }
    if (!this.stopped.signal.aborted) this.lookAgain();
  }

  /** Not at once at the start: after an outage of all relays, the reports that have waited are read first. */
  private lookAgain(): void {
    const shortest = Math.min(...this.options.transports.map(({ unheardMs }) => unheardMs));
    const everyMs = Math.min(MAX_EVERY_MS, Math.max(shortest / 4, 250));
    this.timers.schedule(TIMER, everyMs, () => void this.lookForUnheard());
  }
}
