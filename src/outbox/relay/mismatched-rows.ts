import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Alerts } from '../../core/telemetry/alerts.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { rowFacts } from './row-facts.js';

/** Pause before such a row is leased again. Another build may have its handler by then. */
const AGAIN_MS = 60_000;
/** Since the row's second lease, by the database's clock. Names without a handler have the same time. */
const ALERT_AGE_MS = 3_600_000;

/**
 * Rows whose handler does not take the type of their event. Their name belonged to another handler when they were claimed, as after a
 * bundler has renamed classes. Like rows of an unknown handler they stay pending, and raise an alert after an hour.
 */
@Injectable()
export class MismatchedRows {
  private readonly logger = new InboxLogger();
  private readonly logged = new Set<string>();
  private readonly alerted = new Set<string>();

  constructor(
    private readonly store: OutboxStore,
    private readonly alerts: Alerts,
  ) {}

  /** Gives their leases back; none of their attempts counts. */
  async giveBack(manager: EntityManager, rows: readonly LeasedRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.store.release(manager, rows, { delayMs: AGAIN_MS });
    for (const row of rows) this.logOnce(row);
    const names = new Set(rows.filter(({ ageMs }) => ageMs >= ALERT_AGE_MS).map(({ name }) => name));
    for (const name of names) this.alertOnce(name, rows.filter((row) => row.name === name).length);
  }

  private logOnce(row: LeasedRow): void {
    const { type } = row.event!;
    const key = JSON.stringify([row.name, type]);
    if (this.logged.has(key)) return;
    this.logged.add(key);
    const text =
      'not run, since its handler does not take events of this type: the name was another handler’s, or its types have changed';
    this.logger.warn(logLine(text, rowFacts(row, { type })));
  }

  private alertOnce(name: string, rows: number): void {
    if (this.alerted.has(name)) return;
    this.alerted.add(name);
    this.alerts.raise({ kind: 'unknown-name', name, rows });
  }
}
