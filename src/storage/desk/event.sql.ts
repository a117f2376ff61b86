import type { EventKey } from '../../core/event.js';
import type { DeadReason, EventState, OutboxState, ParkedReason } from '../../core/states.js';
import { ROW_COLUMNS, rareStates, rowsIn } from './claim-filter.sql.js';
import { Parameters, conditionsOf, type ListFilter } from './filter.sql.js';
import type { Walk } from './search.sql.js';

/** An event, as the list shows it. */
export interface ListedEvent extends EventKey {
  readonly id: string;
  readonly type: string;
  readonly receivedAt: Date;
  readonly occurredAt: Date | null;
  readonly origin: 'delivery' | 'backfill';
  readonly state: EventState;
  readonly outcome: string | null;
  readonly processedAt: Date | null;
  readonly owed: number;
  readonly effectsPending: number;
  readonly effectsDone: number;
  readonly effectsDead: number;
  readonly effectsParked: number;
  /** Deliveries after the first. */
  readonly duplicates: number;
}

/** An event with its verification and conflicts. */
export interface EventDetail extends Omit<
  ListedEvent,
  'effectsPending' | 'effectsDone' | 'effectsDead' | 'effectsParked'
> {
  /** Fingerprint of the secret that verified. */
  readonly verifiedBy: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Size of the stored body; null when it was removed. */
  readonly bytes: number | null;
  readonly sha256: string | null;
  readonly erasedAt: Date | null;
  readonly lastDuplicateAt: Date | null;
}

/** An outbox row as people see it. */
export interface WorkRow {
  readonly id: string;
  readonly parentId: string | null;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly key: string;
  readonly state: OutboxState;
  readonly attempt: number;
  readonly attemptBase: number;
  readonly lost: number;
  readonly createdAt: Date;
  /** When it is tried next, or when its lease ends. */
  readonly dueAt: Date;
  readonly settledAt: Date | null;
  readonly leasedBy: string | null;
  readonly reason: DeadReason | ParkedReason | null;
  readonly error: string | null;
  /** Where the error was thrown in the application's code: `file:line:column`. */
  readonly place: string | null;
}
export interface EventRow extends WorkRow {
  readonly result: string | null;
  readonly payloadBytes: number | null;
}
/** An effect's row, with the event that led to it. */
export interface EffectRow extends WorkRow {
  readonly source: string | null;
  readonly tenant: string | null;
  readonly eventId: string | null;
  readonly claimId: string | null;
}
/** A delivery that contradicts the stored event. */
export interface Conflict {
  readonly kind: 'other-bytes' | 'suspected-replay';
  readonly sha256: string;
  readonly deliveries: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** Of the first delivery with these bytes. */
  readonly headers: Readonly<Record<string, string>> | null;
  /** Whether its bytes are kept, to be compared. */
  readonly kept: boolean;
  /** Our id of the event that the bytes of a suspected replay are known of. */
  readonly otherId: string | null;
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
  o.created_at AS "createdAt", CASE WHEN o.leased_by IS NULL THEN o.due_at ELSE o.lease_until END AS "dueAt", o.settled_at AS "settledAt", o.leased_by AS "leasedBy", o.reason, o.error, o.place`;

/** Where there are more than may be shown, those that have ended well are left out. */
export const EVENT_ROWS = `
  SELECT * FROM (
    SELECT ${ROW}, left(d.result, 4000) AS result, octet_length(d.payload) AS "payloadBytes"
      FROM webhook_outbox o LEFT JOIN webhook_outbox_data d ON d.outbox_id = o.id
     WHERE o.id = ANY (webhook_rows_of($1, $2, $3))
     ORDER BY o.kind = 'handler' DESC, o.state IN ('dead', 'parked', 'pending', 'handed') DESC, o.created_at, o.id LIMIT 500) shown
   ORDER BY "createdAt", id`;

export const CONFLICTS = `
  SELECT k.kind, encode(k.body_sha256, 'hex') AS sha256, k.deliveries, k.first_at AS "firstAt", k.last_at AS "lastAt", k.headers,
         k.body IS NOT NULL AS kept, other.id AS "otherId"
    FROM webhook_conflict k
    LEFT JOIN LATERAL (SELECT id FROM webhook_claim
                        WHERE k.kind = 'suspected-replay' AND source = k.source AND tenant = k.tenant
                          AND body_sha256 = k.body_sha256 AND event_id <> k.event_id LIMIT 1) other ON true
   WHERE k.source = $1 AND k.tenant = $2 AND k.event_id = $3 ORDER BY k.first_at LIMIT 50`;

export const CONFLICT_BODY = `
  SELECT k.body FROM webhook_claim c
    JOIN webhook_conflict k ON k.source = c.source AND k.tenant = c.tenant AND k.event_id = c.event_id
   WHERE c.id = $1 AND k.kind = 'other-bytes' AND k.body_sha256 = decode($2, 'hex')`;

/** Effects, newest first. States with few rows are found by their own indexes. */
export function effects(filter: ListFilter, limit: number, scan: number, before?: string): Walk {
  const p = new Parameters();
  const states = rareStates(filter);
  const range = before === undefined ? 'true' : `id < ${p.add(before)}::uuid`;
  const most = p.add(scan);
  const candidates = states
    ? states
        .map(
          (one) =>
            `(SELECT * FROM ${rowsIn(one)} WHERE kind = 'effect' AND ${range} ORDER BY id DESC LIMIT ${most})`,
        )
        .join(' UNION ALL ')
    : `SELECT * FROM webhook_outbox WHERE ${range} ORDER BY id DESC LIMIT ${most}`;
  const asked = conditionsOf(filter, ROW_COLUMNS, { time: 'o.created_at', source: 'o.source' }, p);
  const where = [`o.kind = 'effect'`, ...asked].join(' AND ');
  return {
    text: `SELECT ${ROW}, o.source, o.tenant, o.event_id AS "eventId", c.id AS "claimId"
             FROM (SELECT * FROM (${candidates}) o WHERE ${where} ORDER BY o.id DESC LIMIT ${p.add(limit)}) o
             LEFT JOIN LATERAL (SELECT id FROM webhook_claim
                                 WHERE source = o.source AND tenant = o.tenant AND event_id = o.event_id OFFSET 0) c ON true
            ORDER BY o.id DESC`,
    parameters: p.values,
  };
}

/** The last row that a page of effects has read, of all states alike; none when it has read all. */
export function effectsEnd(filter: ListFilter, scan: number, before?: string): Walk {
  const p = new Parameters();
  const range = before === undefined ? 'true' : `id < ${p.add(before)}::uuid`;
  const nth = p.add(scan - 1);
  const endIn = (rows: string, where: string) =>
    `(SELECT id FROM ${rows} WHERE ${where} ORDER BY id DESC OFFSET ${nth} LIMIT 1)`;
  const ends = rareStates(filter)?.map((one) => endIn(rowsIn(one), `kind = 'effect' AND ${range}`));
  const all = ends?.join(' UNION ALL ') ?? endIn('webhook_outbox', range);
  return { text: `SELECT id FROM (${all}) ends ORDER BY id DESC LIMIT 1`, parameters: p.values };
}

export const SOURCES = `
  SELECT s.source, last.received_at AS "lastAt", last.event_type AS "lastType", last.verified_by AS "lastVerifiedBy"
    FROM unnest($1::text[]) AS s(source)
    LEFT JOIN LATERAL (SELECT received_at, event_type, verified_by FROM webhook_claim
                        WHERE source = s.source ORDER BY received_at DESC LIMIT 1) last ON true`;
