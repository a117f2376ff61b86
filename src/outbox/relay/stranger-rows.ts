import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Alerts } from '../../core/telemetry/alerts.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { rowFacts } from './row-facts.js';

/** When they are looked at again: another build may have their handler by then. */
const AGAIN_MS = 60_000;
/** Since the row's second lease, by the database's clock. Names without a handler have the same time. */
const ALARM_AGE_MS = 3_600_000;

/**
 * Rows that carry the name of a handler here and an event of a type which that handler does not take: the name was another's when they
 * were claimed, as in a bundle whose class names have changed. They are kept as rows of an unknown handler are: pending, and an alarm
 * after an hour.
 */
@Injectable()
export class StrangerRows {
  private readonly logger = new InboxLogger();
  private readonly logged = new Set<string>();
  private readonly alarmed = new Set<string>();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly store: OutboxStore,
    private readonly alerts: Alerts,
  ) {}

  in(rows: readonly LeasedRow[]): LeasedRow[] {
    return rows.filter(({ kind, name, event }) => {
      const handler = kind === 'handler' ? this.registry.handler(name) : undefined;
      return handler !== undefined && event !== undefined && !this.registry.takes(handler, event.type);
    });
  }

  /** Gives their leases back; none of their attempts counts. */
  async giveBack(manager: EntityManager, rows: readonly LeasedRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.store.release(manager, rows, { delayMs: AGAIN_MS });
    for (const row of rows) this.tell(row);
    const names = new Set(rows.filter(({ ageMs }) => ageMs >= ALARM_AGE_MS).map(({ name }) => name));
    for (const name of names) this.alarm(name, rows.filter((row) => row.name === name).length);
  }

  private tell(row: LeasedRow): void {
    const { type } = row.event!;
    const key = JSON.stringify([row.name, type]);
    if (this.logged.has(key)) return;
    this.logged.add(key);
    const text =
      'not run, since its handler does not take events of this type: the name was another handler’s, or its types have changed';
    this.logger.warn(logLine(text, rowFacts(row, { type })));
  }

  private alarm(name: string, rows: number): void {
    if (this.alarmed.has(name)) return;
    this.alarmed.add(name);
    this.alerts.raise({ kind: 'unknown-name', name, rows });
  }
}
