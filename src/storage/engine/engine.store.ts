import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable, type EventKey } from '../../core/event.js';
import { MAX_ERROR_BYTES } from '../../core/log/log.js';
import type { EngineReport } from '../../core/options/effect-transport.js';
import type { DeadReason, OutboxState } from '../../core/states.js';
import { endedAttempts } from '../desk/attempt.store.js';
import type { Lease } from '../leased-rows.js';
import { FENCED_ROWS, fences } from '../pending.sql.js';
import { plannedOnce } from '../postgres/one-message.js';
import { query } from '../schema/own-schema.js';
import { MAX_PLACE_BYTES } from '../settle.store.js';
import { PLACE } from '../turn.sql.js';

/** A row whose message an engine has confirmed. */
export interface HandedRow extends Lease {
  /** How long its report may take. */
  readonly unheardMs: number;
}

/** The row that a report has met. */
export interface Reported {
  /** This report ended the row. */
  readonly settled: boolean;
  /** Of the row before it. */
  readonly state: OutboxState;
  readonly leased: boolean;
  readonly name: string;
  readonly attempt: number;
  readonly ordered: boolean;
  readonly event?: EventKey;
}

interface ReportedRow extends Omit<Reported, 'event'> {
  readonly source: string | null;
  readonly tenant: string | null;
  readonly event_id: string | null;
}

/** Effects that an engine has: from their hand-over to the report of their end. */
@Injectable()
export class EngineStore {
  /**
   * Notes that the engine may have the messages of leased rows from now on, each behind its fence: such a row is not cancelled any more.
   * @returns ids of those whose lease holds
   */
  async begin(manager: EntityManager, rows: readonly Lease[]): Promise<Set<string>> {
    const ours = await plannedOnce<{ id: string }>(manager, BEGIN_HAND_OVER, fences(rows));
    return new Set(ours.map(({ id }) => id));
  }

  /**
   * Settles leased rows as handed, each behind its fence.
   * @returns ids of those that the engine has now; true for one that this call has settled, false for one that an earlier call or a report had
   */
  async handOver(manager: EntityManager, rows: readonly HandedRow[]): Promise<Map<string, boolean>> {
    const ms = new Map(rows.map(({ id, unheardMs }) => [id, unheardMs]));
    const [ids, ...fence] = fences(rows);
    const handed = await plannedOnce<{ id: string; now: boolean }>(manager, HAND_OVER, [
      ids,
      ...fence,
      ids!.map((id) => ms.get(String(id))),
    ]);
    return new Map(handed.map(({ id, now }) => [id, now]));
  }

  /** The attempts at which rows were last given new ones by a person; none for a row in its first life. */
  async lives(manager: EntityManager, ids: readonly string[]): Promise<Map<string, number>> {
    const rows = await plannedOnce<{ id: string; life: number }>(manager, LIVES, [ids]);
    return new Map(rows.map(({ id, life }) => [id, life]));
  }

  /** Settles a row by the report of its consumer. Undefined when there is no such effect. */
  async report(manager: EntityManager, report: EngineReport): Promise<Reported | undefined> {
    const {
      id,
      outcome,
      reason = 'permanent-error' satisfies DeadReason,
      life,
      result,
      error,
      place,
    } = report;
    const isDead = outcome === 'dead';
    const [row] = await plannedOnce<ReportedRow>(manager, REPORT, [
      id,
      outcome,
      isDead ? reason : null,
      isDead ? storable(error ?? '', MAX_ERROR_BYTES) : null,
      isDead && place !== undefined ? storable(place, MAX_PLACE_BYTES) : null,
      life,
      isDead ? null : (result ?? null),
      Math.max(0, Date.parse(report.endedAt) - Date.parse(report.begunAt)) || 0,
      storable(report.host, 255),
    ]);
    if (row === undefined) return undefined;
    const { source, tenant, event_id: eventId, ...rest } = row;
    return { ...rest, event: eventId === null ? undefined : { source: source!, tenant: tenant!, eventId } };
  }

  /** Makes rows due again that were not reported in their time, at most `limit`. Returns how many, by their names. */
  async takeBackUnheard(
    manager: EntityManager,
    limit: number,
  ): Promise<{ readonly name: string; readonly rows: number }[]> {
    return query(manager, UNHEARD, [limit]);
  }
}

