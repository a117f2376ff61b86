import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import { Parameters, conditionsOf, textHas, textIs, type ListFilter } from './filter.sql.js';
import { storable, storableJson } from '../../core/event.js';

/** An act of a person, its target and its reason. */
export interface AuditEntry {
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly reason: string;
  readonly detail?: Readonly<Record<string, unknown>>;
}
/** One row of the audit. */
export interface AuditRow extends AuditEntry {
  readonly id: string;
  readonly at: Date;
  /** The outcome of the act. Null when the process ended in between, or the act is under way. */
  readonly outcome: Readonly<Record<string, unknown>> | null;
}

/** A pause of a name, or its end. */
export interface PauseAct {
  readonly action: 'pause' | 'resume';
  /** Such as 'handler stripe/Billing.paid'. */
  readonly target: string;
  readonly at: Date;
  readonly by: string;
  readonly why: string;
}

@Injectable()
export class AuditStore {
  /** Writes the row before the deed. Returns its id. */
  async begin(manager: EntityManager, entry: AuditEntry): Promise<string> {
    const [row]: { id: string }[] = await query(
      manager,
      `INSERT INTO webhook_audit (actor, action, target, reason, detail) VALUES ($1, $2, $3, $4, $5) RETURNING id::text`,
      [
        storable(entry.actor, 255) || 'unknown',
        entry.action,
        storable(entry.target, 600),
        storable(entry.reason, 1_000),
        json(entry.detail ?? {}),
      ],
    );
    return row!.id;
  }

  async end(manager: EntityManager, id: string, outcome: Readonly<Record<string, unknown>>): Promise<void> {
    await query(manager, `UPDATE webhook_audit SET outcome = $2 WHERE id = $1`, [id, json(outcome)]);
  }

  /** The last act on each of some outbox rows, among the newest audit rows. An act that did not reach the row does not count. */
  async lastDeeds(
    manager: EntityManager,
    outboxIds: readonly string[],
  ): Promise<Map<string, { readonly actor: string; readonly action: string; readonly at: Date }>> {
    const rows: { id: string; actor: string; action: string; at: Date }[] = await query(manager, LAST_DEEDS, [
      outboxIds,
    ]);
    return new Map(rows.map(({ id, ...deed }) => [id, deed]));
  }

  /** Pauses and their ends from `from` until `until`, and before them the pauses that held at `from`. */
  async pauses(
    manager: EntityManager,
    targets: readonly string[],
    from: Date,
    until: Date,
  ): Promise<PauseAct[]> {
    return query(manager, PAUSES, [targets, from, until]);
  }

  /** Rows that match, newest first, from before the row `before`. */
  async list(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    before?: string,
  ): Promise<AuditRow[]> {
    const p = new Parameters();
    const where = conditionsOf(filter, COLUMNS, { time: 'a.at', source: `''` }, p).join(' AND ');
    return query(
      manager,
      `SELECT a.id::text, a.at, a.actor, a.action, a.target, a.reason, a.detail, a.outcome
         FROM (SELECT * FROM webhook_audit WHERE id < ${p.add(before ?? LAST_ID)}::bigint
                ORDER BY webhook_audit.id DESC LIMIT ${SCAN}) a
        WHERE ${where} ORDER BY a.id DESC LIMIT ${p.add(limit)}`,
      p.values,
    );
  }
}

const LAST_DEEDS = `
  SELECT DISTINCT ON (i.id) i.id, a.actor, a.action, a.at
    FROM (SELECT * FROM webhook_audit ORDER BY webhook_audit.id DESC LIMIT 500) a
    JOIN unnest($1::text[]) AS i(id) ON a.target = i.id OR a.detail -> 'ids' ? i.id
   WHERE a.outcome IS NOT NULL AND NOT a.outcome ? 'failed'
     AND NOT a.outcome @> ANY (ARRAY['{"decided": false}', '{"cancelled": false}', '{"parked": 0}']::jsonb[])
     AND NOT coalesce(a.outcome -> 'others' @> jsonb_build_array(jsonb_build_object('outboxId', i.id)), false)
   ORDER BY i.id, a.id DESC`;

const LAST_ID = '9223372036854775807';
/** Rows that one query reads at most. */
const SCAN = 50_000;
const PAUSES = `
  SELECT action, target, at, actor AS by, reason AS why
    FROM (SELECT DISTINCT ON (a.target, since) a.*
            FROM (SELECT * FROM webhook_audit ORDER BY webhook_audit.id DESC LIMIT ${SCAN}) a
           CROSS JOIN LATERAL (SELECT CASE WHEN a.at < $2 THEN 0 ELSE a.id END AS since) s
           WHERE a.action IN ('pause', 'resume') AND a.target = ANY($1::text[]) AND a.at <= $3
             AND a.outcome ->> 'changed' = 'true'
           ORDER BY a.target, since, a.id DESC) acts
   WHERE at >= $2 OR action = 'pause' ORDER BY id LIMIT 200`;
const COLUMNS = {
  by: textIs('a.actor'),
  action: textIs('a.action'),
  target: textHas(`(a.target || ' ' || a.detail::text)`),
  why: textHas('a.reason'),
};

/** An outcome may carry an error's text, and a detail what a person typed. */
function json(value: Readonly<Record<string, unknown>>): string {
  return storableJson(value, 4_000);
}
