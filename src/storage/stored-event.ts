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

/**
 * An instant in milliseconds since 1970. PostgreSQL writes a time by the session's DateStyle, and only ISO can be read for sure: `01.02.`
 * and an abbreviated zone have several meanings.
 */
export const millis = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::float8`;

/** A time as text with all its digits, which every session reads as the same instant. See `millis`. */
export const isoText = (time: string) => `to_json(${time}) #>> '{}'`;

/** The columns of `webhook_claim` that make one. */
export interface ClaimRow {
  readonly id: string;
  readonly source: string;
  readonly tenant: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly occurred_ms: number | null;
  readonly received_ms: number;
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
    occurredAt: row.occurred_ms === null ? undefined : new Date(row.occurred_ms),
    receivedAt: new Date(row.received_ms),
    headers: row.headers,
    body: row.body,
  };
}
