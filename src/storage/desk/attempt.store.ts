import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';

/** One attempt of a row, or what a person did to the row. */
export interface Attempt {
  readonly outboxId: string;
  readonly attempt: number;
  /** When it was leased. Null of what a person did. */
  readonly begunAt: Date | null;
  /** Null while it runs. Of a lost attempt: the end of its lease. */
  readonly endedAt: Date | null;
  readonly outcome: AttemptOutcome | RowAct | 'running';
  readonly reason: string | null;
  readonly error: string | null;
  /** Where the error was thrown in the application's code: `file:line:column`. */
  readonly place: string | null;
  /** The process that ran it: the id of its relay. */
  readonly instance: string | null;
  /** That process as `host:pid`, where it was known when the attempt ended. */
  readonly host: string | null;
  readonly build: string | null;
  /** The person, and the reason that they gave. */
  readonly by: string | null;
  readonly why: string | null;
}

/** The history of rows. The statement that ends an attempt writes it down, and so does the statement of a person's deed. */
@Injectable()
export class AttemptStore {
  /** All attempts of some rows, in the order of their ends: 1,000 at most. */
  async of(manager: EntityManager, outboxIds: readonly string[]): Promise<Attempt[]> {
    return query(manager, ATTEMPTS, [outboxIds]);
  }
}

/**
 * How an attempt ended, as `webhook_attempt` has it. Of a success, only where its row was run once more and holds another end now, or where
 * a consumer of an engine made it. `handed`: an engine has it. `unheard`: its consumer has not reported in time.
 */
export type AttemptOutcome =
  | 'done'
  | 'superseded'
  | 'refused'
  | 'retry'
  | 'dead'
  | 'parked'
  | 'lost'
  | 'released'
  | 'handed'
  | 'unheard'
  | 'cancelled'
  | 'erased';
/** An act of a person on a row, in the same list. */
export type RowAct = 'held' | 'revived' | 'replayed' | 'decided' | 'given-up' | 'cancelled';

/**
 * A part of a statement: keeps what a person did to the rows that it has changed.
 * @param rows with `id` and `attempt`
 * @param by and `why`: parameters
 * @param decision the choice of `decide`; other deeds have none
 */
export const noteAct = (rows: string, act: RowAct, by: string, why: string, decision = 'NULL') => `
  acts AS (
    INSERT INTO webhook_attempt (outbox_id, attempt, outcome, reason, ended_by, why)
    SELECT id, attempt, '${act}', ${decision}, ${by}, ${why} FROM ${rows}
        ON CONFLICT DO NOTHING
  )`;

// The instance may be forgotten by the time that a person asks: its host and build are written down with the attempt.
const insert = (values: string) => `
  ended AS (
    INSERT INTO webhook_attempt (outbox_id, attempt, ended_at, begun_at, outcome, reason, error, place, instance, host, build)
    ${values}
        ON CONFLICT DO NOTHING
  )`;
const INSTANCE = (id: string) =>
  `LEFT JOIN LATERAL (SELECT host || ':' || pid AS host, build FROM webhook_relay WHERE id = ${id} LIMIT 1) i ON true`;

/**
 * A part of a statement: keeps the attempts that it has ended.
 * @param rows rows of the outbox, as they are now
 * @param outcome of those, by their columns
 * @param why reason, error and place; a row that is given back has those of an earlier attempt
 */
export const endedAttempts = (rows: string, outcome: string, why = 'r.reason, r.error, r.place') =>
  insert(`SELECT r.id, r.attempt, clock_timestamp(), r.leased_at, ${outcome}, ${why}, r.ran_by, i.host, i.build
      FROM ${rows} r ${INSTANCE('r.ran_by')}`);

/**
 * The same for the lease: attempts that it found without an end, and rows that it found without attempts left. `taken` has the rows as
 * they are now, with the last attempt of each.
 */
export const LOST_ATTEMPTS =
  insert(`SELECT t.id, t.last_attempt, CASE WHEN t.was_lost THEN t.last_until ELSE clock_timestamp() END, t.last_begun,
           CASE WHEN t.was_lost THEN 'lost' ELSE t.state END, t.reason, NULL, NULL, t.last_by, i.host, i.build
      FROM taken t ${INSTANCE('t.last_by')}
     WHERE t.was_lost OR t.exhausted`);

/**
 * A part of a statement: keeps the successes of rows that are about to run once more. `before` has the rows, locked, as they were;
 * `after` those that were changed.
 */
export const REPEATED_SUCCESSES =
  insert(`SELECT b.id, b.attempt, b.settled_at, b.leased_at, b.state, b.reason, b.error, b.place, b.ran_by, i.host, i.build
      FROM before b JOIN after a ON a.id = b.id ${INSTANCE('b.ran_by')}
     WHERE b.state IN ('done', 'superseded')`);

/**
 * Attempts of the rows $1, and acts of people on them. The row's own columns hold its last end and the attempt under way. Where a person or
 * a refused run ended the row, that end belongs to no attempt.
 */
const ATTEMPTS = `
  SELECT * FROM (SELECT * FROM (
    SELECT outbox_id AS "outboxId", attempt, begun_at AS "begunAt", ended_at AS "endedAt", outcome, reason, error, place, instance,
           host, build, ended_by AS by, why
      FROM webhook_attempt WHERE outbox_id = ANY($1::uuid[])
    UNION ALL
    SELECT o.id, o.attempt, o.leased_at, o.settled_at,
           CASE o.state WHEN 'pending' THEN 'running' ELSE o.state END, o.reason, o.error, o.place, o.ran_by,
           i.host, i.build, NULL, NULL
      FROM webhook_outbox o ${INSTANCE('o.ran_by')}
     WHERE o.id = ANY($1::uuid[])
       AND (o.state IN ('done', 'superseded', 'cancelled', 'erased', 'handed') OR o.state = 'pending' AND o.leased_by IS NOT NULL)
       AND NOT EXISTS (SELECT FROM webhook_attempt a WHERE a.outbox_id = o.id AND a.attempt = o.attempt
                          AND (a.outcome = o.state OR a.outcome = 'decided' AND a.reason = o.state
                               OR a.outcome = 'refused' AND o.state IN ('done', 'superseded')) OFFSET 0)
  ) attempts
   ORDER BY "endedAt" DESC NULLS FIRST, attempt DESC LIMIT 1000) newest
   ORDER BY "endedAt" NULLS LAST, attempt`;
