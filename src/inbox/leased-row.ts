import type { NewHandlerRow } from '../storage/claim.store.js';
import type { LeasedRow } from '../storage/leased-rows.js';
import type { IncomingEvent } from './delivery.js';

/** A row just inserted, as a lease would give it. */
export function leasedRow(
  { source, tenant, eventId, id, type, occurredAt, headers, body }: IncomingEvent,
  row: NewHandlerRow,
  owner: string,
  receivedAt: Date,
): LeasedRow {
  return {
    id: row.id,
    owner,
    attempt: 1,
    tries: 1,
    lost: 0,
    wasLost: false,
    alone: false,
    generation: 0,
    begun: false,
    ageMs: 0,
    kind: 'handler',
    name: row.name,
    key: '',
    trace: row.trace,
    event: { source, tenant, eventId, id, type, occurredAt, receivedAt, headers, body },
  };
}
