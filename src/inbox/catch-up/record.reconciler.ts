import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { sqlStateOf } from '../../core/classify.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { orAborted } from '../../core/time/waits.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import type { WebhookEvent } from '../../core/event.js';
import { outcomeOf } from '../../core/lazy.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { ResolvedRecord } from '../../core/options/resolve-work.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import { Deadline } from '../../outbox/runs/deadline.js';
import { EventPreparer } from '../../outbox/runs/event.preparer.js';
import type { ClaimCursor } from '../../storage/claim.store.js';
import { inTransaction, onConnection } from '../../storage/postgres/connection.js';
import { RecordStore, type DoneRow } from '../../storage/record.store.js';

/** Counts of a search for the business records of `done` rows. */
export interface RecordReport {
  /** Rows whose record was searched for. */
  readonly checked: number;
  /** Rows whose record is missing, the ones below included. */
  readonly missing: number;
  /** Rows that run again. */
  readonly reprocessed: number;
  /** Rows that could not be judged: the check threw, or the body could not be read. */
  readonly unchecked: number;
}

type Candidate = DoneRow & { readonly seen: WebhookEvent };

const BATCH = 200;
const INSUFFICIENT_PRIVILEGE = '42501';
/** When the connection of a page is given up: a half-open one never answers. */
const PAGE_MS = 60_000;

/**
 * Finds events that are done although their handler's record is missing. Claim, record and completion commit together, so a crash cannot
 * cause this. A table was restored, or a record deleted. It reads no row that is pending.
 */
