import type { Cursor } from '../../core/cursor.js';
import { matches, rowsIn, timesOf, type RareState } from './claim-filter.sql.js';
import { Parameters, type ListFilter, type Test } from './filter.sql.js';

/**
 * The cost of a page of events is bounded before it is read. Claims are walked in the order of an index, newest first, at most `$scan` of
 * them. The walk stops when the page is full. The page says where to go on.
 */
export interface Walk {
  readonly text: string;
  readonly parameters: unknown[];
}

/** Minutes by which an id's time, the receiver's clock, may differ from `received_at`, the database's. */
const CLOCKS_MS = 5 * 60_000;

/** Claims in index order that match, up to `limit` of them among the next `scan`. */
export function walk(filter: ListFilter, from: Cursor | undefined, limit: number, scan: number): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  const { hits, state } = matches(filter, p);
  return {
    text: `SELECT w.id, w.at FROM (
             SELECT ${CLAIM} FROM webhook_claim c
              WHERE ${where} ORDER BY ${order('c')} LIMIT ${p.add(scan)}
           ) w ${state} WHERE ${hits} ORDER BY ${order('w')} LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/** Which of some claims match. */
export function among(filter: ListFilter, ids: readonly string[]): Walk {
  const p = new Parameters();
  const { hits, state } = matches(filter, p);
  return {
    text: `SELECT w.id, w.at FROM (SELECT ${CLAIM} FROM webhook_claim c WHERE c.id = ANY(${p.add(ids)}::uuid[])) w
            ${state} WHERE ${hits} AND ${timesOf(filter, p)} ORDER BY w.id DESC`,
    parameters: p.values,
  };
}

/**
 * Where a walk of `scan` rows has ended, or a little before that; none when there are fewer. From the index alone, since the rows
 * in between were read once already.
 */
export function walkEnd(filter: ListFilter, from: Cursor | undefined, scan: number): Walk {
  const p = new Parameters();
  const { where, only } = range(filter, from, p, 'index');
  const offset = `OFFSET ${p.add(scan - 1)} LIMIT 1`;
  return {
    text:
      only === undefined
        ? `SELECT id, received_at::text AS at FROM webhook_claim
            WHERE id = (SELECT c.id FROM webhook_claim c WHERE ${where} ORDER BY c.id DESC ${offset})`
        : // Claims of that very moment are read again.
          `SELECT '${LAST_ID}' AS id, c.received_at::text AS at FROM webhook_claim c
            WHERE ${where} ORDER BY c.received_at DESC ${offset}`,
    parameters: p.values,
  };
}

/** As `walkEnd`, to the row: for a moment in which more claims came than one walk reads. */
export function exactWalkEnd(filter: ListFilter, from: Cursor | undefined, scan: number): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  return {
    text: `SELECT c.id, c.received_at::text AS at FROM webhook_claim c
            WHERE ${where} ORDER BY ${order('c')} OFFSET ${p.add(scan - 1)} LIMIT 1`,
    parameters: p.values,
  };
}

/**
 * Events with rows in states that few rows are in, found from those rows: the newest `scan` of the dead, any `scan` of the others.
 * Each OFFSET 0 keeps PostgreSQL from joining these few with all claims by a hash.
 */
export function owedEvents(
  filter: ListFilter,
  from: Cursor | undefined,
  limit: number,
  scan: number,
  states: readonly RareState[],
): Walk {
  const p = new Parameters();
  const { where, order } = range(filter, from, p);
  const { hits, state } = matches(filter, p);
  const most = p.add(scan);
  const owed = states.map(
    (one) => `(SELECT source, tenant, event_id FROM ${rowsIn(one)}
                WHERE event_id IS NOT NULL ${one === 'pending' ? `AND kind = 'handler'` : ''}
                ${one === 'dead' ? 'ORDER BY settled_at DESC' : ''} LIMIT ${most})`,
  );
  return {
    text: `WITH rows AS MATERIALIZED (
             SELECT DISTINCT source, tenant, event_id FROM (${owed.join(' UNION ALL ')}) found
           ), w AS MATERIALIZED (
             SELECT c.* FROM rows r
              CROSS JOIN LATERAL (SELECT ${CLAIM} FROM webhook_claim c
                                   WHERE source = r.source AND tenant = r.tenant AND event_id = r.event_id OFFSET 0) c
              WHERE ${where} ORDER BY ${order('c')}
           )
           SELECT w.id, w.at FROM w ${state} WHERE ${hits} ORDER BY ${order('w')} LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/** Events with a value of their payloads, found from that value's index, newest first. */
export function eventsWithValue(
  filter: ListFilter,
  from: Cursor | undefined,
  limit: number,
  scan: number,
  sources: readonly string[],
): Walk {
  const p = new Parameters();
  const { hits, state } = matches(filter, p);
  return {
    text: `WITH w AS MATERIALIZED (
             SELECT c.* FROM (${claimsWithValue(filter, from, scan, sources, p)} LIMIT ${p.add(scan)}) v
              CROSS JOIN LATERAL (SELECT ${CLAIM} FROM webhook_claim c WHERE c.id = v.claim_id OFFSET 0) c
              ORDER BY c.id DESC
           )
           SELECT w.id, w.at FROM w ${state} WHERE ${hits} AND ${timesOf(filter, p)} ORDER BY w.id DESC LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/** Where `eventsWithValue` has ended; none when it has read all. */
export function valueEnd(
  filter: ListFilter,
  from: Cursor | undefined,
  scan: number,
  sources: readonly string[],
): Walk {
  const p = new Parameters();
  return {
    text: `SELECT c.id, c.received_at::text AS at
             FROM (${claimsWithValue(filter, from, scan, sources, p)} OFFSET ${p.add(scan - 1)} LIMIT 1) v
             JOIN webhook_claim c ON c.id = v.claim_id`,
    parameters: p.values,
  };
}

/**
 * Each source and value by itself, in the whole order of the index. One range of it is read, and no more of it than the page may read. With
 * several values in one condition, all claims that have them would be sorted.
 */
function claimsWithValue(
  filter: ListFilter,
  from: Cursor | undefined,
  scan: number,
  sources: readonly string[],
  p: Parameters,
): string {
  const { path, values } = valueAsked(filter)!;
  return `SELECT DISTINCT v.claim_id
            FROM unnest(${p.add(sources)}::text[]) AS s(source) CROSS JOIN unnest(${p.add(values)}::text[]) AS a(value)
           CROSS JOIN LATERAL (
             SELECT claim_id FROM webhook_payload_value
              WHERE source = s.source AND path = ${p.add(path)} AND value = a.value AND claim_id < ${p.add(from?.id ?? LAST_ID)}::uuid
              ORDER BY source DESC, path DESC, value DESC, claim_id DESC LIMIT ${p.add(scan)}) v
           ORDER BY v.claim_id DESC`;
}

/** The first value of a payload that a filter asks for. */
export function valueAsked({ tests }: ListFilter): Test | undefined {
  return tests.find(({ key, not }) => key === 'payload' && !not);
}

/** Whether there are more rows in a state than `owedEvents` reads. */
export function moreRows(rowState: RareState, scan: number): Walk {
  return {
    text: `SELECT 1 FROM (SELECT FROM ${rowsIn(rowState)} OFFSET $1 LIMIT 1) more`,
    parameters: [scan],
  };
}

/** @param by `index`: only conditions that the walk's index answers by itself; these may let a few more rows through */
function range(filter: ListFilter, from: Cursor | undefined, p: Parameters, by: 'index' | 'rows' = 'rows') {
  const where = ['true'];
  // One source has an index of its own, in the order of arrival; otherwise our ids, which carry the time, are walked.
  const only = onlySource(filter);
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

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Columns of a claim that filters ask for. */
const CLAIM = 'c.id, c.received_at, c.received_at::text AS at, c.source, c.tenant, c.event_id, c.event_type';

/** The one source that a filter asks for; undefined where it asks for several, for the start of a name, or for none. */
function onlySource({ tests }: ListFilter): string | undefined {
  const asked = tests.find(({ key, not }) => key === 'source' && !not);
  const [value] = asked?.values.length === 1 ? asked.values : [];
  return value?.endsWith('*') ? undefined : value;
}

function idAt(time: Date, offsetMs: number): string {
  const hex = Math.max(0, time.getTime() + offsetMs)
    .toString(16)
    .padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
