import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import { storable } from '../../core/event.js';
import type { DeadReason } from '../../core/states.js';
import type { Cursor } from '../../core/cursor.js';
import { Parameters, conditionsOf, type ListFilter } from './filter.sql.js';
import { ROW_COLUMNS } from './claim-filter.sql.js';

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
  /** Where the newest error was thrown in the application's code: `file:line:column`. */
  readonly place: string | null;
  /** How many of its rows died in each of the last 24 hours, the oldest hour first. */
  readonly hours: readonly number[];
  /** Those of its rows, 20 at most. */
  readonly sources: readonly string[];
  readonly tenants: readonly string[];
  /** `open` again, and `reopened`, when a row died after it was resolved. */
  readonly state: 'open' | 'acknowledged' | 'resolved';
  readonly reopened: boolean;
  readonly actor: string | null;
  readonly note: string | null;
}

/** Values that rows of a group share, among its newest 500 rows: the most frequent first, 20 at most. */
export interface DeadSpread {
  readonly types: readonly string[];
  /** Processes that ran the last attempts, as `host:pid`, where they are known still. */
  readonly instances: readonly string[];
}

/** One dead row. */
export interface DeadRow {
  readonly id: string;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly attempt: number;
  readonly reason: DeadReason | null;
  readonly error: string | null;
  readonly place: string | null;
  readonly failedAt: Date;
  /** The same as text: a Date drops the microseconds. */
  readonly at: string;
  readonly source: string | null;
  readonly tenant: string | null;
  readonly eventId: string | null;
  readonly claimId: string | null;
}

/** Dead rows that are read: the newest, so that no flood of them makes the page slow. */
export const DEAD_WINDOW = 10_000;

@Injectable()
export class DeadStore {
  /** Groups among the newest `DEAD_WINDOW` dead rows that match, newest first; from after the group `after`. */
  async groups(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    after?: Cursor,
  ): Promise<{ readonly groups: DeadGroup[]; readonly next?: Cursor; readonly rowsLookedAt?: number }> {
    const p = new Parameters();
    const dead = deadRows(filter, p);
    const from =
      after === undefined
        ? 'true'
        : `(g.last_at, g.fingerprint::uuid) < (${p.add(after.at)}::timestamptz, ${p.add(after.id)}::uuid)`;
    const rows: (DeadGroup & { at: string; cursorId: string })[] = await query(
      manager,
      `WITH ${dead}, ${grouped('dead')} ${GROUPS} WHERE ${from} ORDER BY g.last_at DESC, g.fingerprint::uuid DESC LIMIT ${p.add(limit)}`,
      p.values,
    );
    const groups = rows.map(({ at: _at, cursorId: _id, ...group }) => group);
    const last = rows.at(-1);
    if (rows.length === limit && last !== undefined)
      return { groups, next: { at: last.at, id: last.cursorId } };
    return (await this.hasMore(manager)) ? { groups, rowsLookedAt: DEAD_WINDOW } : { groups };
  }

  private async hasMore(manager: EntityManager): Promise<boolean> {
    const more: unknown[] = await query(
      manager,
      `SELECT FROM webhook_outbox WHERE state = 'dead' ORDER BY settled_at DESC OFFSET $1 LIMIT 1`,
      [DEAD_WINDOW],
    );
    return more.length > 0;
  }

  /** One group, with types and instances of its newest rows; undefined when none of its rows is dead any more. */
  async group(
    manager: EntityManager,
    fingerprint: string,
    pairs?: ListFilter['pairs'],
  ): Promise<(DeadGroup & DeadSpread) | undefined> {
    const p = new Parameters();
    const dead = deadRows({ tests: [], ...(pairs && { pairs }) }, p);
    const ofGroup = `of_group AS MATERIALIZED (SELECT * FROM dead WHERE fingerprint = ${p.add(fingerprint)})`;
    const rows: (DeadGroup & DeadSpread & { at: string; cursorId: string })[] = await query(
      manager,
      `WITH ${dead}, ${ofGroup}, ${grouped('of_group')}, ${NEWEST}
       SELECT found.*, ${mostOf('type')} AS types, ${mostOf('instance')} AS instances FROM (${GROUPS}) found`,
      p.values,
    );
    if (rows[0] === undefined) return undefined;
    const { at: _at, cursorId: _id, ...group } = rows[0];
    return group;
  }

  /** Sources and tenants of all rows of a group. */
  async owners(
    manager: EntityManager,
    fingerprint: string,
  ): Promise<{ source: string | null; tenant: string | null }[]> {
    const p = new Parameters();
    return query(
      manager,
      `WITH ${deadRows({ tests: [] }, p)} SELECT DISTINCT source, tenant FROM dead WHERE fingerprint = ${p.add(fingerprint)}`,
      p.values,
    );
  }

  /** Sources and tenants of the dead rows that are read. */
  async scopes(manager: EntityManager): Promise<{ source: string; tenant: string }[]> {
    return query(
      manager,
      `SELECT DISTINCT source, tenant FROM (SELECT source, tenant FROM webhook_outbox WHERE state = 'dead'
                                             ORDER BY settled_at DESC LIMIT $1) newest WHERE source IS NOT NULL`,
      [DEAD_WINDOW],
    );
  }

