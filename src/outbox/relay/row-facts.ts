import type { RunInfo } from '../../core/around.js';
import type { Facts } from '../../core/log/log.js';
import type { LeasedRow } from '../../storage/leased-rows.js';

/** The facts on each log line about a row. */
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

/** The fields of a row that lifecycle listeners get. */
export function rowEvent({ id: outboxId, name, attempt, event }: LeasedRow) {
  const { source, tenant, eventId } = event ?? {};
  return {
    outboxId,
    name,
    attempt,
    event: source === undefined ? undefined : { source, tenant: tenant!, eventId: eventId! },
  };
}

/** The fields of a row that the `around` option gets. */
export function runInfo(
  { name, id: outboxId, attempt, event }: LeasedRow,
  kind: RunInfo['kind'],
  { inDelivery = false, events = 1 }: Partial<Pick<RunInfo, 'inDelivery' | 'events'>> = {},
): RunInfo {
  const { source, tenant, eventId } = event ?? {};
  return { kind, name, outboxId, attempt, source, tenant, eventId, events, inDelivery };
}
