import { isoText } from '../stored-event.js';

// The planner prefers a hash of the whole outbox to 500 look-ups in it. That takes 290 ms instead of 16 for 100 claims at 300,000 rows with
// fresh statistics, and longer with more rows. It takes a range of ids for a two-hundredth of the table, and would read that by bitmap.
export const INDEXES_ONLY = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off`;

/**
 * Whether a row `o` keeps its event at any age. Unsettled work always does. Dead work does for as long as its source keeps claims, counted
 * from its death. So does work that was started again by a person, a redelivery or the reconciler.
 */
const keeps = (states: string, ageMs: string) => `(
  o.state IN (${states})
  OR (o.settled_at >= now() - ${ageMs} * interval '1 ms' AND (o.state = 'dead' OR (o.state <> 'erased' AND o.attempt_base > 0))))`;

/**
 * Whether a row `o` is of the claim `c`: as `webhook_rows_of`, written out. At ten million claims it takes 3 µs where the function takes 40,
 * which were half of a prune.
 */
const isOf = (c: string) => `
  o.id BETWEEN (overlay(left(${c}.id::text, 18) PLACING '8' FROM 15) || '-0000-000000000000')::uuid
           AND (overlay(left(${c}.id::text, 18) PLACING '8' FROM 15) || '-ffff-ffffffffffff')::uuid
    AND o.source = ${c}.source AND o.tenant = ${c}.tenant AND o.event_id = ${c}.event_id`;

const kept = (states: string) => `
  EXISTS (SELECT FROM webhook_outbox o WHERE ${isOf('c')} AND ${keeps(states, '$2')})`;

// It begins where the batch before has ended: a night reads each claim that is kept for its rows once, as those of a mass replay are.
export const LOCK_OLD_CLAIMS = `
  SELECT c.source, c.tenant, c.event_id, c.id, ${isoText('c.received_at')} AS at FROM webhook_claim c
   WHERE c.source = $1 AND c.received_at < now() - $2 * interval '1 ms' AND c.received_at >= $4::timestamptz
     AND NOT ${kept(`'pending', 'parked', 'handed'`)}
   ORDER BY c.received_at LIMIT $3
     FOR UPDATE OF c SKIP LOCKED`;

/**
 * Of the locked claims those that may go. It is a statement of its own, after the lock, so that it sees a replay that committed in between.
 * An event stays if another transaction has locked one of its rows. It also stays if a row turns out to be unsettled under its lock. A
 * redelivery revives dead rows without the claim's lock, and the reconciler makes done rows run again. NOT IN is hashed. Joined, 500 of
 * these rows are compared with each of 500: that took 240 ms of 270.
 */
const going = (unsettledStates: string) => `
  old AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $5::uuid[]) AS k(source, tenant, event_id, id)
  ), rows AS MATERIALIZED (
    SELECT o.id, old.id AS claim_id, ${keeps(unsettledStates, '$4')} AS keeps
      FROM old JOIN webhook_outbox o ON ${isOf('old')}
       FOR UPDATE OF o SKIP LOCKED
  ), staying AS MATERIALIZED (
    SELECT old.id FROM old JOIN webhook_outbox o ON ${isOf('old')}
     WHERE o.id NOT IN (SELECT id FROM rows WHERE NOT keeps)
  ), going AS MATERIALIZED (
    SELECT source, tenant, event_id FROM old WHERE id NOT IN (SELECT id FROM staying)
  )`;

export const DELETE_CLAIMS = `
  WITH ${going(`'pending', 'parked', 'handed'`)}, claims AS (
    DELETE FROM webhook_claim c USING going g
     WHERE c.source = g.source AND c.tenant = g.tenant AND c.event_id = g.event_id
    RETURNING c.id
  ), replays AS (
    DELETE FROM webhook_replay r USING claims WHERE r.claim_id = claims.id
  ), found_by AS (
    DELETE FROM webhook_payload_value v USING claims WHERE v.claim_id = claims.id
  ), gone AS (
    DELETE FROM webhook_outbox o USING rows r WHERE o.id = r.id AND r.claim_id NOT IN (SELECT id FROM staying)
    RETURNING o.id
  ), data AS (
    DELETE FROM webhook_outbox_data d USING gone WHERE d.outbox_id = gone.id
  ), attempts AS (
    DELETE FROM webhook_attempt a USING gone WHERE a.outbox_id = gone.id
  ), refires AS (
    DELETE FROM webhook_refire f USING gone WHERE f.outbox_id = gone.id
  ), conflicts AS (
    DELETE FROM webhook_conflict k USING going g
     WHERE k.source = g.source AND k.tenant = g.tenant AND k.event_id = g.event_id
  ), duplicates AS (
    DELETE FROM webhook_duplicate d USING going g
     WHERE d.source = g.source AND d.tenant = g.tenant AND d.event_id = g.event_id
  )
  SELECT count(*)::int AS count FROM claims`;

// Dead work keeps its body: a person may start it again. These batches also go on where the one before ended. An index of the claims
// that still have a body would be written by every claim, for the few sources that empty bodies sooner.
export const LOCK_OLD_BODIES = `
  SELECT c.source, c.tenant, c.event_id, c.id, ${isoText('c.received_at')} AS at FROM webhook_claim c
   WHERE c.source = $1 AND c.received_at < now() - $2 * interval '1 ms' AND c.received_at >= $4::timestamptz AND c.body IS NOT NULL
     AND NOT ${kept(`'pending', 'parked', 'handed', 'dead'`)}
   ORDER BY c.received_at LIMIT $3
     FOR UPDATE OF c SKIP LOCKED`;

export const EMPTY_BODIES = `
  WITH ${going(`'pending', 'parked', 'handed', 'dead'`)}, emptied AS (
    UPDATE webhook_claim c SET body = NULL, headers = '{}' FROM going g
     WHERE c.source = g.source AND c.tenant = g.tenant AND c.event_id = g.event_id
    RETURNING c.id
  ), conflicts AS (
    UPDATE webhook_conflict k SET body = NULL, headers = NULL FROM going g
     WHERE k.source = g.source AND k.tenant = g.tenant AND k.event_id = g.event_id AND (k.body IS NOT NULL OR k.headers IS NOT NULL)
  ), found_by AS (
    DELETE FROM webhook_payload_value v USING emptied WHERE v.claim_id = emptied.id
  )
  SELECT count(*)::int AS count FROM emptied`;

/**
 * A page of payloads in the order of arrival: an outbox id begins with the milliseconds of it. The row beside the payload stays, as
 * a repeated run finds by it that the effect is there.
 */
export const EMPTY_EFFECTS = `
  WITH page AS MATERIALIZED (
    SELECT outbox_id FROM webhook_outbox_data
     WHERE payload IS NOT NULL AND outbox_id > $4::uuid
       AND outbox_id < rpad(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - $2::bigint), 12, '0'), 32, '0')::uuid
     ORDER BY outbox_id LIMIT $3
  ), old AS MATERIALIZED (
    SELECT o.id FROM page JOIN webhook_outbox o ON o.id = page.outbox_id
     WHERE o.source = $1 AND o.kind = 'effect' AND o.state IN ('done', 'erased', 'cancelled')
       AND NOT ${keeps(`'pending'`, '$2')}
       FOR UPDATE OF o SKIP LOCKED
  ), emptied AS (
    UPDATE webhook_outbox_data d SET payload = NULL, result = NULL FROM old WHERE d.outbox_id = old.id RETURNING 1
  )
  SELECT (SELECT count(*)::int FROM emptied) AS count, (SELECT count(*)::int FROM page) AS looked,
         (SELECT outbox_id FROM page ORDER BY outbox_id DESC LIMIT 1) AS last`;

export const DELETE_EFFECTS = `
  WITH old AS MATERIALIZED (
    SELECT id FROM webhook_outbox
     WHERE event_id IS NULL AND settled_at < now() - $1 * interval '1 ms'
     ORDER BY settled_at LIMIT $2
       FOR UPDATE SKIP LOCKED
  ), rows AS (
    DELETE FROM webhook_outbox o USING old WHERE o.id = old.id RETURNING o.id
  ), data AS (
    DELETE FROM webhook_outbox_data d USING rows WHERE d.outbox_id = rows.id
  ), attempts AS (
    DELETE FROM webhook_attempt a USING rows WHERE a.outbox_id = rows.id
  )
  SELECT count(*)::int AS count FROM rows`;

/** Conflicts of deliveries that were never claimed; those of claims go with them. */
export const DELETE_CONFLICTS = `
  WITH old AS MATERIALIZED (
    SELECT k.ctid AS at FROM webhook_conflict k
     WHERE k.last_at < now() - $1 * interval '1 ms'
       AND NOT EXISTS (SELECT FROM webhook_claim c
                        WHERE c.source = k.source AND c.tenant = k.tenant AND c.event_id = k.event_id)
     LIMIT $2 FOR UPDATE OF k SKIP LOCKED
  ), gone AS (
    DELETE FROM webhook_conflict k USING old WHERE k.ctid = old.at RETURNING 1
  )
  SELECT count(*)::int AS count FROM gone`;

/**
 * A page of marks in the order of their key. An index on their times would cost every handler that raises one, to save a walk a night. The
 * lock checks again: a mark that has just been raised stays.
 */
export const DELETE_WATERMARKS = `
  WITH page AS MATERIALIZED (
    SELECT handler, source, tenant, key_sha256 FROM webhook_watermark
     WHERE (handler, source, tenant, key_sha256) > ($4, $5, $6, $7::bytea)
     ORDER BY handler, source, tenant, key_sha256 LIMIT $3
  ), old AS MATERIALIZED (
    SELECT w.handler, w.source, w.tenant, w.key_sha256
      FROM page p LEFT JOIN unnest($1::text[], $2::float8[]) AS s(source, age_ms) ON s.source = p.source
      JOIN webhook_watermark w ON w.handler = p.handler AND w.source = p.source AND w.tenant = p.tenant AND w.key_sha256 = p.key_sha256
     WHERE w.at < now() - coalesce(s.age_ms, CASE WHEN p.source <> ALL ($9::text[]) THEN $8::float8 END) * interval '1 ms'
       FOR UPDATE OF w SKIP LOCKED
  ), gone AS (
    DELETE FROM webhook_watermark w USING old
     WHERE w.handler = old.handler AND w.source = old.source AND w.tenant = old.tenant AND w.key_sha256 = old.key_sha256
    RETURNING 1
  ), last AS (
    SELECT * FROM page ORDER BY handler DESC, source DESC, tenant DESC, key_sha256 DESC LIMIT 1
  )
  SELECT (SELECT count(*)::int FROM gone) AS count, (SELECT count(*)::int FROM page) AS looked,
         (SELECT to_jsonb(last) - 'key_sha256' FROM last) AS place, (SELECT key_sha256 FROM last) AS key_sha256`;

/** Each source that has claims, by one look-up in the index for each. */
export const STORED_SOURCES = `
  WITH RECURSIVE stored AS (
    (SELECT source FROM webhook_claim ORDER BY source LIMIT 1)
    UNION ALL
    SELECT n.source FROM stored s CROSS JOIN LATERAL (
      SELECT source FROM webhook_claim WHERE source > s.source ORDER BY source LIMIT 1) n
  )
  SELECT source FROM stored s
   WHERE $1::float8 IS NULL OR NOT EXISTS (
           SELECT FROM webhook_claim c WHERE c.source = s.source AND c.received_at >= now() - $1 * interval '1 ms')
   ORDER BY source`;

/** The oldest of the audit. Its ids are in the order of time. */
export const DELETE_AUDIT = `
  WITH old AS (
    SELECT id, at FROM webhook_audit ORDER BY id LIMIT $2
  ), gone AS (
    DELETE FROM webhook_audit a USING old WHERE a.id = old.id AND old.at < now() - $1 * interval '1 ms' RETURNING 1
  )
  SELECT count(*)::int AS count FROM gone`;

// Small tables. Each night reads all of them.
export const DELETE_ISSUES = `
  WITH gone AS (DELETE FROM webhook_issue WHERE changed_at < now() - $1 * interval '1 ms' RETURNING 1)
  SELECT count(*)::int AS count FROM gone`;
export const DELETE_SECRET_USES = `
  WITH gone AS (DELETE FROM webhook_secret_use WHERE last_at < now() - $1 * interval '1 ms' RETURNING 1)
  SELECT count(*)::int AS count FROM gone`;
/** Of processes that ended before they could give them back, and of jobs that no version knows any more. */
export const DELETE_LEASES = `
  WITH gone AS (DELETE FROM webhook_lease WHERE until < now() - interval '1 day' RETURNING 1)
  SELECT count(*)::int AS count FROM gone`;

/** A page of counts of duplicates, in the order of their keys: those that were written after their claim had gone. */
export const DELETE_DUPLICATES = `
  WITH page AS MATERIALIZED (
    SELECT source, tenant, event_id, last_at FROM webhook_duplicate
     WHERE (source, tenant, event_id) > ($3, $4, $5)
     ORDER BY source, tenant, event_id LIMIT $2
  ), gone AS (
    DELETE FROM webhook_duplicate d USING page p
     WHERE d.source = p.source AND d.tenant = p.tenant AND d.event_id = p.event_id
       AND p.last_at < now() - $1 * interval '1 ms'
       AND NOT EXISTS (SELECT FROM webhook_claim c
                        WHERE c.source = p.source AND c.tenant = p.tenant AND c.event_id = p.event_id)
    RETURNING 1
  ), last AS (
    SELECT source, tenant, event_id FROM page ORDER BY source DESC, tenant DESC, event_id DESC LIMIT 1
  )
  SELECT (SELECT count(*)::int FROM gone) AS count, (SELECT count(*)::int FROM page) AS looked,
         (SELECT to_jsonb(last) FROM last) AS last`;
