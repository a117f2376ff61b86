import { setTimeout as pause } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../core/instance.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import type { Decider } from '../core/decider.js';
import { logLine } from '../core/log/log.js';
import { retentionAges, type ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { inTransaction } from '../storage/postgres/connection.js';
import { Audit } from '../storage/desk/audit.js';
import { NamedLeaseStore } from '../storage/named-lease.store.js';
import { RetentionStore, type ClaimsPage, type MarkCursor } from '../storage/desk/retention.store.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import { FormerSources } from './former-sources.js';

/** Counts of one run of the retention. */
export interface RetentionReport {
  /** False when another instance was pruning. */
  readonly ran: boolean;
  /** Claims deleted, with their rows. */
  readonly claims: number;
  /** Claims whose body and headers were emptied. */
  readonly bodies: number;
  /** Effects whose payload and result were emptied. */
  readonly effects: number;
  /** Effects that belong to no event, deleted. */
  readonly looseEffects: number;
  readonly conflicts: number;
  /** Marks of `skipStale` that no event can be stale against any more. */
  readonly watermarks: number;
  /** Rows of the audit. */
  readonly audit: number;
  /** People's words on dead rows, uses of secrets, counts of duplicates whose claim has gone, and leases that were not given back. */
  readonly notes: number;
}

/** `by` and `reason` where a person asks for it: that stands in the audit. */
export interface PruneOptions extends Partial<Decider> {
  /** Stops between two batches. */
  readonly signal?: AbortSignal;
  /** Called after each batch with the number of rows deleted so far. */
  readonly onProgress?: (rows: number) => void;
}

type Batch = (manager: EntityManager) => Promise<{ readonly count: number; readonly more: boolean }>;

const NOTHING: RetentionReport = {
  ran: false,
  claims: 0,
  bodies: 0,
  effects: 0,
  looseEffects: 0,
  conflicts: 0,
  watermarks: 0,
  audit: 0,
  notes: 0,
};
const BATCH = 500;
const JOB = 'retention';
const JOB_MS = 60_000;
/** For notes about events that have no claim. */
const LEFT_OVER_MS = 30 * 86_400_000;

/** Deletes and empties what is older than its source's windows. An event that comes after its claim has gone is a new one. */
@Injectable()
export class Retention {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: RetentionStore,
    private readonly former: FormerSources,
    private readonly leases: NamedLeaseStore,
    private readonly instance: Instance,
    private readonly audit: Audit,
  ) {}

  /** Deletes everything that is due, in batches, unless another instance is pruning. */
  async prune(options: PruneOptions = {}): Promise<RetentionReport> {
    const deed = { action: 'prune', target: 'all sources' };
    return this.audit.recordIfAsked(deed, options, async () => {
      const report = await this.pruneNow(options);
      return [report, { ...report }];
    });
  }

  /**
   * How much is due: the first batch of each kind and source is counted by its own statements, and rolled back. A count of 500 may mean
   * more.
   */
  async preview(signal?: AbortSignal): Promise<RetentionReport> {
    const report = { ...NOTHING, ran: true };
    await this.pruneAll(report, async (batch) =>
      signal?.aborted === true ? 0 : this.countAndRollBack(batch),
    );
    return report;
  }

  private async pruneNow({ signal, onProgress }: PruneOptions): Promise<RetentionReport> {
    const report = { ...NOTHING, ran: false };
    if (!(await this.renewLease())) return report;
    report.ran = true;
    let rows = 0;
    const told = (count: number) => {
      rows += count;
      onProgress?.(rows);
    };
    try {
      await this.pruneAll(report, (batch) => this.runBatches(batch, told, signal));
    } finally {
      await this.leases.giveBack(this.dataSource.manager, JOB, this.instance.id);
    }
    const { ran: _ran, ...counts } = report;
    this.logger.log(logLine('retention ended', counts));
    return report;
  }

  private async pruneAll(
    report: { -readonly [K in keyof RetentionReport]: RetentionReport[K] },
    run: (batch: Batch) => Promise<number>,
  ): Promise<void> {
    for (const source of this.options.sources.values()) {
      report.claims += await run(this.claims(source));
      if (source.bodiesMs < source.retentionMs) report.bodies += await run(this.bodies(source));
      if (source.effectsMs < source.retentionMs) report.effects += await run(this.effects(source));
    }
    const former = await this.former.abandoned(this.dataSource.manager);
    for (const name of former)
      report.claims += await run(this.claims({ name, retentionMs: this.former.ageMs }));
    const { effectsMs, auditMs } =
      this.options.retention === false ? retentionAges() : this.options.retention;
    report.looseEffects = await run(full((m) => this.store.deleteEffects(m, effectsMs, BATCH)));
    report.conflicts = await run(full((m) => this.store.deleteConflicts(m, LEFT_OVER_MS, BATCH)));
    report.watermarks = await run(this.watermarks(former, await this.former.all(this.dataSource.manager)));
    report.audit = await run(full((m) => this.store.deleteAudit(m, auditMs, BATCH)));
    report.notes = await run(this.duplicates());
    report.notes += await run(async (manager) => {
      return { count: await this.store.deleteNotes(manager, auditMs), more: false };
    });
  }

  /** For a cron: never throws. @internal */
  async pruneQuietly(): Promise<void> {
    try {
      await this.prune();
    } catch (error) {
      this.logger.error(logLine(`retention failed: ${storeErrorText(error)}`, {}));
    }
  }

  private claims({ name, retentionMs }: Pick<Source, 'name' | 'retentionMs'>): Batch {
    return pages((manager, cursor) => this.store.deleteClaims(manager, name, retentionMs, BATCH, cursor));
  }

  private bodies({ name, bodiesMs }: Source): Batch {
    return pages((manager, cursor) => this.store.emptyBodies(manager, name, bodiesMs, BATCH, cursor));
  }

  private effects({ name, effectsMs }: Source): Batch {
    let cursor: string | undefined;
    return async (manager) => {
      const page = await this.store.emptyEffects(manager, name, effectsMs, BATCH, cursor);
      cursor = page.last ?? undefined;
      return { count: page.count, more: page.looked === BATCH };
    };
  }

  // Twice the window: an event that is kept may have happened a while before it came, and can be replayed. The claims of a former source
  // go before its marks.
  private watermarks(former: readonly string[], known: readonly string[]): Batch {
    const others = { ageMs: 2 * this.former.ageMs, kept: known };
    const ages = new Map([
      ...former.map((name): [string, number] => [name, 2 * this.former.ageMs]),
      ...[...this.options.sources.values()].map(({ name, retentionMs }): [string, number] => [
        name,
        2 * retentionMs,
      ]),
    ]);
    let cursor: MarkCursor | undefined;
    return async (manager) => {
      const page = await this.store.deleteWatermarks(manager, ages, others, BATCH, cursor);
      cursor = page.last;
      return { count: page.count, more: page.looked === BATCH };
    };
  }

  private duplicates(): Batch {
    let cursor: Awaited<ReturnType<RetentionStore['deleteDuplicates']>>['last'] = null;
    return async (manager) => {
      const page = await this.store.deleteDuplicates(manager, LEFT_OVER_MS, BATCH, cursor ?? undefined);
      cursor = page.last;
      return { count: page.count, more: page.looked === BATCH };
    };
  }

  private async runBatches(
    batch: Batch,
    told: (count: number) => void,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    let total = 0;
    for (;;) {
      if (signal?.aborted === true) return total;
      const startedAt = performance.now();
      const { count, more } = await this.inOneTransaction(batch);
      total += count;
      told(count);
      if (!more || !(await this.renewLease())) return total;
      // Half of the time is left to the receivers.
      await pause(performance.now() - startedAt);
    }
  }

  private async countAndRollBack(batch: Batch): Promise<number> {
    let counted = 0;
    const rollback = new Error('counted');
    try {
      await this.inOneTransaction(async (manager) => {
        counted = (await batch(manager)).count;
        throw rollback;
      });
    } catch (error) {
      if (error !== rollback) throw error;
    }
    return counted;
  }

  private inOneTransaction(batch: Batch): ReturnType<Batch> {
    return inTransaction(this.dataSource.manager, this.options.claimTimeoutMs, async (manager) => {
      await this.store.useIndexes(manager);
      return batch(manager);
    });
  }

  private renewLease(): Promise<boolean> {
    return this.leases.take(this.dataSource.manager, JOB, this.instance.id, JOB_MS);
  }
}

/**
 * Works page after page. Rows that stay, since one of them is locked, may fill a page, if they came at the moment in which a page ends.
 * Such a page ends the round, and the next night goes on.
 */
function pages(work: (manager: EntityManager, cursor: string | undefined) => Promise<ClaimsPage>): Batch {
  let cursor: string | undefined;
  return async (manager) => {
    const { count, looked, last } = await work(manager, cursor);
    cursor = last;
    return { count, more: looked === BATCH && count > 0 };
  };
}

/** A batch that found less than it might have was the last. */
function full(work: (manager: EntityManager) => Promise<number>): Batch {
  return async (manager) => {
    const count = await work(manager);
    return { count, more: count === BATCH };
  };
}
