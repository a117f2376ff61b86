import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import type { Decider } from '../../core/decider.js';
import { logLine } from '../../core/log/log.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { Audit } from '../../storage/desk/audit.js';
import { NamedLeaseStore } from '../../storage/named-lease.store.js';
import { storeErrorText } from '../../storage/postgres/store-error.js';
import { RecordReconciler, type RecordReport } from './record.reconciler.js';
import { Rematch } from './rematch.js';

/** Counts of one run of the reconciler. */
export interface ReconcileReport {
  /** False when another instance was reconciling, or has taken this pass over, or when the signal ended it. */
  readonly ran: boolean;
  readonly events: number;
  /** Handler rows added that this version's handlers match and an older version's did not. */
  readonly added: number;
  /** Claims with fewer rows than they are owed: cannot occur, and is alerted. */
  readonly missing: number;
  /** Where handlers declare a `businessRecord`. */
  readonly records: RecordReport;
}

/** `by` and `reason` where a person asks for it: that stands in the audit. */
export interface ReconcileOptions extends Partial<Decider> {
  /** Stops between two batches. */
  readonly signal?: AbortSignal;
}

/** One pass of the boot. */
interface Pass {
  /** By how much it is late: it looks so much further back. */
  readonly lateMs?: number;
  /** Whether it also searches for missing business records. @default true */
  readonly looksForRecords?: boolean;
}

const JOB = 'reconcile';
/** How long an instance keeps its pass from one batch to the next; one that was killed keeps it so long. */
export const JOB_MS = 60_000;
const noneMatched = () => ({ events: 0, added: 0, missing: 0 });
const noneLooked = () => ({ checked: 0, missing: 0, reprocessed: 0, unchecked: 0 });

/**
 * Repairs the effects of a crash or a rolling deploy. It runs after boot, once more when a rolling deploy is over, and on demand. Expired
 * leases need no reconciler: every lease statement takes them.
 */
@Injectable()
export class StartupReconciler {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly rematch: Rematch,
    private readonly leases: NamedLeaseStore,
    private readonly records: RecordReconciler,
    private readonly instance: Instance,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /** One pass, by one instance at a time. */
  async reconcile(options: ReconcileOptions = {}): Promise<ReconcileReport> {
    const deed = { action: 'reconcile', target: 'all sources' };
    return this.audit.recordIfAsked(deed, options, async () => {
      const report = await this.reconcileNow(options);
      return [report, { ...report }];
    });
  }

  /** Counts the rows that a pass would add, and the business records that it would find missing. Changes nothing. */
  async preview(signal?: AbortSignal): Promise<ReconcileReport> {
    const report = { ran: true, ...noneMatched(), records: noneLooked() };
    const goesOn = () => Promise.resolve(signal?.aborted !== true);
    await this.rematch.run(goesOn, report, { add: () => Promise.resolve(true) });
    await this.records.reconcile(goesOn, report.records, { changes: false });
    return report;
  }

  private async reconcileNow({
    lateMs = 0,
    looksForRecords = true,
    signal,
  }: ReconcileOptions & Pass = {}): Promise<ReconcileReport> {
    const { manager } = this.dataSource;
    let ran = true;
    const mine = async () => {
      ran &&= signal?.aborted !== true && (await this.leases.take(manager, JOB, this.instance.id, JOB_MS));
      return ran;
    };
    const rematched = noneMatched();
    const records = noneLooked();
    if (!(await mine())) return { ran, ...rematched, records };
    try {
      await this.rematch.run(mine, rematched, { lateMs });
      if (ran && looksForRecords) await this.records.reconcile(mine, records);
      const { checked, missing: missingRecords, reprocessed, unchecked } = records;
      this.logger.log(
        logLine(ran ? 'reconciled' : 'reconciled in part', {
          ...rematched,
          checked,
          missingRecords,
          reprocessed,
          unchecked,
        }),
      );
      return { ran, ...rematched, records };
    } finally {
      // Each row was committed by itself, so an error keeps the rows before it.
      if (rematched.added + records.reprocessed > 0) this.wakeUp.wake();
      await this.leases.giveBack(manager, JOB, this.instance.id);
    }
  }

  /**
   * For the boot: never throws, since boot needs no database.
   * @returns false where rows of new handlers may still be missing, since the pass did not come to its end
   * @internal
   */
  async reconcileQuietly(pass: Pass = {}): Promise<boolean> {
    try {
      return (await this.reconcileNow(pass)).ran;
    } catch (error) {
      this.logger.error(logLine(`reconciliation failed: ${storeErrorText(error)}`, {}));
      return false;
    }
  }
}
