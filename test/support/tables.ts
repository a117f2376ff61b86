import type { HandlerContext, WebhookEvent } from '../../src/index.js';

/** The business record that test handlers write: one row for each event, counting how often it was applied. */
export const RECEIVED_EVENT = `
  CREATE TABLE IF NOT EXISTS received_event (
    source        text    NOT NULL,
    event_id      text    NOT NULL,
    event_type    text    NOT NULL,
    applied_count integer NOT NULL DEFAULT 1,
    PRIMARY KEY (source, event_id)
  )`;

export const INSERT_RECORD = `INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)
  ON CONFLICT (source, event_id) DO UPDATE SET applied_count = received_event.applied_count + 1`;

/** Writes the business record with the transaction of a handler: a second run shows in `applied_count`. */
export async function record(
  { source, eventId, type }: Pick<WebhookEvent, 'source' | 'eventId' | 'type'>,
  { manager }: Pick<HandlerContext, 'manager'>,
): Promise<void> {
  await manager.query(INSERT_RECORD, [source, eventId, type]);
}

/** A row of webhook_outbox. */
export interface OutboxRow {
  readonly id: string;
  readonly parent_id: string | null;
  readonly kind: 'handler' | 'effect';
  readonly state: string;
  readonly name: string;
  readonly key: string;
  readonly event_id: string | null;
  readonly attempt: number;
  readonly attempt_base: number;
  readonly lost: number;
  readonly leased_by: string | null;
  readonly reason: string | null;
  readonly error: string | null;
  readonly due_at: Date;
  readonly lease_until: Date | null;
  readonly created_at: Date;
  readonly settled_at: Date | null;
}
