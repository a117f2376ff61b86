import { AsyncLocalStorage } from 'node:async_hooks';
import type { DataSource, EntityManager } from 'typeorm';
import { WebhookInboxError } from '../../core/errors.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { query } from '../schema/own-schema.js';
import { storeErrorText } from './store-error.js';

/** A replica that is further behind is not read. The desk's page asks the primary for a minute after each action. */
const MAX_BEHIND_MS = 15_000;
/** For how long a replica that failed is not asked again. */
const AVOIDED_MS = 30_000;

/** How work has read a replica. */
export interface ReplicaUse {
  /** How far it was behind at most, in milliseconds. Undefined where the primary has answered. */
  behindMs?: number | undefined;
}

const uses = new AsyncLocalStorage<ReplicaUse | undefined>();

/** Lets the bounded reads of `work` come from a replica, where the DataSource has one. For lists: what decides reads the primary. */
export function fromReplica<T>(work: () => Promise<T>, use: ReplicaUse = {}): Promise<T> {
  return uses.run(use, work);
}

/** Has a part of such work read the primary all the same: content that was erased a moment ago must not be shown. */
export function fromPrimary<T>(work: () => Promise<T>): Promise<T> {
  return uses.run(undefined, work);
}

/** The replicas of a DataSource (`replication.slaves`). TypeORM takes any one of them for a read. */
export class Replica {
  private readonly logger = new InboxLogger();
  private avoidedUntil = -Infinity;
  private failing = false;

  constructor(private readonly dataSource: DataSource) {}

  /** Whether the present read may come from a replica. */
  get isAsked(): boolean {
    return (
      uses.getStore() !== undefined &&
      this.dataSource.driver.isReplicated &&
      performance.now() >= this.avoidedUntil
    );
  }

  /**
   * Instances give a sign of life every five seconds, which every kind of replica brings along. An age below 0 shows a clock that is wrong.
   * @throws WebhookInboxError for one that is too far behind, or without a sign
   */
  async check(manager: EntityManager): Promise<void> {
    const [row]: { behind: number | null }[] = await query(manager, BEHIND);
    const { behind } = row!;
    if (behind === null) throw new WebhookInboxError('NOT_ANSWERED', 'it has no sign of life of an instance');
    if (Math.abs(behind) > MAX_BEHIND_MS)
      throw new WebhookInboxError('NOT_ANSWERED', `it is ${Math.round(behind)} ms behind`);
    const use = uses.getStore()!;
    use.behindMs = Math.max(behind, use.behindMs ?? 0);
    this.failing = false;
  }

  avoid(error: unknown): void {
    this.avoidedUntil = performance.now() + AVOIDED_MS;
    if (!this.failing)
      this.logger.warn(logLine(`lists come from the primary, not the replica: ${storeErrorText(error)}`, {}));
    this.failing = true;
  }
}

const BEHIND = `SELECT (extract(epoch FROM now() - max(seen_at)) * 1000)::float8 AS behind FROM webhook_relay`;
