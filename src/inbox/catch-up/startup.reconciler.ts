import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import type { Decider } from '../../core/decider.js';
import { logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { Audit } from '../../storage/desk/audit.js';
import { ClaimStore, type ClaimCursor, type RecentClaim } from '../../storage/claim.store.js';
import { onConnection } from '../../storage/postgres/connection.js';
import { LeaseStore } from '../../storage/lease.store.js';
import { storeErrorText } from '../../storage/postgres/store-error.js';
import { isOwed, OwedRows } from './owed-rows.js';
import { RecordReconciler, type RecordReport } from './record.reconciler.js';

/** Counts of one run of the reconciler. */
export interface ReconcileReport {
  /** False when another instance was at it. */
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

const JOB = 'reconcile';
const JOB_MS = 60_000;
/** How far back a rolling deploy's older receivers may have claimed without our handlers. */
const REMATCH_MS = 10 * 60_000;
/** When what older receivers claimed after the boot is looked for: once more, while all of it is within `REMATCH_MS`. */
export const AGAIN_MS = 0.9 * REMATCH_MS;
const BATCH = 500;

const noneMatched = () => ({ events: 0, added: 0, missing: 0 });
const noneLooked = () => ({ checked: 0, missing: 0, reprocessed: 0, unchecked: 0 });

/**
 * After boot, off its path, once more when a rolling deploy is over, and on demand: what a crash or a rolling deploy may have left
 * behind. Expired leases need no reconciler: every lease statement takes them.
 */
@Injectable()
export class StartupReconciler {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly owedRows: OwedRows,
    private readonly leases: LeaseStore,
    private readonly records: RecordReconciler,
    private readonly registry: HandlerRegistry,
    private readonly instance: Instance,
    private readonly wakeUp: WakeUp,
    private readonly alerts: Alerts,
    private readonly audit: Audit,
  ) {}

  /** One pass, by one instance at a time. */
  async reconcile(options: ReconcileOptions = {}): Promise<ReconcileReport> {
    const deed = { action: 'reconcile', target: 'all sources' };
    return this.audit.notedIfAsked(deed, options, async () => {
      const report = await this.reconcileNow(options.signal);
      return [report, { ...report }];
    });
  }

  /** What a pass would add, and which business records it would miss. Changes nothing. */
  async preview(signal?: AbortSignal): Promise<ReconcileReport> {
    const report = { ran: true, ...noneMatched(), records: noneLooked() };
    const goesOn = () => Promise.resolve(signal?.aborted !== true);
    await this.rematch(goesOn, report, () => Promise.resolve(true));
    await this.records.reconcile(goesOn, report.records, { changes: false });
    return report;
  }

  private async reconcileNow(signal?: AbortSignal): Promise<ReconcileReport> {
    const { manager } = this.dataSource;
    const mine = async () =>
      signal?.aborted !== true && (await this.leases.take(manager, JOB, this.instance.id, JOB_MS));
    const rematched = noneMatched();
    const records = noneLooked();
    if (!(await mine())) return { ran: false, ...rematched, records };
    try {
      await this.rematch(mine, rematched, (claim, handler) => this.add(claim, handler));
      await this.records.reconcile(mine, records);
      const { checked, missing: missingRecords, reprocessed, unchecked } = records;
      this.logger.log(
        logLine('reconciled', { ...rematched, checked, missingRecords, reprocessed, unchecked }),
      );
      return { ran: true, ...rematched, records };
    } finally {
      // Each row was committed by itself: what a later one has failed with takes nothing from those before it.
      if (rematched.added + records.reprocessed > 0) this.wakeUp.wake();
      await this.leases.giveBack(manager, JOB, this.instance.id);
    }
  }

  /** For the boot: never throws, since boot needs no database. */
  async reconcileQuietly(): Promise<void> {
    try {
      await this.reconcile();
    } catch (error) {
      this.logger.error(logLine(`reconciliation failed: ${storeErrorText(error)}`, {}));
    }
  }

  private async rematch(
    mine: () => Promise<boolean>,
    report: { events: number; added: number; missing: number },
    add: (claim: RecentClaim, handler: Handler) => Promise<boolean>,
  ): Promise<void> {
    for (const source of this.options.sources.keys()) {
      let cursor: ClaimCursor | undefined;
      do {
        const claims = await this.bounded((manager) =>
          this.claims.recent(manager, source, REMATCH_MS, BATCH, cursor),
        );
        for (const claim of claims) {
          report.events += 1;
          for (const handler of this.registry.match(claim.source, claim.event_type))
            if (!isOwed(handler, claim.names) && (await add(claim, handler))) report.added += 1;
          if (this.isShort(claim)) report.missing += 1;
        }
        cursor = claims.length < BATCH ? undefined : claims.at(-1);
        if (cursor !== undefined && !(await mine())) return;
      } while (cursor !== undefined);
    }
  }

  private add({ id, source, tenant, event_id: eventId }: RecentClaim, handler: Handler): Promise<boolean> {
    return this.bounded((manager) => this.owedRows.add(manager, { id, source, tenant, eventId }, handler));
  }

  /** A half-open connection never answers. */
  private bounded<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    return onConnection(this.dataSource, work, JOB_MS);
  }

  private isShort(claim: RecentClaim): boolean {
    if (claim.names.length >= claim.owed) return false;
    const event = { source: claim.source, tenant: claim.tenant, eventId: claim.event_id };
    this.alerts.raise({ kind: 'missing-rows', event, owed: claim.owed, found: claim.names.length });
    return true;
  }
}
