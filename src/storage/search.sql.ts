import type { Place } from '../core/place.js';
import { PENDING_ROWS } from './pending.sql.js';

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

/**
 * Events with rows in a state that few rows are in, found from those rows: the newest `scan` of the dead, any `scan` of the others.
 * Each OFFSET 0 keeps PostgreSQL from joining these few with all claims by a hash.
 */
export function owedEvents(
  filter: WalkFilter,
  from: Place | undefined,
  limit: number,
  scan: number,
  rowState: RareState,
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
               FROM rows r
              CROSS JOIN LATERAL (SELECT id, received_at, tenant, event_type, source FROM webhook_claim
                                   WHERE source = r.source AND tenant = r.tenant AND event_id = r.event_id OFFSET 0) c
              WHERE ${where} ORDER BY ${order('c')}
           )
           SELECT w.id, w.at FROM w
            CROSS JOIN LATERAL (SELECT FROM webhook_event e WHERE e.id = w.id AND ${stateIs(filter.state!, p)} OFFSET 0) s
            WHERE ${matches(filter, p)} ORDER BY ${order('w')} LIMIT ${p.add(limit)}`,
    parameters: p.values,
  };
}

/** Whether there are more rows in a state than `owedEvents` looks at. */
export function moreRows(rowState: RareState, scan: number): Walk {
  return {
    text: `SELECT 1 FROM (SELECT FROM ${rowsIn(rowState)} OFFSET $1 LIMIT 1) more`,
    parameters: [scan],
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
export type RareState = (typeof RARE)[number];

/** The state, when it is one that few rows are in. */
export function rareState(state: string | undefined): RareState | undefined {
  return RARE.find((one) => one === state);
}

/** Rows in a state that few are in, as the partial indexes have them. A literal, since a generic plan for a parameter cannot use them. */
export function rowsIn(state: RareState): string {
  return state === 'pending'
    ? `(${PENDING_ROWS}) owed`
    : `(SELECT * FROM webhook_outbox WHERE state = '${state}') owed`;
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

/** Values of a statement, each named by its place. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}
