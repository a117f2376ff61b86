import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Decider } from '../../core/decider.js';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { knownSource } from '../../core/options/known-source.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { BackfillExplorer, GRACE_MS } from '../../handlers/backfill.explorer.js';
import { HostTimers } from '../../outbox/host-timers.js';
import { Audit } from '../../storage/desk/audit.js';
import { NamedLeaseStore } from '../../storage/named-lease.store.js';
import { Backfills, type BackfillReport } from './backfills.js';

const DEFAULT_LOOKBACK_MS = 2 * 3_600_000;

/** Claims what a provider's list has and no webhook has brought: at intervals, by one instance at a time, or when a person asks. */
@Injectable()
export class GapFinder {
  private readonly logger = new InboxLogger();
  private readonly stopping = new AbortController();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly explorer: BackfillExplorer,
    private readonly backfills: Backfills,
    private readonly leases: NamedLeaseStore,
    private readonly instance: Instance,
    private readonly timers: HostTimers,
    private readonly alerts: Alerts,
    private readonly audit: Audit,
  ) {}

  start(): void {
    for (const { source, everyMs } of this.explorer.scheduled()) this.scheduleNext(source, everyMs);
  }

  stop(): void {
    this.stopping.abort();
  }

  private scheduleNext(source: string, everyMs: number): void {
    const look = () =>
      void this.searchQuietly(source, everyMs).then(() => this.scheduleNext(source, everyMs));
    this.timers.schedule(`webhook-inbox:gaps-${source}`, everyMs, look, { keepsAlive: false });
  }

  /** One search, unless another instance has searched within the interval. */
  async searchQuietly(source: string, everyMs: number): Promise<BackfillReport | undefined> {
    // The lease is kept after the search. This instance searches next, or another one when this one has ended.
    const mine = () =>
      this.leases.take(this.dataSource.manager, `gaps ${source}`, this.instance.id, 1.5 * everyMs);
    try {
      if (!(await mine())) return undefined;
      const report = await this.find(source, undefined, () => void mine().catch(() => undefined));
      if (report.claimed > 0) await this.audited(source, report);
      return report;
    } catch (error) {
      this.logger.error(logLine(`the search for gaps failed: ${errorText(error)}`, { source }));
      return undefined;
    }
  }

  private audited(source: string, report: BackfillReport): Promise<void> {
    const decider = { by: `instance ${this.instance.id}`, reason: 'look for gaps at an interval' };
    return this.audit.told({ action: 'backfill', target: source }, decider, { ...report });
  }

  /**
   * @param decider stands in the audit
   * @throws as `Backfills.run` does
   */
  async find(source: string, decider?: Decider, onProgress?: () => void): Promise<BackfillReport> {
    const { retentionMs } = knownSource(this.options, source);
    const now = Date.now();
    const lookbackMs = Math.min(
      this.explorer.lookbackMs(source) ?? DEFAULT_LOOKBACK_MS,
      retentionMs - 60_000,
    );
    const report = await this.backfills.run(source, {
      ...decider,
      since: new Date(now - lookbackMs),
      until: new Date(now - GRACE_MS),
      signal: this.stopping.signal,
      ...(onProgress && { onProgress }),
    });
    const { claimed: count } = report;
    if (count > 0) this.alerts.raise({ kind: 'gaps-found', source, count });
    return report;
  }
}
