import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { runningRelay, type ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { LeaseResult } from '../../storage/leased-rows.js';
import { OutboxStore, type RunnableName } from '../../storage/outbox.store.js';
import { onConnection } from '../../storage/postgres/connection.js';
import { UnreportedDeaths } from '../runs/unreported-deaths.js';

/** Leases due rows for this process. A half-open connection never answers, so each is given up after the time of a lease. */
@Injectable()
export class DueRows {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly instance: Instance,
    private readonly unreported: UnreportedDeaths,
  ) {}

  lease(names: readonly RunnableName[], limit: number): Promise<LeaseResult> {
    return this.tracked((manager) => this.store.lease(manager, this.instance.id, this.leaseMs, names, limit));
  }

  /** Leases the first row of the quarantine. */
  leaseQuarantined(names: readonly RunnableName[]): Promise<LeaseResult> {
    return this.tracked((manager) => this.store.leaseAlone(manager, this.instance.id, this.leaseMs, names));
  }

  /** Those of the names that have due rows. */
  namesAmong(names: readonly string[]): Promise<ReadonlySet<string>> {
    return onConnection(this.dataSource, (manager) => this.store.dueNames(manager, names), this.leaseMs);
  }

  private get leaseMs(): number {
    return runningRelay(this.options).leaseMs;
  }

  private tracked(lease: (manager: EntityManager) => Promise<LeaseResult>): Promise<LeaseResult> {
    return this.unreported.track(() => onConnection(this.dataSource, lease, this.leaseMs));
  }
}