export const BEGIN_HAND_OVER = `
  WITH ours AS MATERIALIZED (${FENCED_ROWS} FOR UPDATE OF o),
  begun AS (
    UPDATE webhook_outbox o SET begun_at = clock_timestamp() FROM ours WHERE o.id = ours.id AND o.begun_at IS NULL
  )
  SELECT id FROM ours`;

// The second part finds what a first sending of this statement has done, and rows whose report was faster than it.
export const HAND_OVER = `
  WITH ours AS MATERIALIZED (${FENCED_ROWS} FOR UPDATE OF o),
  handed AS (
    UPDATE webhook_outbox o
       SET state = 'handed', leased_by = NULL, alone = false, reason = NULL, error = NULL, place = NULL,
           due_at = now() + m.ms * interval '1 ms'
      FROM ours JOIN unnest($1::uuid[], $4::float8[]) AS m(id, ms) ON m.id = ours.id WHERE o.id = ours.id
    RETURNING o.id
  )
  SELECT id, true AS now FROM handed
   UNION ALL
  SELECT o.id, false FROM webhook_outbox o
    JOIN unnest($1::uuid[], $2::int[]) AS f(id, attempt) ON o.id = f.id AND o.attempt = f.attempt
   WHERE o.state IN ('handed', 'done')`;

const LIVES = `
  SELECT outbox_id AS id, max(attempt) AS life FROM webhook_attempt
   WHERE outbox_id = ANY($1::uuid[]) AND outcome IN ('revived', 'decided') GROUP BY outbox_id`;

// A call that was made is done, also where another process holds the row by now: the fence refuses its holder. That an effect is dead may be said of
// the row's present life alone, and only while the engine has it. The time between begin and end is the consumer's, and the end the
// database's, so that the history has one clock.
export const REPORT = `
  WITH found AS MATERIALIZED (
    SELECT o.id, o.state, o.leased_by IS NOT NULL AS leased,
           coalesce((SELECT max(a.attempt) FROM webhook_attempt a
                      WHERE a.outbox_id = o.id AND a.outcome IN ('revived', 'decided')), 0) AS life
      FROM webhook_outbox o WHERE o.id = $1 AND o.kind = 'effect' FOR UPDATE OF o
  ), settled AS (
    UPDATE webhook_outbox o
       SET state = $2, leased_by = NULL, settled_at = clock_timestamp(), reason = $3, error = $4, place = $5, begun_at = NULL,
           alone = false, waits = false
      FROM found f
     WHERE o.id = f.id
       AND CASE WHEN $2 = 'done' THEN f.state IN ('handed', 'pending', 'parked') OR f.state = 'dead' AND o.reason <> 'given-up'
                ELSE f.life = $6 AND (f.state = 'handed' OR f.state = 'pending' AND NOT f.leased) END
    RETURNING o.*
  ), kept AS (
    INSERT INTO webhook_outbox_data (outbox_id, result) SELECT id, $7::text FROM settled WHERE $7::text IS NOT NULL
        ON CONFLICT (outbox_id) DO UPDATE SET result = EXCLUDED.result
  ), ended AS (
    INSERT INTO webhook_attempt (outbox_id, attempt, begun_at, outcome, reason, error, place, host)
    SELECT id, attempt, clock_timestamp() - $8::float8 * interval '1 ms', $2, $3, $4, $5, $9 FROM settled
        ON CONFLICT DO NOTHING
  )
  SELECT EXISTS (SELECT FROM settled) AS settled, f.state, f.leased, o.name, o.attempt, o.order_key IS NOT NULL AS ordered,
         o.source, o.tenant, o.event_id
    FROM found f JOIN webhook_outbox o ON o.id = f.id`;

// It was no fault of the row's, so that the attempt does not count.
export const UNHEARD = `
  WITH due AS MATERIALIZED (
    SELECT id FROM webhook_outbox WHERE state = 'handed' AND due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
  ), unheard AS (
    UPDATE webhook_outbox o
       SET state = 'pending', due_at = ${PLACE}, waits = o.order_key IS NOT NULL,
           attempt_base = least(o.attempt, o.attempt_base + 1)
      FROM due WHERE o.id = due.id
    RETURNING o.*
  ), ${endedAttempts('unheard', `'unheard'`, 'NULL, NULL, NULL')}
  SELECT name, count(*)::int AS rows FROM unheard GROUP BY name ORDER BY name`;