  /** Rows of a group, newest first; from after the row `after`. */
  async rows(
    manager: EntityManager,
    fingerprint: string,
    limit: number,
    after?: Cursor,
    pairs?: ListFilter['pairs'],
  ): Promise<DeadRow[]> {
    const p = new Parameters();
    const dead = deadRows({ tests: [], ...(pairs && { pairs }) }, p);
    const from =
      after === undefined
        ? 'true'
        : `(d.settled_at, d.id) < (${p.add(after.at)}::timestamptz, ${p.add(after.id)}::uuid)`;
    return query(
      manager,
      `WITH ${dead} ${ROWS} WHERE d.fingerprint = ${p.add(fingerprint)} AND ${from}
        ORDER BY d.settled_at DESC, d.id DESC LIMIT ${p.add(limit)}`,
      p.values,
    );
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

// Parts that differ between two occurrences of one error (ids, numbers, quoted values) are left out of its name.
export const FINGERPRINT = `md5(concat_ws(' ', kind, name, reason, regexp_replace(left(split_part(coalesce(error, ''), E'\\n', 1), 300),
  '[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}|''[^'']*''|"[^"]*"|[0-9]+', '#', 'g')))`;

/** The newest dead rows, and of them those that match, as `dead`. */
function deadRows(filter: ListFilter, p: Parameters): string {
  const where = conditionsOf(filter, ROW_COLUMNS, { time: 'o.settled_at', source: 'o.source' }, p).join(
    ' AND ',
  );
  return `
  dead AS MATERIALIZED (
    SELECT id, kind, name, reason, error, place, ran_by, attempt, settled_at, source, tenant, event_id, ${FINGERPRINT} AS fingerprint
      FROM (SELECT * FROM webhook_outbox WHERE state = 'dead' ORDER BY settled_at DESC LIMIT ${p.add(DEAD_WINDOW)}) o
     WHERE ${where}
  )`;
}

const HOURS = `ARRAY[${Array.from({ length: 24 }, (_, at) => {
  const hour = (ago: number) => `now() - interval '${ago} hours'`;
  return `count(*) FILTER (WHERE settled_at > ${hour(24 - at)} AND settled_at <= ${hour(23 - at)})::int`;
}).join(', ')}]`;

const grouped = (rows: 'dead' | 'of_group') => `
  grouped AS (
    SELECT fingerprint, min(kind) AS kind, min(name) AS name, min(reason) AS reason, count(*)::int AS count,
           min(settled_at) AS first_at, max(settled_at) AS last_at,
           (array_agg(error ORDER BY settled_at DESC))[1] AS error, (array_agg(place ORDER BY settled_at DESC))[1] AS place,
           ${HOURS} AS hours,
           (array_agg(DISTINCT source) FILTER (WHERE source IS NOT NULL))[1:20] AS sources,
           (array_agg(DISTINCT tenant) FILTER (WHERE tenant <> ''))[1:20] AS tenants
      FROM ${rows} GROUP BY fingerprint
  )`;

const GROUPS = `
  SELECT g.fingerprint, g.kind, g.name, g.reason, g.error, g.place, g.hours, g.count, g.first_at AS "firstAt", g.last_at AS "lastAt",
         g.last_at::text AS at, g.fingerprint::uuid::text AS "cursorId", coalesce(g.sources, '{}') AS sources, coalesce(g.tenants, '{}') AS tenants,
         CASE WHEN i.state = 'resolved' AND g.last_at > i.changed_at THEN 'open'
              ELSE coalesce(i.state, CASE WHEN g.reason = 'given-up' THEN 'resolved' ELSE 'open' END) END AS state,
         coalesce(i.state = 'resolved' AND g.last_at > i.changed_at, false) AS reopened, i.actor, i.note
    FROM grouped g LEFT JOIN webhook_issue i ON i.fingerprint = g.fingerprint`;

const ROWS = `
  SELECT d.id, d.kind, d.name, d.attempt, d.reason, d.error, d.place, d.settled_at AS "failedAt", d.settled_at::text AS at,
         d.source, d.tenant, d.event_id AS "eventId", c.id AS "claimId"
    FROM dead d
    LEFT JOIN LATERAL (SELECT id FROM webhook_claim
                        WHERE source = d.source AND tenant = d.tenant AND event_id = d.event_id OFFSET 0) c ON true`;

const NEWEST = `
  newest AS MATERIALIZED (
    SELECT c.event_type AS type, i.host || ':' || i.pid AS instance
      FROM (SELECT * FROM of_group ORDER BY settled_at DESC LIMIT 500) d
      LEFT JOIN LATERAL (SELECT event_type FROM webhook_claim
                          WHERE source = d.source AND tenant = d.tenant AND event_id = d.event_id OFFSET 0) c ON true
      LEFT JOIN webhook_relay i ON i.id = d.ran_by
  )`;

const mostOf = (
  column: string,
) => `ARRAY(SELECT ${column} FROM newest WHERE ${column} <> '' GROUP BY ${column}
    ORDER BY count(*) DESC, ${column} LIMIT 20)`;
