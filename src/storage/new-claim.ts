import { storable, type EventKey } from '../core/event.js';
import { millis } from './stored-event.js';
import type { OrderKey } from './turn.store.js';

/** An event about to be claimed, with the handler rows owed for it. */
export interface NewClaim extends EventKey {
  readonly id: string;
  readonly type: string;
  readonly occurredAt?: Date;
  readonly origin: 'delivery' | 'backfill';
  readonly verifiedBy: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Set when the id is not covered by the signature: known bytes under a new id may be a replay. */
  readonly bodySha256?: Buffer;
  /** Drop it when its bytes are known under another id. */
  readonly refuseKnownBytes?: boolean;
  readonly rows: readonly NewHandlerRow[];
  /** By what people find it. */
  readonly searchValues?: readonly SearchValue[];
}
/** A value at a path of a payload, at most 255 bytes. */
export interface SearchValue {
  readonly path: string;
  readonly value: string;
}
export interface NewHandlerRow {
  readonly id: string;
  readonly name: string;
  readonly orderKey?: OrderKey;
  /** Lease the new row to this process at once, as its first attempt, instead of leaving it to a relay. */
  readonly lease?: { readonly owner: string; readonly ms: number };
  /** Why the event's own id cannot be used: the row is dead from the start. */
  readonly unusable?: string;
  /** In which the delivery came. */
  readonly trace?: string;
}

/** The statement for these claims, and its values. Below, each part of a statement has its values after it. */
export function claiming(claims: readonly NewClaim[]): [string, unknown[]] {
  const [claim] = claims;
  const [row] = claim?.rows ?? [];
  const areSigned = claims.every(({ bodySha256 }) => bodySha256 === undefined);
  const many = areSigned ? CLAIM_SIGNED : CLAIM;
  const found = claims.flatMap(({ id, searchValues = [] }) => searchValues.map((one) => ({ ...one, id })));
  if (found.length > 0)
    return [withSearchValues(many), [...eventValues(claims), ...owedValues(claims), ...foundValues(found)]];
  if (claim !== undefined && row !== undefined && areSigned && claims.length === 1 && claim.rows.length === 1)
    return [CLAIM_ONE, oneClaim(claim, row)];
  return [many, [...eventValues(claims), ...owedValues(claims)]];
}

// The bodies come as one value: an array of them would be sent as text, twice as long.
const EVENTS = `
      FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::timestamptz[], $7::text[], $8::text[],
                  $9::int[], $10::bytea[], $11::boolean[], $12::jsonb[], $14::int[], $15::int[]) WITH ORDINALITY
           AS i(source, tenant, event_id, id, event_type, occurred_at, origin, verified_by,
                owed, body_sha256, refuse_known, headers, body_at, body_bytes, nth)`;

/** From `$1` to `$15`. */
function eventValues(claims: readonly NewClaim[]): unknown[] {
  let end = 1;
  const bodyAt = claims.map(({ body }) => (end += body.length) - body.length);
  return [
    ...keysOf(claims),
    claims.map((c) => c.id),
    claims.map((c) => c.type),
    claims.map((c) => c.occurredAt ?? null),
    claims.map((c) => c.origin),
    claims.map((c) => c.verifiedBy),
    claims.map((c) => c.rows.length),
    claims.map((c) => c.bodySha256 ?? null),
    claims.map((c) => c.refuseKnownBytes ?? false),
    claims.map((c) => JSON.stringify(c.headers)),
    claims.length === 1 ? claims[0]!.body : Buffer.concat(claims.map((c) => c.body)),
    bodyAt,
    claims.map((c) => c.body.length),
  ];
}

const INSERT_CLAIM = `
    INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, occurred_at, origin, verified_by,
                               owed, body_sha256, headers, body)`;
const WON = `
        ON CONFLICT DO NOTHING
    RETURNING id, source, tenant, event_id, received_at`;

/** Claims of `input`. Ordered: two statements that insert the same keys in opposite orders would deadlock. */
const CLAIMED = `
  claimed AS (${INSERT_CLAIM}
    SELECT source, tenant, event_id, id, event_type, occurred_at, origin, verified_by, owed, body_sha256, headers,
           substring($13::bytea FROM body_at FOR body_bytes)
      FROM input WHERE NOT (known AND refuse_known)
     ORDER BY nth${WON}
  )`;

/** The rows `r` that are owed for claims `c` that were won. */
const owed = (from: string) => `
  owed AS (
    INSERT INTO webhook_outbox (id, kind, name, order_key, order_name, waits, source, tenant, event_id, leased_by, ran_by,
                                leased_at, attempt, lease_until, state, reason, error, settled_at, trace)
    SELECT r.id, 'handler', r.name, r.order_key, r.order_name, r.order_key IS NOT NULL AND r.unusable IS NULL,
           c.source, c.tenant, c.event_id, r.owner, r.owner, CASE WHEN r.owner IS NOT NULL THEN clock_timestamp() END,
           CASE WHEN r.owner IS NULL THEN 0 ELSE 1 END,
           CASE WHEN r.owner IS NOT NULL THEN clock_timestamp() + r.lease_ms * interval '1 ms'
                WHEN r.unusable IS NOT NULL THEN now() END,
           CASE WHEN r.unusable IS NULL THEN 'pending' ELSE 'dead' END,
           CASE WHEN r.unusable IS NOT NULL THEN 'unusable-id' END, r.unusable,
           CASE WHEN r.unusable IS NOT NULL THEN now() END, r.trace
      FROM ${from}
  )`;
