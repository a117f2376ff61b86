import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { REPEATED_SUCCESSES } from './desk/attempt.store.js';
import { FIRST_CLAIM, type ClaimCursor } from './claim.store.js';
import { query } from './schema/own-schema.js';
import { rerun } from './desk/replay.sql.js';
import { isoText, millis, storedEvent, type ClaimRow, type StoredEvent } from './stored-event.js';
import { PLACE } from './turn.sql.js';

/** A `done` handler row with its event. */
export interface DoneRow extends ClaimCursor {
  readonly outboxId: string;
  readonly name: string;
  readonly event: StoredEvent;
}

/** `done` handler rows, for those who check that what they wrote is there. */
@Injectable()
export class RecordStore {
  /**
   * Rows of a handler (by its names) that are done and were never reconciled, in the order of arrival, from after `cursor`. Their events
   * were received in the last `windowMs` milliseconds, and they were settled at least `minAgeMs` milliseconds ago.
   */
  async listDone(
    manager: EntityManager,
    source: string,
    names: readonly string[],
    windowMs: number,
    minAgeMs: number,
    limit: number,
    cursor: ClaimCursor = FIRST_CLAIM,
  ): Promise<DoneRow[]> {
    const rows: DoneQueryRow[] = await query(manager, DONE, [
      source,
      names,
      windowMs,
      minAgeMs,
      limit,
      cursor.cursor_at,
      cursor.id,
    ]);
    return rows.map((row) => ({
      outboxId: row.outbox_id,
      name: row.name,
      id: row.id,
      cursor_at: row.cursor_at,
      event: storedEvent(row),
    }));
  }

  /** Locks a row that is still done and was never reconciled. False when it is not, or when someone else has it. */
  async lock(manager: EntityManager, outboxId: string): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `SELECT id FROM webhook_outbox WHERE id = $1 AND state = 'done' AND NOT reconciled FOR UPDATE SKIP LOCKED`,
      [outboxId],
    );
    return rows.length === 1;
  }

  /** Makes the rest of the transaction fail at a table whose policies would hide rows: hidden rows are not missing. */
  async refuseHiddenRows(manager: EntityManager): Promise<void> {
    await query(manager, 'SET LOCAL row_security = off');
  }

  /** Marks a locked row as reconciled, and has it run again if asked. */
  async mark(manager: EntityManager, outboxId: string, runAgain: boolean): Promise<void> {
    await query(manager, runAgain ? RUN_AGAIN : `UPDATE webhook_outbox SET reconciled = true WHERE id = $1`, [
      outboxId,
    ]);
  }
}

const RUN_AGAIN = `
  WITH before AS MATERIALIZED (
    SELECT * FROM webhook_outbox WHERE id = $1 FOR UPDATE
  ), after AS (
    UPDATE webhook_outbox o
       SET reconciled = true, state = 'pending', due_at = ${PLACE}, attempt_base = o.attempt, settled_at = NULL,
           waits = o.order_key IS NOT NULL, rerun = ${rerun(`'refuse'`)}
      FROM before WHERE o.id = before.id
    RETURNING o.id
  ), ${REPEATED_SUCCESSES}
  SELECT id FROM after`;

// Bodies that retention has emptied cannot be handled again, nor can the record be named.
const DONE = `
  SELECT o.id AS outbox_id, o.name, c.id, c.source, c.tenant, c.event_id, c.event_type, ${millis('c.occurred_at')} AS occurred_ms,
         ${millis('c.received_at')} AS received_ms, ${isoText('c.received_at')} AS cursor_at, c.headers, c.body
    FROM webhook_claim c
    JOIN webhook_outbox o ON o.id = ANY (webhook_rows_of(c.source, c.tenant, c.event_id)) AND o.kind = 'handler' AND o.name = ANY($2)
                         AND o.state = 'done' AND NOT o.reconciled AND o.settled_at <= now() - $4 * interval '1 ms'
   WHERE c.source = $1 AND c.received_at > now() - $3 * interval '1 ms' AND c.body IS NOT NULL
     AND c.received_at >= $6::timestamptz AND (c.received_at, c.id) > ($6::timestamptz, $7::uuid)
   ORDER BY c.received_at, c.id LIMIT $5`;

interface DoneQueryRow extends ClaimRow, ClaimCursor {
  readonly id: string;
  readonly outbox_id: string;
  readonly name: string;
}
