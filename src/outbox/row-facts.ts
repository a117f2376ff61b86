import type { Facts } from '../core/log.js';
import type { LeasedRow } from '../storage/leased.rows.js';

/** What stands on each log line about a row. */
export function rowFacts(row: LeasedRow, more: Facts = {}): Facts {
  return {
    source: row.event?.source,
    tenant: row.event?.tenant,
    event: row.event?.eventId,
    outbox: row.id,
    name: row.name,
    attempt: row.attempt,
    ...more,
  };
}
