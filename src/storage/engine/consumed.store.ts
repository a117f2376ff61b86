import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';

/** An effect that was done here. */
export interface ConsumedEffect {
  readonly attempt: number;
  readonly result: string | null;
  readonly consumedAt: Date;
}

/** Effects that a consumer of an engine has done, in the consumer's own database. */
@Injectable()
export class ConsumedStore {
  /**
   * Claims an effect in the transaction of its run. It waits for another transaction that has claimed it. False when the effect is done.
   */
  async claim(manager: EntityManager, id: string, effect: string, attempt: number): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `INSERT INTO webhook_consumed (outbox_id, effect, attempt) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING outbox_id`,
      [id, effect, attempt],
    );
    return rows.length === 1;
  }

  async keepResult(manager: EntityManager, id: string, result: string): Promise<void> {
    await query(
      manager,
      `UPDATE webhook_consumed SET result = $2, consumed_at = clock_timestamp() WHERE outbox_id = $1`,
      [id, result],
    );
  }

  async find(manager: EntityManager, id: string): Promise<ConsumedEffect | undefined> {
    const rows: ConsumedEffect[] = await query(
      manager,
      `SELECT attempt, result, consumed_at AS "consumedAt" FROM webhook_consumed WHERE outbox_id = $1`,
      [id],
    );
    return rows[0];
  }

  async noteReported(manager: EntityManager, id: string): Promise<void> {
    await query(
      manager,
      `UPDATE webhook_consumed SET reported_at = clock_timestamp() WHERE outbox_id = $1 AND reported_at IS NULL`,
      [id],
    );
  }

  /** Forgets effects that arrived and were done more than `ageMs` milliseconds ago, at most `limit`. Returns how many. */
  async prune(manager: EntityManager, ageMs: number, limit: number): Promise<number> {
    const [row]: { count: number }[] = await query(manager, PRUNE, [Math.round(ageMs), limit]);
    return row!.count;
  }
}

// An outbox id begins with the milliseconds of its arrival, so that old ones are found without an index of their own.
const PRUNE = `
  WITH old AS MATERIALIZED (
    SELECT outbox_id FROM webhook_consumed
     WHERE outbox_id < rpad(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - $1::bigint), 12, '0'), 32, '0')::uuid
       AND consumed_at < now() - $1 * interval '1 ms'
     ORDER BY outbox_id LIMIT $2
       FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM webhook_consumed c USING old WHERE c.outbox_id = old.outbox_id RETURNING 1
  )
  SELECT count(*)::int AS count FROM gone`;
