import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { LeasedRow, LeaseResult } from '../../storage/leased-rows.js';
import { OutboxStore, type RunnableName } from '../../storage/outbox.store.js';
import { onConnection } from '../../storage/postgres/connection.js';
import { UnreportedDeaths } from '../runs/unreported-deaths.js';
import { HandlerSlots } from '../slots/handler-slots.js';
import { rowFacts } from './row-facts.js';

/** Leases due rows for this process. A half-open connection never answers, so each is given up after the time of a lease. */
@Injectable()
export class DueRows {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly instance: Instance,
    private readonly unreported: UnreportedDeaths,
    private readonly slots: HandlerSlots,
    private readonly alerts: Alerts,
  ) {}

  lease(names: readonly RunnableName[], limit: number, leaseMs: number): Promise<LeaseResult> {
    const { id } = this.instance;
    return this.timed(leaseMs, (manager) => this.store.lease(manager, id, leaseMs, names, limit));
  }

  /** Leases the first row of the quarantine. */
  leaseQuarantined(names: readonly RunnableName[], leaseMs: number): Promise<LeaseResult> {
    const { id } = this.instance;
    return this.timed(leaseMs, (manager) => this.store.leaseAlone(manager, id, leaseMs, names));
  }

  /** Says of a row that is about to run what its former attempts tell. */
  reportHistory(row: LeasedRow): void {
    if (row.alone)
      this.logger.warn(logLine('the last attempt never ended', rowFacts(row, { lost: row.lost })));
    if (row.kind !== 'handler' || (row.tries === 1 && !row.alone)) return;
    if (this.options.sources.get(row.event!.source)?.retries !== 'provider') return;
    const { source, tenant, eventId } = row.event!;
    const event = { source, tenant, eventId };
    this.alerts.raise({ kind: 'not-redelivered', outboxId: row.id, name: row.name, event });
  }

  private async timed(
    leaseMs: number,
    lease: (manager: EntityManager) => Promise<LeaseResult>,
  ): Promise<LeaseResult> {
    const startedAt = performance.now();
    const result = await this.unreported.track(() => onConnection(this.dataSource, lease, leaseMs));
    if (result.leased.length > 0) this.slots.prefetch.recordLease(performance.now() - startedAt);
    return result;
  }
}
