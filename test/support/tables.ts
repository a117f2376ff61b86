import type { EntityManager } from 'typeorm';
import type { WebhookEvent } from '../../src/index.js';

/** The business record that test handlers write: one row for each event, counting how often it was applied. */
export const RECEIVED_EVENT = `
  CREATE TABLE IF NOT EXISTS received_event (
    source        text    NOT NULL,
    event_id      text    NOT NULL,
    event_type    text    NOT NULL,
    applied_count integer NOT NULL DEFAULT 1,
    PRIMARY KEY (source, event_id)
  )`;

/** Writes the business record with the transaction of a handler: a second run shows in `applied_count`. */
export async function record(
  manager: EntityManager,
  { source, eventId, type }: Pick<WebhookEvent, 'source' | 'eventId' | 'type'>,
): Promise<void> {
  await manager.query(
    `INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)
         ON CONFLICT (source, event_id) DO UPDATE SET applied_count = received_event.applied_count + 1`,
    [source, eventId, type],
  );
}