@Injectable()
export class RecordReconciler {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: RecordStore,
    private readonly registry: HandlerRegistry,
    private readonly events: EventPreparer,
    private readonly alerts: Alerts,
  ) {}

  /**
   * @param mine called between batches; false ends the pass, since another instance has taken over
   * @param report filled during the pass, so that it is right also when the pass throws
   * @param changes false: only counts
   */
  async reconcile(
    mine: () => Promise<boolean>,
    report: { -readonly [K in keyof RecordReport]: number },
    { changes = true } = {},
  ): Promise<void> {
    for (const handler of new Set(this.registry.handlers().values())) {
      const { record } = handler;
      if (record === undefined) continue;
      let cursor: ClaimCursor | undefined;
      do {
        const rows = await this.readPage(handler, record, cursor);
        await this.check(handler, record, rows, report, changes);
        cursor = rows.length < BATCH ? undefined : rows.at(-1);
        if (cursor !== undefined && !(await mine())) return;
      } while (cursor !== undefined);
    }
  }

  private readPage(
    handler: Handler,
    record: ResolvedRecord,
    cursor: ClaimCursor | undefined,
  ): Promise<DoneRow[]> {
    const names = [handler.name, ...handler.was];
    const { windowMs, minAgeMs } = record;
    return onConnection(
      this.dataSource,
      (manager) => this.store.listDone(manager, handler.source, names, windowMs, minAgeMs, BATCH, cursor),
      PAGE_MS,
    );
  }

  private async check(
    handler: Handler,
    record: ResolvedRecord,
    rows: readonly DoneRow[],
    report: { -readonly [K in keyof RecordReport]: number },
    changes: boolean,
  ): Promise<void> {
    const found = await this.findMissing(record, this.read(rows), this.dataSource.manager);
    report.checked += found.checked;
    let unchecked = rows.length - found.checked;
    let error = found.error;
    for (const row of found.missing) {
      try {
        if (!(await this.settle(record, row, changes))) continue;
        report.missing += 1;
        if (record.onMissing === 'reprocess') report.reprocessed += 1;
      } catch (thrown) {
        unchecked += 1;
        error = thrown;
      }
    }
    report.unchecked += unchecked;
    if (unchecked > 0) {
      const text = `the search for missing business records failed: ${errorText(error)}`;
      this.logger.warn(logLine(text, { source: handler.source, name: handler.name, rows: unchecked }));
    }
  }

  private read(rows: readonly DoneRow[]): Candidate[] {
    return rows.flatMap((row) => {
      try {
        return [{ ...row, seen: this.events.parse(row.event) }];
      } catch {
        return [];
      }
    });
  }

  private async findMissing(
    { look, timeoutMs }: ResolvedRecord,
    rows: readonly Candidate[],
    manager: EntityManager,
  ): Promise<{ missing: Candidate[]; checked: number; error?: unknown }> {
    if ('missing' in look) {
      try {
        const events = rows.map(({ seen }) => seen);
        const missing = await withDeadline(timeoutMs, async (signal) =>
          missingOf(() => look.missing(events, manager, { signal }), signal),
        );
        const ids = new Set(missing.map(({ id }) => id));
        return { missing: rows.filter(({ id }) => ids.has(id)), checked: rows.length };
      } catch (error) {
        return { missing: [], checked: 0, error };
      }
    }
    const missing: Candidate[] = [];
    let checked = 0;
    let error: unknown;
    for (const row of rows) {
      try {
        const where = look.where(row.seen);
        refuseEmpty(where);
        const exists = await withDeadline(timeoutMs, () =>
          // A record that was soft-deleted is there: to run its event again would bring it back.
          manager.exists(look.entity, { where, withDeleted: true }),
        );
        if (!exists) missing.push(row);
        checked += 1;
      } catch (thrown) {
        error = thrown;
      }
    }
    return { missing, checked, error };
  }

  /** Searches again under the row's lock, and marks the row. False when the record is no longer missing, or the row no longer done. */
  private async settle(record: ResolvedRecord, row: Candidate, changes: boolean): Promise<boolean> {
    const { manager } = this.dataSource;
    const isMissing = await inTransaction(manager, this.options.claimTimeoutMs, async (transaction) => {
      if (!(await this.store.lock(transaction, row.outboxId))) return false;
      if ('where' in record.look) await this.store.refuseHiddenRows(transaction);
      const again = await this.findMissing(record, [row], transaction);
      if (again.error !== undefined) throw hiddenOr(again.error);
      if (again.missing.length === 0) return false;
      if (changes) await this.store.mark(transaction, row.outboxId, record.onMissing === 'reprocess');
      return true;
    });
    if (isMissing && changes) this.alert(record, row);
    return isMissing;
  }

  private alert({ onMissing: action }: ResolvedRecord, { outboxId, name, event }: Candidate): void {
    const { source, tenant, eventId } = event;
    this.alerts.raise({ kind: 'missing-record', outboxId, name, event: { source, tenant, eventId }, action });
  }
}

/** @throws for what is no list: every record would be taken to be there */
async function missingOf(look: () => unknown, signal: AbortSignal): Promise<readonly WebhookEvent[]> {
  const missing = await outcomeOf(look, 'businessRecord.missing', signal);
  if (Array.isArray(missing)) return missing as WebhookEvent[];
  throw new Error(`businessRecord.missing: expected an array of events, received ${typeof missing}`);
}

/** A search that never ends must not hold up the reconciler, its lease, or the searches behind it. */
async function withDeadline<T>(timeoutMs: number, look: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const deadline = new Deadline('the query for a business record', timeoutMs);
  try {
    return await orAborted(look(deadline.signal), deadline.signal);
  } finally {
    deadline.end();
  }
}

/** The first search was allowed, so only row-level security can have refused the second. */
function hiddenOr(error: unknown): unknown {
  if (sqlStateOf(error) !== INSUFFICIENT_PRIVILEGE) return error;
  const text =
    `row-level security may hide the record from this role, so it may not be missing. ` +
    `Declare businessRecord.missing, which sets the tenant, or give the role BYPASSRLS`;
  return new Error(text, { cause: error });
}

function refuseEmpty(where: object | readonly object[]): void {
  const all = Array.isArray(where) ? (where as object[]) : [where];
  if (all.length === 0 || all.some((one) => Object.keys(one).length === 0))
    throw new Error('`where` returned an empty condition, which any record would meet');
}
