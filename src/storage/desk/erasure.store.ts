import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../core/event.js';
import type { OutboxState } from '../../core/states.js';
import { query } from '../schema/own-schema.js';

/** A row of an event as an erasure finds it. */
export interface ErasableRow {
  readonly id: string;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly state: OutboxState;
  readonly attempt: number;
}

/** Removes what an event holds, and leaves its tombstone. Each method is one statement of the erasure's transaction, in this order. */
@Injectable()
export class ErasureStore {
  /** Locks the claim. Whether it is erased already, or undefined when there is none. */
  async lockClaim(manager: EntityManager, key: EventKey): Promise<boolean | undefined> {
    const rows: { erased: boolean }[] = await query(
      manager,
      `SELECT erased_at IS NOT NULL AS erased FROM webhook_claim
        WHERE source = $1 AND tenant = $2 AND event_id = $3 FOR UPDATE`,
      [key.source, key.tenant, key.eventId],
    );
    return rows[0]?.erased;
  }

  /**
   * Locks the event's rows. To be repeated until it finds no more: a run that committed while its row's lock was waited for may have
   * enqueued effects that this statement's snapshot does not see.
   */
  async lockRows(manager: EntityManager, key: EventKey): Promise<ErasableRow[]> {
    return query(
      manager,
      `SELECT id, kind, name, state, attempt FROM webhook_outbox
        WHERE id = ANY (webhook_rows_of($1, $2, $3))
        ORDER BY id FOR UPDATE`,
      [key.source, key.tenant, key.eventId],
    );
  }

  /** Cancels what is unsettled and ends its leases, so that a run under way cannot settle; removes keys and texts from all rows. */
  async eraseRows(manager: EntityManager, ids: readonly string[]): Promise<void> {
    await query(manager, ERASE_ROWS, [ids]);
  }

  /** Removes payloads and results, and the errors of earlier attempts. */
  async eraseData(manager: EntityManager, ids: readonly string[]): Promise<void> {
    await query(
      manager,
      `WITH attempts AS (UPDATE webhook_attempt SET error = NULL, why = NULL WHERE outbox_id = ANY($1))
       UPDATE webhook_outbox_data SET payload = NULL, result = NULL, other_payload_sha256 = NULL WHERE outbox_id = ANY($1)`,
      [ids],
    );
  }

  /** Removes body and headers, those of contradicting deliveries too, and values that were kept of it. The body's hash stays, so that the same bytes under a forged id are still recognised. */
  async eraseClaim(manager: EntityManager, key: EventKey, by: string, why: string): Promise<void> {
    await query(
      manager,
      `WITH claim AS (
         SELECT id FROM webhook_claim WHERE source = $1 AND tenant = $2 AND event_id = $3
       ), conflicts AS (
         UPDATE webhook_conflict SET body = NULL, headers = NULL
          WHERE source = $1 AND tenant = $2 AND event_id = $3
       ), found_by AS (
         DELETE FROM webhook_payload_value v USING claim WHERE v.claim_id = claim.id
       )
       UPDATE webhook_claim SET body = NULL, headers = '{}', erased_at = clock_timestamp(), erased_by = $4, erased_why = $5
        WHERE source = $1 AND tenant = $2 AND event_id = $3`,
      [key.source, key.tenant, key.eventId, by, why],
    );
  }
}

const ERASE_ROWS = `
  UPDATE webhook_outbox
     SET state = CASE WHEN state IN ('pending', 'parked', 'dead', 'handed') THEN 'erased' ELSE state END,
         settled_at = coalesce(settled_at, clock_timestamp()), leased_by = NULL, begun_at = NULL, waits = false,
         order_key = NULL, order_name = NULL, key = '', reason = NULL, error = NULL, place = NULL,
         rerun = rerun - 'refused'
   WHERE id = ANY($1)`;
