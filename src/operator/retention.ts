import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { errorText, logLine } from '../core/log.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { OutboxRelay } from '../outbox/outbox.relay.js';
import { LeaseStore } from '../storage/lease.store.js';
import { RetentionStore } from '../storage/retention.store.js';

const BATCH = 1_000;
const JOB = 'retention';
const JOB_MS = 60_000;
const EFFECTS_AGE_MS = 30 * 86_400_000;

/** Deletes claims that are older than their source's window. An event that comes again after that is a new one. */
@Injectable()
export class Retention {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: RetentionStore,
    private readonly leases: LeaseStore,
    private readonly relay: OutboxRelay,
  ) {}

  /** Prunes everything that is due, in batches, unless another instance is at it. Returns how many claims were deleted. */
  async prune(): Promise<number> {
    const { manager } = this.dataSource;
    const mine = () => this.leases.take(manager, JOB, this.relay.owner, JOB_MS);
    if (!(await mine())) return 0;
    let pruned = 0;
    try {
      for (const { name, retentionMs } of this.options.sources.values()) {
        pruned += await this.batches(mine, () => this.store.pruneClaims(manager, name, retentionMs, BATCH));
      }
      await this.batches(mine, () => this.store.pruneEffects(manager, EFFECTS_AGE_MS, BATCH));
    } finally {
      await this.leases.giveBack(manager, JOB, this.relay.owner);
    }
    this.logger.log(logLine('retention pruned old claims', { claims: pruned }));
    return pruned;
  }

  /** For a cron: never throws. */
  async pruneQuietly(): Promise<void> {
    try {
      await this.prune();
    } catch (error) {
      this.logger.error(logLine(`retention failed: ${errorText(error)}`, {}));
    }
  }

  private async batches(mine: () => Promise<boolean>, prune: () => Promise<number>): Promise<number> {
    let total = 0;
    for (;;) {
      const pruned = await prune();
      total += pruned;
      if (pruned < BATCH || !(await mine())) return total;
    }
  }
}
