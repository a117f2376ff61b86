import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import type { OutboxState } from '../../core/states.js';
import { storable } from '../../core/event.js';
import type { Decider } from '../../core/decider.js';
import { noteAct, type RowAct } from './attempt.store.js';
import { FINGERPRINT } from './dead.store.js';
import { rerun } from './replay.sql.js';
import { PLACE } from '../turn.sql.js';

/** A person's decision about an effect whose end is not known. */
export type ParkedDecision = 'retry' | 'done' | 'dead';

/** A row by the names that its facts have on a line of the log; '' is no name. */
export interface DecidedRow {
  readonly source: string;
  readonly tenant: string;
  readonly event: string;
  readonly outbox: string;
  readonly name: string;
  readonly attempt: number;
}

/** The facts of a `DecidedRow`, of a row `o`. */
export const DECIDED = `coalesce(o.source, '') AS source, coalesce(o.tenant, '') AS tenant, coalesce(o.event_id, '') AS event,
  o.id AS outbox, o.name, o.attempt`;

/** Acts of people on single rows. */
@Injectable()
export class DecisionStore {
  /**
   * Gives dead rows new attempts. Returns those that were dead.
   * @param waiting handlers whose rows wait for a redelivery, and how long, in milliseconds
   */
  async revive(
    manager: EntityManager,
    outboxIds: readonly string[],
    waiting: readonly { readonly name: string; readonly ms: number }[],
    decider: Decider,
  ): Promise<DecidedRow[]> {
    const names = waiting.map(({ name }) => name);
    return query(manager, REVIVE, [outboxIds, names, waiting.map(({ ms }) => ms), ...noted(decider)]);
  }

  /** Lets dead rows be: they hold their key no longer, and no redelivery revives them. Returns those that were dead. */
  async giveUp(
    manager: EntityManager,
    outboxIds: readonly string[],
    decider: Decider,
  ): Promise<DecidedRow[]> {
    return query(manager, GIVE_UP, [outboxIds, ...noted(decider)]);
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

  /** Each row that is there, with its state, by its id. */
  async states(
    manager: EntityManager,
    outboxIds: readonly string[],
  ): Promise<Map<string, DecidedRow & { readonly state: OutboxState }>> {
    const rows: (DecidedRow & { state: OutboxState })[] = await query(
      manager,
      `SELECT ${DECIDED}, o.state FROM webhook_outbox o WHERE o.id = ANY($1::uuid[])`,
      [outboxIds],
    );
    return new Map(rows.map((row) => [row.outbox, row]));
  }

  /** Parks pending rows that no instance has leased. Returns those that it parked. */
  async park(
    manager: EntityManager,
    outboxIds: readonly string[],
    routes: readonly string[],
    decider: Decider,
  ): Promise<DecidedRow[]> {
    return query(manager, PARK, [outboxIds, routes, ...noted(decider)]);
  }

  /**
   * Decides about a parked row. For `retry` the row is as new: no call has begun, and its key was never used.
   * @returns undefined when the row is not parked
   */
  async decide(
    manager: EntityManager,
    outboxId: string,
    decision: ParkedDecision,
    decider: Decider,
  ): Promise<DecidedRow | undefined> {
    const rows: DecidedRow[] = await query(manager, DECIDE, [outboxId, decision, ...noted(decider)]);
    return rows[0];
  }
}

/** A person and their reason, as the history of a row holds them. */
export function noted({ by, reason }: Decider): readonly [string, string] {
  return [storable(by, 255), storable(reason, 1_000)];
}

const ACTED = (rows: string, act: RowAct, by: string, why: string, decision?: string) => `
  ), ${noteAct(`(SELECT outbox AS id, attempt FROM ${rows}) r`, act, by, why, decision)}
  SELECT * FROM ${rows}`;

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
    RETURNING ${DECIDED}${ACTED('revived', 'revived', '$4', '$5')}`;

const GIVE_UP = `
  WITH given_up AS (
    UPDATE webhook_outbox o SET reason = 'given-up'
     WHERE o.id = ANY($1::uuid[]) AND o.state = 'dead' AND o.reason <> 'given-up'
    RETURNING ${DECIDED}${ACTED('given_up', 'given-up', '$2', '$3')}`;

// The next row of its order key may run. Under `onDead: 'block'` it waits until the parked row is decided.
const PARK = `
  WITH parked AS (
    UPDATE webhook_outbox o SET state = 'parked', reason = 'by-person', waits = false, alone = false
     WHERE o.id = ANY($1::uuid[]) AND o.state = 'pending' AND o.leased_by IS NULL
       AND NOT (o.kind = 'handler' AND o.name = ANY($2::text[]))
    RETURNING ${DECIDED}${ACTED('parked', 'held', '$3', '$4')}`;

const DECIDE = `
  WITH decided AS (
    UPDATE webhook_outbox o
       SET state = CASE $2 WHEN 'retry' THEN 'pending' ELSE $2 END,
           due_at = ${PLACE}, begun_at = NULL, first_leased_at = NULL, attempt_base = o.attempt,
           settled_at = CASE $2 WHEN 'retry' THEN NULL ELSE clock_timestamp() END,
           reason = CASE $2 WHEN 'dead' THEN 'given-up' END,
           waits = $2 = 'retry' AND o.order_key IS NOT NULL
     WHERE o.id = $1 AND o.state = 'parked'
    RETURNING ${DECIDED}${ACTED('decided', 'decided', '$3', '$4', '$2')}`;
