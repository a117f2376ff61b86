import type { Place } from '../core/place.js';

/**
 * What a page of events costs is bounded before it is asked: claims are walked in the order of an index, newest first, at most
 * `$scan` of them, and the walk stops when the page is full. What was not looked at is told, with the place to go on from.
 */
export interface Walk {
  readonly text: string;
  readonly parameters: unknown[];
}

export interface WalkFilter {
  readonly sources?: readonly string[];
  readonly tenant?: string;
  readonly type?: string;
  readonly state?: string;
  readonly after?: Date;
  readonly before?: Date;
}
/** Minutes by which an id's time, the receiver's clock, may differ from `received_at`, the database's. */
const CLOCKS_MS = 5 * 60_000;

/** Claims in index order that match, up to `limit` of them among the next `scan`. */
export function walk(filter: WalkFilter, from: Place | undefined, limit: number, scan: number): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  const hits = matches(filter, p);
  // OFFSET 0: states are derived one by one, in the order of the walk, and no further than the page needs.
  const state =
    filter.state === undefined
      ? ''
      : `CROSS JOIN LATERAL (SELECT FROM webhook_event e WHERE e.id = w.id AND ${stateIs(filter.state, p)} OFFSET 0) s`;
  return {
    text: `SELECT w.id, w.at FROM (
             SELECT c.id, c.received_at, c.received_at::text AS at, c.tenant, c.event_type, c.source FROM webhook_claim c
              WHERE ${where} ORDER BY ${order('c')} LIMIT ${p.add(scan)}
           ) w ${state} WHERE ${hits} ORDER BY ${order('w')} LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/**
 * Where a walk of `scan` rows has ended, or a little before that; none when there are fewer. From the index alone, since the rows
 * in between were read once already.
 */
export function walkEnd(filter: WalkFilter, from: Place | undefined, scan: number): Walk {
  const p = new Parameters();
  const { where, only } = range(filter, from, p, 'index');
  const offset = `OFFSET ${p.add(scan - 1)} LIMIT 1`;
  return {
    text:
      only === undefined
        ? `SELECT id, received_at::text AS at FROM webhook_claim
            WHERE id = (SELECT c.id FROM webhook_claim c WHERE ${where} ORDER BY c.id DESC ${offset})`
        : // Claims of that very moment are looked at again.
          `SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff' AS id, c.received_at::text AS at FROM webhook_claim c
            WHERE ${where} ORDER BY c.received_at DESC ${offset}`,
    parameters: p.values,
  };
}

/** As `walkEnd`, to the row: for a moment in which more claims came than one walk looks at. */
export function exactWalkEnd(filter: WalkFilter, from: Place | undefined, scan: number): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  return {
    text: `SELECT c.id, c.received_at::text AS at FROM webhook_claim c
            WHERE ${where} ORDER BY ${order('c')} OFFSET ${p.add(scan - 1)} LIMIT 1`,
    parameters: p.values,
  };
}

/** Events with rows in a state that few rows are in, found from those rows: at most `scan` rows are looked at. */
export function owedEvents(
  filter: WalkFilter,
  from: Place | undefined,
  limit: number,
  scan: number,
  rowState: 'dead' | 'pending' | 'parked',
): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  const newest = rowState === 'dead' ? 'ORDER BY settled_at DESC' : '';
  return {
    text: `WITH rows AS MATERIALIZED (
             SELECT DISTINCT source, tenant, event_id FROM (
               SELECT source, tenant, event_id FROM ${rowsIn(rowState)}
                WHERE event_id IS NOT NULL ${rowState === 'parked' ? '' : `AND kind = 'handler'`}
                ${newest} LIMIT ${p.add(scan)}) found
           ), w AS MATERIALIZED (
             SELECT c.id, c.received_at, c.received_at::text AS at, c.tenant, c.event_type, c.source
               FROM rows r JOIN webhook_claim c ON c.source = r.source AND c.tenant = r.tenant AND c.event_id = r.event_id
              WHERE ${where}
           )
           SELECT w.id, w.at FROM w JOIN webhook_event e ON e.id = w.id AND ${stateIs(filter.state!, p)}
            WHERE ${matches(filter, p)} ORDER BY ${order('w')} LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/** @param by `index`: only conditions that the walk's index answers by itself; these may let a few more rows through */
function range(filter: WalkFilter, from: Place | undefined, p: Parameters, by: 'index' | 'rows' = 'rows') {
  const where = ['true'];
  // One source has an index of its own, in the order of arrival; otherwise our ids, which carry the time, are walked.
  const [only] = filter.sources?.length === 1 ? filter.sources : [];
  if (only !== undefined) {
    where.push(`c.source = ${p.add(only)}`);
    if (from !== undefined)
      where.push(
        by === 'index'
          ? `c.received_at <= ${p.add(from.at)}::timestamptz`
          : `c.received_at <= ${p.add(from.at)}::timestamptz AND (c.received_at, c.id) < (${p.add(from.at)}::timestamptz, ${p.add(from.id)}::uuid)`,
      );
  } else {
    if (from !== undefined) where.push(`c.id < ${p.add(from.id)}::uuid`);
    if (filter.after !== undefined) where.push(`c.id > ${p.add(idAt(filter.after, -CLOCKS_MS))}::uuid`);
    if (filter.before !== undefined) where.push(`c.id < ${p.add(idAt(filter.before, CLOCKS_MS))}::uuid`);
  }
  if (only !== undefined || by === 'rows') {
    if (filter.after !== undefined) where.push(`c.received_at >= ${p.add(filter.after)}::timestamptz`);
    if (filter.before !== undefined) where.push(`c.received_at < ${p.add(filter.before)}::timestamptz`);
  }
  const order = (alias: string) =>
    only === undefined ? `${alias}.id DESC` : `${alias}.received_at DESC, ${alias}.id DESC`;
  return { where: where.join(' AND '), order, only };
}

function matches(filter: WalkFilter, p: Parameters): string {
  const where = ['true'];
  if (filter.sources !== undefined && filter.sources.length > 1)
    where.push(`w.source = ANY(${p.add(filter.sources)}::text[])`);
  if (filter.tenant !== undefined) where.push(`w.tenant = ${p.add(filter.tenant)}`);
  if (filter.type !== undefined) {
    where.push(
      filter.type.endsWith('*')
        ? `starts_with(w.event_type, ${p.add(filter.type.slice(0, -1))})`
        : `w.event_type = ${p.add(filter.type)}`,
    );
  }
  return where.join(' AND ');
}

const RARE = ['dead', 'parked', 'pending'] as const;

/** Rows in a state that few are in, as the partial indexes have them: pending rows are in two. A literal, since a generic plan for a parameter cannot use them. */
function rowsIn(state: (typeof RARE)[number]): string {
  if (state !== 'pending') return `(SELECT * FROM webhook_outbox WHERE state = '${state}') owed`;
  return `(SELECT * FROM webhook_outbox WHERE state = 'pending' AND NOT waits
           UNION ALL SELECT * FROM webhook_outbox WHERE state = 'pending' AND waits) owed`;
}

function stateIs(state: string, p: Parameters): string {
  return state === 'parked' ? 'e.effects_parked > 0' : `e.state = ${p.add(state)}`;
}

function idAt(time: Date, offsetMs: number): string {
  const hex = Math.max(0, time.getTime() + offsetMs)
    .toString(16)
    .padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}

export const EVENTS = `
  SELECT e.id, e.source, e.tenant, e.event_id AS "eventId", e.event_type AS type, e.received_at AS "receivedAt",
         e.occurred_at AS "occurredAt", e.origin, e.state, left(e.outcome, 300) AS outcome, e.processed_at AS "processedAt",
         e.owed, e.effects_pending::int AS "effectsPending", e.effects_done::int AS "effectsDone",
         e.effects_dead::int AS "effectsDead", e.effects_parked::int AS "effectsParked", coalesce(d.count, 0) AS duplicates
    FROM webhook_event e
    LEFT JOIN webhook_duplicate d ON d.source = e.source AND d.tenant = e.tenant AND d.event_id = e.event_id
   WHERE e.id = ANY($1::uuid[])
   ORDER BY array_position($1::uuid[], e.id)`;

// Tenants are few: they are hopped over in the primary key, since PostgreSQL before 18 cannot skip a column of it.
export const BY_EVENT_ID = `
  WITH RECURSIVE tenants AS (
    SELECT s.source, (SELECT min(tenant) FROM webhook_claim WHERE source = s.source) AS tenant, 1 AS n
      FROM unnest($1::text[]) AS s(source)
    UNION ALL
    SELECT t.source, (SELECT min(tenant) FROM webhook_claim WHERE source = t.source AND tenant > t.tenant), t.n + 1
      FROM tenants t WHERE t.tenant IS NOT NULL AND t.n < 200
  )
  SELECT c.id, c.received_at::text AS at FROM tenants t
    JOIN webhook_claim c ON c.source = t.source AND c.tenant = t.tenant AND c.event_id = $2
   ORDER BY c.id DESC LIMIT 50`;

export const BY_OUR_ID = `
  SELECT c.id, c.received_at::text AS at FROM webhook_claim c WHERE c.id = $1
  UNION ALL
  SELECT c.id, c.received_at::text FROM webhook_outbox o
    JOIN webhook_claim c ON c.source = o.source AND c.tenant = o.tenant AND c.event_id = o.event_id
   WHERE o.id = $1`;

export const DETAIL = `
  SELECT e.id, e.source, e.tenant, e.event_id AS "eventId", e.event_type AS type, e.received_at AS "receivedAt",
         e.occurred_at AS "occurredAt", e.origin, e.state, e.outcome, e.processed_at AS "processedAt", e.owed,
         e.verified_by AS "verifiedBy", c.headers, octet_length(c.body) AS bytes, encode(sha256(c.body), 'hex') AS sha256,
         c.erased_at AS "erasedAt", coalesce(d.count, 0) AS duplicates, d.last_at AS "lastDuplicateAt"
    FROM webhook_event e
    JOIN webhook_claim c ON c.id = e.id
    LEFT JOIN webhook_duplicate d ON d.source = e.source AND d.tenant = e.tenant AND d.event_id = e.event_id
   WHERE e.id = $1`;

const ROW = `
  o.id, o.parent_id AS "parentId", o.kind, o.name, o.key, o.state, o.attempt, o.attempt_base AS "attemptBase", o.lost,
  o.created_at AS "createdAt", o.due_at AS "dueAt", o.settled_at AS "settledAt", o.leased_by AS "leasedBy", o.reason, o.error`;

export const EVENT_ROWS = `
  SELECT ${ROW}, left(d.result, 4000) AS result, octet_length(d.payload) AS "payloadBytes"
    FROM webhook_outbox o LEFT JOIN webhook_outbox_data d ON d.outbox_id = o.id
   WHERE o.source = $1 AND o.tenant = $2 AND o.event_id = $3 AND o.event_id IS NOT NULL
   ORDER BY o.created_at, o.id LIMIT 500`;

export const CONFLICTS = `
  SELECT kind, encode(body_sha256, 'hex') AS sha256, deliveries, first_at AS "firstAt", last_at AS "lastAt"
    FROM webhook_conflict WHERE source = $1 AND tenant = $2 AND event_id = $3 ORDER BY first_at LIMIT 50`;

/** Effects, newest first; a state that few rows are in is looked up from its own index. */
export function effects(
  filter: { readonly name?: string; readonly state?: string; readonly before?: string },
  limit: number,
  scan: number,
): Walk {
  const p = new Parameters();
  const state = RARE.find((one) => one === filter.state);
  const before = filter.before === undefined ? 'true' : `id < ${p.add(filter.before)}::uuid`;
  const candidates = state
    ? `SELECT * FROM ${rowsIn(state)} WHERE kind = 'effect' AND ${before} LIMIT ${p.add(scan)}`
    : `SELECT * FROM webhook_outbox WHERE ${before} ORDER BY id DESC LIMIT ${p.add(scan)}`;
  const where = [`o.kind = 'effect'`];
  if (filter.name !== undefined) where.push(`o.name = ${p.add(filter.name)}`);
  if (filter.state !== undefined) where.push(`o.state = ${p.add(filter.state)}`);
  return {
    text: `SELECT ${ROW}, o.source, o.tenant, o.event_id AS "eventId", c.id AS "claimId"
             FROM (SELECT * FROM (${candidates}) o WHERE ${where.join(' AND ')} ORDER BY o.id DESC LIMIT ${p.add(limit)}) o
             LEFT JOIN webhook_claim c ON c.source = o.source AND c.tenant = o.tenant AND c.event_id = o.event_id
            ORDER BY o.id DESC`,
    parameters: p.values,
  };
}

export const SOURCES = `
  SELECT s.source, last.received_at AS "lastAt", last.event_type AS "lastType", last.verified_by AS "lastVerifiedBy"
    FROM unnest($1::text[]) AS s(source)
    LEFT JOIN LATERAL (SELECT received_at, event_type, verified_by FROM webhook_claim
                        WHERE source = s.source ORDER BY received_at DESC LIMIT 1) last ON true`;
