import type { EventKey } from '../core/event.js';

/** The receipt of an event. `body` is null when retention or a person removed it. */
export interface StoredEvent extends EventKey {
  readonly id: string;
  readonly type: string;
  readonly occurredAt?: Date;
  readonly receivedAt: Date;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
}

/** The columns of `webhook_claim` that make one. */
export interface ClaimRow {
  readonly id: string;
  readonly source: string;
  readonly tenant: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
  readonly headers: Record<string, string>;
  readonly body: Buffer | null;
}

export function storedEvent(row: ClaimRow): StoredEvent {
  return {
    source: row.source,
    tenant: row.tenant,
    eventId: row.event_id,
    id: row.id,
    type: row.event_type,
    occurredAt: row.occurred_at ?? undefined,
    receivedAt: row.received_at,
    headers: row.headers,
    body: row.body,
  };
}
