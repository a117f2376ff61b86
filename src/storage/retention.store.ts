import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';

/** Deletes what is older than its source's window. Batched; never what is unsettled, never what someone has locked. */
@Injectable()
export class RetentionStore {
  /** Deletes at most `limit` claims of a source received more than `ageMs` milliseconds ago, with their rows. Returns how many. */
  async pruneClaims(manager: EntityManager, source: string, ageMs: number, limit: number): Promise<number> {
    const [row]: { pruned: number }[] = await manager.query(PRUNE_CLAIMS, [source, ageMs, limit]);
    return row!.pruned;
  }

  /** Deletes at most `limit` settled effects that belong to no event and are older than `ageMs` milliseconds. */
  async pruneEffects(manager: EntityManager, ageMs: number, limit: number): Promise<number> {
    const [row]: { pruned: number }[] = await manager.query(PRUNE_EFFECTS, [ageMs, limit]);
    return row!.pruned;
  }
}

const PRUNE_CLAIMS = `
  WITH old AS MATERIALIZED (
    SELECT c.source, c.tenant, c.event_id FROM webhook_claim c
     WHERE c.source = $1 AND c.received_at < now() - $2 * interval '1 ms'
       AND NOT EXISTS (SELECT FROM webhook_outbox o
                        WHERE o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
                          AND o.event_id IS NOT NULL AND o.state IN ('pending', 'parked'))
     ORDER BY c.received_at LIMIT $3
       FOR UPDATE OF c SKIP LOCKED
  ), claims AS (
    DELETE FROM webhook_claim c USING old
     WHERE c.source = old.source AND c.tenant = old.tenant AND c.event_id = old.event_id
    RETURNING 1
  ), rows AS (
    DELETE FROM webhook_outbox o USING old
     WHERE o.source = old.source AND o.tenant = old.tenant AND o.event_id = old.event_id AND o.event_id IS NOT NULL
    RETURNING o.id
  ), data AS (
    DELETE FROM webhook_outbox_data d USING rows WHERE d.outbox_id = rows.id
  ), conflicts AS (
    DELETE FROM webhook_conflict k USING old
     WHERE k.source = old.source AND k.tenant = old.tenant AND k.event_id = old.event_id
  ), duplicates AS (
    DELETE FROM webhook_duplicate d USING old
     WHERE d.source = old.source AND d.tenant = old.tenant AND d.event_id = old.event_id
  )
  SELECT count(*)::int AS pruned FROM claims`;

const PRUNE_EFFECTS = `
  WITH old AS MATERIALIZED (
    SELECT id FROM webhook_outbox
     WHERE event_id IS NULL AND settled_at < now() - $1 * interval '1 ms' LIMIT $2
       FOR UPDATE SKIP LOCKED
  ), rows AS (
    DELETE FROM webhook_outbox o USING old WHERE o.id = old.id RETURNING o.id
  ), data AS (
    DELETE FROM webhook_outbox_data d USING rows WHERE d.outbox_id = rows.id
  )
  SELECT count(*)::int AS pruned FROM rows`;
