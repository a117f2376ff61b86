import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import type { OutboxState } from '../../core/states.js';
import { FINGERPRINT } from './dead.store.js';
import { rerun } from './replay.sql.js';
import { PLACE } from '../turn.sql.js';

/** What a person decides about an effect whose end is not known. */
export type ParkedDecision = 'retry' | 'done' | 'dead';

/** What people do to single rows. */
@Injectable()
export class DecisionStore {
  /**
   * Gives dead rows new attempts. Returns the ids of those that were dead.
   * @param waiting handlers whose rows wait for a redelivery, and how long, in milliseconds
   */
  async revive(
    manager: EntityManager,
    outboxIds: readonly string[],
    waiting: readonly { readonly name: string; readonly ms: number }[],
  ): Promise<string[]> {
    const rows: { id: string }[] = await query(manager, REVIVE, [
      outboxIds,
      waiting.map(({ name }) => name),
      waiting.map(({ ms }) => ms),
    ]);
    return rows.map((row) => row.id);
  }

  /** Lets dead rows be: they hold their key no longer, and no redelivery revives them. Returns the ids of those that were dead. */
  async giveUp(manager: EntityManager, outboxIds: readonly string[]): Promise<string[]> {
    const rows: { id: string }[] = await query(manager, GIVE_UP, [outboxIds]);
    return rows.map((row) => row.id);
  }

  /** How many rows of each name a revival would run, and how many effects of theirs stay done. */
  async previewRevive(
    manager: EntityManager,
    outboxIds: readonly string[],
  ): Promise<{ readonly name: string; readonly runs: boolean; readonly rows: number }[]> {
    return query(
      manager,
      `WITH dead AS MATERIALIZED (
         SELECT id, kind, name FROM webhook_outbox WHERE id = ANY($1::uuid[]) AND state = 'dead'
       )
       SELECT name, true AS runs, count(*)::int AS rows FROM dead GROUP BY name
        UNION ALL
       SELECT e.name, false, count(*)::int FROM dead
         JOIN webhook_outbox e ON e.parent_id = dead.id AND e.state = 'done' GROUP BY e.name
        ORDER BY runs DESC, name`,
      [outboxIds],
    );
  }

  /** How many of the rows are in each state, and of what the dead ones died. */
  async progress(
    manager: EntityManager,
    outboxIds: readonly string[],
  ): Promise<
    {
      readonly state: OutboxState;
      readonly rows: number;
      readonly fingerprints: string[];
      readonly error: string | null;
    }[]
  > {
    return query(
      manager,
      `SELECT state, count(*)::int AS rows,
              coalesce(array_agg(DISTINCT ${FINGERPRINT}) FILTER (WHERE state = 'dead'), '{}') AS fingerprints,
              max(left(error, 300)) FILTER (WHERE state = 'dead') AS error
         FROM webhook_outbox WHERE id = ANY($1::uuid[]) GROUP BY state ORDER BY rows DESC, state`,
      [outboxIds],
    );
  }

  /** The state of each row that is there. */
  async states(manager: EntityManager, outboxIds: readonly string[]): Promise<Map<string, OutboxState>> {
    const rows: { id: string; state: OutboxState }[] = await query(
      manager,
      `SELECT id, state FROM webhook_outbox WHERE id = ANY($1::uuid[])`,
      [outboxIds],
    );
    return new Map(rows.map(({ id, state }) => [id, state]));
  }

  /**
   * Decides about a parked effect. `retry` forgets what was begun, and the time since the key was first used.
   * False when the row is not parked.
   */
  async decide(manager: EntityManager, outboxId: string, decision: ParkedDecision): Promise<boolean> {
    const rows: unknown[] = await query(manager, DECIDE, [outboxId, decision]);
    return rows.length === 1;
  }
}

const REVIVE = `
  WITH dead AS MATERIALIZED (
    SELECT o.id, w.ms FROM webhook_outbox o
      LEFT JOIN unnest($2::text[], $3::float8[]) AS w(name, ms) ON w.name = o.name AND o.kind = 'handler'
     WHERE o.id = ANY($1::uuid[]) AND o.state = 'dead' ORDER BY o.id FOR UPDATE OF o
  ), revived AS (
    UPDATE webhook_outbox o
       SET state = 'pending', due_at = coalesce(now() + dead.ms * interval '1 ms', ${PLACE}), attempt_base = o.attempt,
           settled_at = NULL, reason = NULL, waits = o.order_key IS NOT NULL, alone = false, rerun = ${rerun()}
      FROM dead WHERE o.id = dead.id
    RETURNING o.id
  )
  SELECT id FROM revived`;

const GIVE_UP = `
  WITH given_up AS (
    UPDATE webhook_outbox SET reason = 'given-up'
     WHERE id = ANY($1::uuid[]) AND state = 'dead' AND reason <> 'given-up'
    RETURNING id
  )
  SELECT id FROM given_up`;

const DECIDE = `
  WITH decided AS (
    UPDATE webhook_outbox o
       SET state = CASE $2 WHEN 'retry' THEN 'pending' ELSE $2 END,
           due_at = ${PLACE}, begun_at = NULL, first_leased_at = NULL, attempt_base = o.attempt,
           settled_at = CASE $2 WHEN 'retry' THEN NULL ELSE clock_timestamp() END,
           reason = CASE $2 WHEN 'dead' THEN 'given-up' END,
           waits = $2 = 'retry' AND o.order_key IS NOT NULL
     WHERE o.id = $1 AND o.state = 'parked'
    RETURNING o.id
  )
  SELECT id FROM decided`;
