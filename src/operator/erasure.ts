import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { storable, type EventKey } from '../core/event.js';
import { logLine } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { inTransaction } from '../storage/postgres/connection.js';
import { Audit, targetOfEvents } from '../storage/desk/audit.js';
import { ErasureStore, type ErasableRow } from '../storage/desk/erasure.store.js';

/** The person who erases, and the reason. */
export interface ErasureOptions {
  /** The person who asks. */
  readonly by: string;
  /** Why: stands at the tombstone. */
  readonly reason: string;
}

/** A row of work that an erasure met. */
export interface ErasedWork {
  readonly outboxId: string;
  readonly name: string;
}

/** The result of an erasure. */
export interface ErasureReport {
  /** `already`: erased before, and left as it was. `unknown`: no such event; one that comes later is stored. */
  readonly outcome: 'erased' | 'already' | 'unknown';
  /** Work that will not be done any more. */
  readonly cancelled: readonly ErasedWork[];
  /** Of these, effects that had begun at least once: the outside world may hold what is erased here. */
  readonly possiblySent: readonly ErasedWork[];
  /** Effects that were done before: the outside world holds them. */
  readonly sent: readonly ErasedWork[];
}

const MAX_TEXT_BYTES = 500;

/**
 * Removes an event's content: body, headers, payloads, results, error texts and keys. It cancels the rows that are still owed, and leaves
 * the tombstone: a redelivery is a duplicate, and its bytes are not stored. The application erases the records of its handlers itself.
 */
@Injectable()
export class Erasure {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: ErasureStore,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /** @throws InputRefused without `by` or `reason`, or where they are blank */
  async erase(event: EventKey, options: ErasureOptions): Promise<ErasureReport> {
    const key = { source: event.source, tenant: event.tenant, eventId: event.eventId };
    return this.audit.record({ action: 'erase', target: targetOfEvents([key]) }, options, async () => {
      const report = await this.eraseNow(key, options);
      const { outcome, cancelled, possiblySent, sent } = report;
      const counts = { cancelled: cancelled.length, possiblySent: possiblySent.length, sent: sent.length };
      return [report, { outcome, ...counts }];
    });
  }

  private async eraseNow(key: EventKey, { by, reason }: ErasureOptions): Promise<ErasureReport> {
    const report = await inTransaction(this.dataSource.manager, this.options.claimTimeoutMs, (manager) =>
      this.eraseIn(manager, key, storable(by, MAX_TEXT_BYTES), storable(reason, MAX_TEXT_BYTES)),
    );
    // Another row of a key whose turn it was may go on.
    if (report.cancelled.length > 0) this.wakeUp.wake();
    this.logger.log(
      logLine(`erasure: ${report.outcome}`, {
        source: key.source,
        tenant: key.tenant,
        event: key.eventId,
        by,
        cancelled: report.cancelled.length,
        possiblySent: report.possiblySent.length,
      }),
    );
    return report;
  }

  private async eraseIn(
    manager: EntityManager,
    key: EventKey,
    by: string,
    reason: string,
  ): Promise<ErasureReport> {
    const erased = await this.store.lockClaim(manager, key);
    if (erased !== false) return reportOf(erased === undefined ? 'unknown' : 'already', []);
    const rows = await this.lockRows(manager, key);
    const ids = rows.map(({ id }) => id);
    await this.store.eraseRows(manager, ids);
    await this.store.eraseData(manager, ids);
    await this.store.eraseClaim(manager, key, by, reason);
    return reportOf('erased', rows);
  }

  // With every row locked nothing more can be enqueued, since a run enqueues and settles in one transaction.
  private async lockRows(manager: EntityManager, key: EventKey): Promise<ErasableRow[]> {
    let before = -1;
    for (;;) {
      const rows = await this.store.lockRows(manager, key);
      if (rows.length === before) return rows;
      before = rows.length;
    }
  }
}

function reportOf(outcome: ErasureReport['outcome'], rows: readonly ErasableRow[]): ErasureReport {
  const work = ({ id, name }: ErasableRow): ErasedWork => ({ outboxId: id, name });
  const cancelled = rows.filter(({ state }) => ['pending', 'parked', 'dead', 'handed'].includes(state));
  return {
    outcome,
    cancelled: cancelled.map(work),
    possiblySent: cancelled.filter(({ kind, attempt }) => kind === 'effect' && attempt > 0).map(work),
    sent: rows.filter(({ kind, state }) => kind === 'effect' && state === 'done').map(work),
  };
}
