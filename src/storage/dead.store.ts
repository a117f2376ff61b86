import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable } from '../core/event.js';
import type { DeadReason } from '../core/states.js';
import { query } from './own.schema.js';

/** Dead rows that died of one error, and a person's word on them. */
export interface DeadGroup {
  readonly fingerprint: string;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly reason: DeadReason | null;
  /** One row's error, in full. */
  readonly error: string | null;
  readonly count: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** `open` again, and `reopened`, when a row died after it was resolved. */
  readonly state: 'open' | 'acknowledged' | 'resolved';
  readonly reopened: boolean;
  readonly actor: string | null;
  readonly note: string | null;
}

/** One dead row. */
export interface DeadRow {
  readonly id: string;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly attempt: number;
  readonly reason: DeadReason | null;
  readonly error: string | null;
  readonly failedAt: Date;
  readonly source: string | null;
  readonly tenant: string | null;
  readonly eventId: string | null;
  readonly claimId: string | null;
}

/** Dead rows looked at: the newest, so that no flood of them makes the page slow. */
export const DEAD_WINDOW = 10_000;

@Injectable()
export class DeadStore {
  /** Groups among the newest `DEAD_WINDOW` dead rows, newest first. */
  async groups(manager: EntityManager, limit: number): Promise<DeadGroup[]> {
    return query(manager, GROUPS, [limit, DEAD_WINDOW]);
  }

  /** Rows of a group, newest first. */
  async rows(manager: EntityManager, fingerprint: string, limit: number): Promise<DeadRow[]> {
    return query(manager, ROWS, [fingerprint, limit, DEAD_WINDOW]);
  }

  /** A person's word on a group; `open` takes it back. */
  async setState(
    manager: EntityManager,
    fingerprint: string,
    state: DeadGroup['state'],
    actor: string,
    note: string,
  ): Promise<void> {
    if (state === 'open') {
      await query(manager, `DELETE FROM webhook_issue WHERE fingerprint = $1`, [fingerprint]);
      return;
    }
    await query(
      manager,
      `INSERT INTO webhook_issue (fingerprint, state, actor, note) VALUES ($1, $2, $3, $4)
           ON CONFLICT (fingerprint) DO UPDATE
          SET state = EXCLUDED.state, actor = EXCLUDED.actor, note = EXCLUDED.note, changed_at = clock_timestamp()`,
      [fingerprint, state, storable(actor, 255), storable(note, 1_000)],
    );
  }
}

// What differs between two occurrences of one error (ids, numbers, quoted values) is left out of its name.
const FINGERPRINT = `md5(concat_ws(' ', kind, name, reason, regexp_replace(left(split_part(coalesce(error, ''), E'\\n', 1), 300),
  '[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}|''[^'']*''|"[^"]*"|[0-9]+', '#', 'g')))`;

const DEAD = `
  dead AS MATERIALIZED (
    SELECT id, kind, name, reason, error, attempt, settled_at, source, tenant, event_id, ${FINGERPRINT} AS fingerprint
      FROM (SELECT * FROM webhook_outbox WHERE state = 'dead' ORDER BY settled_at DESC LIMIT $3) newest
  )`;

const GROUPS = `
  WITH ${DEAD.replace('$3', '$2')}, grouped AS (
    SELECT fingerprint, min(kind) AS kind, min(name) AS name, min(reason) AS reason, count(*)::int AS count,
           min(settled_at) AS first_at, max(settled_at) AS last_at,
           (array_agg(error ORDER BY settled_at DESC))[1] AS error
      FROM dead GROUP BY fingerprint
  )
  SELECT g.fingerprint, g.kind, g.name, g.reason, g.error, g.count, g.first_at AS "firstAt", g.last_at AS "lastAt",
         CASE WHEN i.state = 'resolved' AND g.last_at > i.changed_at THEN 'open'
              ELSE coalesce(i.state, CASE WHEN g.reason = 'given-up' THEN 'resolved' ELSE 'open' END) END AS state,
         coalesce(i.state = 'resolved' AND g.last_at > i.changed_at, false) AS reopened, i.actor, i.note
    FROM grouped g LEFT JOIN webhook_issue i ON i.fingerprint = g.fingerprint
   ORDER BY g.last_at DESC LIMIT $1`;

const ROWS = `
  WITH ${DEAD}
  SELECT d.id, d.kind, d.name, d.attempt, d.reason, d.error, d.settled_at AS "failedAt", d.source, d.tenant,
         d.event_id AS "eventId", c.id AS "claimId"
    FROM dead d
    LEFT JOIN LATERAL (SELECT id FROM webhook_claim
                        WHERE source = d.source AND tenant = d.tenant AND event_id = d.event_id OFFSET 0) c ON true
   WHERE d.fingerprint = $1
   ORDER BY d.settled_at DESC LIMIT $2`;
