import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../core/instance.js';
import { measureBacklog } from '../core/telemetry/meters.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { AlertStore } from '../storage/desk/alert.store.js';
import { StatStore } from '../storage/desk/stat.store.js';
import { DestinationStore } from '../storage/destination.store.js';
import { NamedLeaseStore } from '../storage/named-lease.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { onConnection } from '../storage/postgres/connection.js';
import { RelayStore } from '../storage/desk/relay.store.js';
import { RejectionExplainer } from './explain/rejection.explainer.js';
import { SILENT_MS } from './stats.js';
import { Watch } from './watch.js';

const JOB = 'desk';
/** Three rounds of the keeper. */
const JOB_MS = 15_000;
/** When a connection is given up that does not answer. */
const END_MS = 5_000;
const PRUNE_MS = 30_000;
/** Rounds between two prunings. */
const PRUNE_EVERY = 120;
const STATS_AGE_MS = 3 * 86_400_000;
const INSTANCE_AGE_MS = 3_600_000;
/** How long a row without a handler may be due before an alert. A deploy takes its time. */
const UNKNOWN_AGE_MS = 3_600_000;
const KEEP_ALERTS = 500;

/** The desk's work of one process at a time: it measures the backlog and prunes the desk's tables. */
@Injectable()
export class DeskChores {
  private rounds = 0;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly instance: Instance,
    private readonly leases: NamedLeaseStore,
    private readonly reads: BoundedRead,
    private readonly relays: RelayStore,
    private readonly store: StatStore,
    private readonly alertStore: AlertStore,
    private readonly explainer: RejectionExplainer,
    private readonly destinations: DestinationStore,
    private readonly watch: Watch,
  ) {}

  /** Whether this process does the work now. Then it has measured the backlog. */
  async measureIfOurs(): Promise<boolean> {
    const isOurs = await this.leases.take(this.dataSource.manager, JOB, this.instance.id, JOB_MS);
    if (isOurs) await this.measure();
    else measureBacklog(undefined);
    return isOurs;
  }

  /** Prunes in the first round and each 120th. */
  async pruneAtTimes(): Promise<void> {
    if (this.rounds % PRUNE_EVERY === 0)
      await onConnection(this.dataSource, (manager) => this.prune(manager), PRUNE_MS);
    this.rounds += 1;
  }

  private async measure(): Promise<void> {
    const { backlog, instances, unknown } = await this.reads.run(async (bounded) => ({
      backlog: await this.relays.backlog(bounded),
      instances: await this.relays.list(bounded),
      unknown: await this.relays.unknownNames(bounded, UNKNOWN_AGE_MS, SILENT_MS),
    }));
    this.watch.backlog(backlog);
    measureBacklog(backlog);
    this.watch.unknown(unknown);
    const gauge = (metric: string, value: number) => ({ source: '', metric: `max:${metric}`, value });
    const metrics = [
      gauge('backlog-ms', Math.round(backlog.overdue[0]?.ageMs ?? 0)),
      gauge('pending', backlog.pending),
      gauge('dead', backlog.dead),
      gauge(
        'running',
        instances.reduce((sum, one) => sum + one.running, 0),
      ),
    ];
    const counted = { duplicates: [], secrets: [], metrics };
    await onConnection(this.dataSource, (manager) => this.store.flush(manager, counted), END_MS);
  }

  private async prune(manager: EntityManager): Promise<void> {
    await this.store.prune(manager, STATS_AGE_MS);
    await this.relays.prune(manager, INSTANCE_AGE_MS);
    await this.alertStore.prune(manager, KEEP_ALERTS);
    await this.explainer.prune(manager);
    await this.destinations.prune(manager);
  }
}