const OWED_MANY =
  owed(`unnest($16::uuid[], $17::text[], $18::uuid[], $19::uuid[], $20::int[], $21::text[], $22::text[], $23::text[],
                  $24::text[])
           AS r(id, name, claim_id, owner, lease_ms, order_key, order_name, unusable, trace)
      JOIN claimed c ON c.id = r.claim_id`);

/** Longest error of a row, in bytes. */
const MAX_ERROR = 1_000;

/** From `$16` to `$24`. */
function owedValues(claims: readonly NewClaim[]): unknown[] {
  const rows = claims.flatMap((claim) => claim.rows.map((row) => ({ ...row, claimId: claim.id })));
  return [
    rows.map((r) => r.id),
    rows.map((r) => r.name),
    rows.map((r) => r.claimId),
    rows.map((r) => r.lease?.owner ?? null),
    rows.map((r) => r.lease?.ms ?? 0),
    rows.map((r) => r.orderKey?.key ?? null),
    rows.map((r) => r.orderKey?.name ?? null),
    rows.map((r) => (r.unusable === undefined ? null : storable(r.unusable, MAX_ERROR))),
    rows.map((r) => r.trace ?? null),
  ];
}

// `known` is read before anything is inserted: the statement's snapshot does not see its own rows. An event that is claimed already is only
// redelivered, even if others with its bytes came in the meantime. Of new events with the same bytes, the second is suspected. That is
// recorded here, since no later statement would know. There is no EXISTS: it may be planned as a hash of the whole table.
export const CLAIM = `
  WITH given AS (
    SELECT i.*, i.body_sha256 IS NOT NULL AND (
             SELECT 1 FROM webhook_claim c
              WHERE c.source = i.source AND c.tenant = i.tenant AND c.event_id = i.event_id) IS NULL AS suspicious${EVENTS}
  ), input AS (
    SELECT g.*, g.suspicious AND (
             row_number() OVER (PARTITION BY g.suspicious, g.source, g.tenant, g.body_sha256 ORDER BY g.nth) > 1 OR (
               SELECT 1 FROM webhook_claim k
                WHERE k.source = g.source AND k.tenant = g.tenant AND k.body_sha256 = g.body_sha256 LIMIT 1) IS NOT NULL) AS known
      FROM given g
  ), ${CLAIMED}, suspected AS (
    INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
    SELECT source, tenant, event_id, 'suspected-replay', body_sha256 FROM input WHERE known
     ORDER BY nth
        ON CONFLICT (source, tenant, event_id, kind, body_sha256)
        DO UPDATE SET deliveries = webhook_conflict.deliveries + 1, last_at = now()
  ), ${OWED_MANY}
  SELECT i.id, i.known AS suspected, ${millis('c.received_at')} AS received_ms FROM input i LEFT JOIN claimed c ON c.id = i.id`;

/** The same for events whose ids are signed, so nothing is suspected. It reads no other claims. Values as above. */
export const CLAIM_SIGNED = `
  WITH input AS (
    SELECT i.*, false AS known${EVENTS}
  ), ${CLAIMED}, ${OWED_MANY}
  SELECT id, false AS suspected, ${millis('received_at')} AS received_ms FROM claimed`;

const SEARCHED = `, searched AS (
    INSERT INTO webhook_payload_value (source, path, value, claim_id)
    SELECT c.source, v.path, v.value, c.id
      FROM unnest($25::uuid[], $26::text[], $27::text[]) AS v(claim_id, path, value) JOIN claimed c ON c.id = v.claim_id
        ON CONFLICT DO NOTHING
  )`;

/** From `$25` to `$27`. */
function foundValues(found: readonly (SearchValue & { readonly id: string })[]): unknown[] {
  return [found.map((one) => one.id), found.map((one) => one.path), found.map((one) => one.value)];
}

/** The same for sources with `searchPaths`: claim, path and value of each come after the other values. */
const withSearchValues = (claim: string) => claim.replace(OWED_MANY, () => OWED_MANY + SEARCHED);

/** The same of one event with one row: without arrays, which take longer than what is in them. It has values of its own. */
export const CLAIM_ONE = `
  WITH claimed AS (${INSERT_CLAIM}
    VALUES ($1::text, $2::text, $3::text, $4::uuid, $5::text, $6::timestamptz, $7::text, $8::text, 1, NULL, $9::jsonb, $10::bytea)${WON}
  ), ${owed(`(VALUES ($11::uuid, $12::text, $13::uuid, $14::int, $15::text, $16::text, $17::text, $18::text))
           AS r(id, name, owner, lease_ms, order_key, order_name, unusable, trace)
     CROSS JOIN claimed c`)}
  SELECT id, false AS suspected, ${millis('received_at')} AS received_ms FROM claimed`;

const oneClaim = (claim: NewClaim, row: NewHandlerRow) => [
  claim.source,
  claim.tenant,
  claim.eventId,
  claim.id,
  claim.type,
  claim.occurredAt ?? null,
  claim.origin,
  claim.verifiedBy,
  JSON.stringify(claim.headers),
  claim.body,
  row.id,
  ...rowValues(row),
];

const rowValues = (row: NewHandlerRow) => [
  row.name,
  row.lease?.owner ?? null,
  row.lease?.ms ?? 0,
  row.orderKey?.key ?? null,
  row.orderKey?.name ?? null,
  row.unusable === undefined ? null : storable(row.unusable, MAX_ERROR),
  row.trace ?? null,
];

/** The keys of events, as three arrays. */
export const keysOf = (events: readonly EventKey[]) => [
  events.map((e) => e.source),
  events.map((e) => e.tenant),
  events.map((e) => e.eventId),
];
