import { endedAttempts, LOST_ATTEMPTS } from './desk/attempt.store.js';
import { FENCE, FENCED_ROWS, FREE } from './pending.sql.js';
import { isoText, millis } from './stored-event.js';

/**
 * Attempts of a row in quarantine that do not count: the loss that brought a handler there. It was rolled back, and another row may have
 * killed the process. An effect's loss counts, as its call may have been made.
 */
export const FORGIVEN = (row: string) =>
  `CASE WHEN ${row}.alone AND ${row}.kind = 'handler' THEN 1 ELSE 0 END`;

/**
 * The second half of the leases. The attempt is counted here, before the run, so that a row that kills its process runs out of attempts. An
 * attempt counted before and not settled is `lost`. A loss beside other rows says little about this row, so the row moves to the
 * quarantine. There it runs alone, and the next loss is its own. In quarantine `due_at` is the position in the line, which begins anew with
 * each lease. LATERAL with a LIMIT: a join may be planned as a hash of all claims or payloads, for as few rows as these.
 * @param seen the names that have due rows, in the first row alone
 */
const take = (seen: string) => `
  taken AS (
    UPDATE webhook_outbox o
       SET attempt = o.attempt + CASE WHEN due.exhausted OR due.moves THEN 0 ELSE 1 END,
           lost = o.lost + CASE WHEN o.leased_by IS NULL THEN 0 ELSE 1 END,
           alone = o.alone OR due.moves,
           leased_by = CASE WHEN due.exhausted OR due.moves THEN NULL ELSE $1::uuid END,
           ran_by = CASE WHEN due.exhausted OR due.moves THEN o.ran_by ELSE $1::uuid END,
           leased_at = CASE WHEN due.exhausted OR due.moves THEN o.leased_at ELSE clock_timestamp() END,
           first_leased_at = coalesce(o.first_leased_at, clock_timestamp()),
           lease_until = CASE WHEN due.exhausted THEN now() WHEN due.moves THEN NULL ELSE clock_timestamp() + $2 * interval '1 ms' END,
           due_at = CASE WHEN due.moves THEN o.lease_until
                         WHEN o.alone AND NOT due.exhausted THEN clock_timestamp() + $2 * interval '1 ms'
                         ELSE least(o.due_at, now()) END,
           state = CASE WHEN NOT due.exhausted THEN 'pending' WHEN due.in_doubt THEN 'parked' ELSE 'dead' END,
           settled_at = CASE WHEN due.exhausted AND NOT due.in_doubt THEN clock_timestamp() END,
           reason = CASE WHEN NOT due.exhausted THEN NULL
                         WHEN due.in_doubt THEN 'in-doubt'
                         WHEN o.attempt = 0 OR due.max_attempts = 0 THEN 'not-redelivered'
                         WHEN o.leased_by IS NULL THEN 'attempts-exhausted' ELSE 'last-attempt-lost' END
      FROM due WHERE o.id = due.id
    RETURNING o.*, due.exhausted, due.was_lost, due.moves, due.was_due, due.last_attempt, due.last_begun, due.last_until, due.last_by
  ), ${LOST_ATTEMPTS}
  SELECT t.id, t.kind, t.name, t.key, t.attempt, t.attempt - t.attempt_base - ${FORGIVEN('t')} AS tries, t.lost, t.was_lost,
         t.alone, t.moves, ${isoText('t.was_due')} AS was_due, t.exhausted, t.reason, t.error, t.order_key, t.order_name, t.generation, t.rerun, t.trace, t.begun_at IS NOT NULL AS begun, CASE WHEN t.kind = 'effect' THEN t.first_leased_at END AS first_leased_at,
         extract(epoch FROM clock_timestamp() - t.first_leased_at)::float8 * 1000 AS age_ms,
         extract(epoch FROM clock_timestamp() - t.created_at)::float8 * 1000 AS queued_ms,
         t.source, t.tenant, t.event_id, c.id AS claim_id, c.event_type, ${millis('c.occurred_at')} AS occurred_ms,
         ${millis('c.received_at')} AS received_ms, c.headers,
         CASE WHEN t.kind = 'handler' THEN c.body END AS body, d.payload, d.result, ${seen} AS seen
    FROM taken t
    LEFT JOIN LATERAL (
      SELECT id, event_type, occurred_at, received_at, headers, body FROM webhook_claim
       WHERE source = t.source AND tenant = t.tenant AND event_id = t.event_id AND NOT t.moves LIMIT 1) c ON true
    LEFT JOIN LATERAL (
      SELECT payload, result FROM webhook_outbox_data
       WHERE outbox_id = t.id AND t.kind = 'effect' AND NOT t.moves LIMIT 1) d ON true
   ORDER BY t.created_at, t.id`;

/** Of a row `o` that is about to be leased: its last attempt, which may have no end. */
const LAST = `o.attempt AS last_attempt, o.leased_at AS last_begun, o.lease_until AS last_until, o.ran_by AS last_by`;

/**
 * The lease of up to `limit` rows.
 * A share is what slots are divided among: a source, or an effect. Each gets its first row before any gets its second, so no share
 * starves or gets more than its limit. Names of one share may have different limits for all rows of it. Those of the smallest come first,
 * and rows that it keeps out take no place from the others. MATERIALIZED: without it a nested loop may run the sub-select again for
 * each row, and lease far more than the limit. The state is a literal: with a parameter a generic plan cannot use the partial index. The
 * limit is one too, rounded up: a tenth of the table is what a generic plan takes a parameter for, and it reads tables from end to end then.
 */
export const leaseDue = (limit: number) => `
  WITH found AS MATERIALIZED (
    SELECT o.id, n.name, n.max_attempts, o.leased_by IS NOT NULL AS was_lost, n.parks AND o.begun_at IS NOT NULL AS in_doubt,
           o.exhausted, o.leased_by IS NOT NULL AND NOT o.exhausted AS moves, n.share, n.share_limit, o.due_at AS was_due,
           row_number() OVER (PARTITION BY n.share ORDER BY n.share_limit, o.due_at) AS place,
           ${LAST}
      FROM unnest($3::text[], $4::int[], $5::int[], $7::boolean[], $8::text[], $9::int[], $10::timestamptz[])
           AS n(name, max_attempts, max_rows, parks, share, share_limit, since)
     CROSS JOIN LATERAL (
       SELECT id, leased_by, lease_until, begun_at, due_at, attempt, leased_at, ran_by,
              attempt - attempt_base >= n.max_attempts
                AND (leased_by IS NULL OR kind = 'effect' OR n.max_attempts = 0) AS exhausted
         FROM webhook_outbox
        WHERE state = 'pending' AND NOT waits AND NOT alone AND name = n.name
          AND due_at >= n.since AND due_at <= now() AND ${FREE}
        ORDER BY due_at LIMIT n.max_rows
          FOR UPDATE SKIP LOCKED
     ) o
  ), due AS MATERIALIZED (
    SELECT * FROM (
      SELECT * FROM (
        SELECT *, place + least(0, min(share_limit - place) OVER (
                 PARTITION BY share ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS nth
          FROM found
      ) ranked
       WHERE nth <= share_limit
       ORDER BY nth LIMIT $6
    ) due LIMIT ${roundedUp(limit)}
  ), ${take(`CASE WHEN row_number() OVER (ORDER BY t.created_at, t.id) = 1 THEN (SELECT array_agg(DISTINCT name) FROM found) END`)}`;

/** To a power of ten, so that there are few texts. */
const roundedUp = (limit: number) => 10 ** Math.ceil(Math.log10(Math.max(limit, 10)));

// The quarantine: the first row of its line. A handler that has moved here gets its run, and is dead when the losses here use its attempts
// up.
export const LEASE_ALONE = `
  WITH due AS MATERIALIZED (
    SELECT o.id, n.max_attempts, o.leased_by IS NOT NULL AS was_lost, n.parks AND o.begun_at IS NOT NULL AS in_doubt, false AS moves,
           o.attempt - o.attempt_base >= n.max_attempts AND (o.leased_by IS NOT NULL OR o.kind = 'effect') AS exhausted,
           o.due_at AS was_due, ${LAST}
      FROM webhook_outbox o JOIN unnest($3::text[], $4::int[], $5::boolean[]) AS n(name, max_attempts, parks) ON n.name = o.name
     WHERE o.state = 'pending' AND NOT o.waits AND o.alone AND o.due_at <= now() AND (o.leased_by IS NULL OR o.lease_until <= now())
     ORDER BY o.due_at LIMIT 1
       FOR UPDATE OF o SKIP LOCKED
  ), ${take('NULL::text[]')}`;

export const LEASE_EVENT = `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.attempt - o.attempt_base >= n.max_attempts AS exhausted, n.max_attempts,
           o.leased_by IS NOT NULL AS was_lost, false AS in_doubt, false AS moves, o.due_at AS was_due,
           ${LAST}
      FROM webhook_outbox o JOIN unnest($6::text[], $7::int[]) AS n(name, max_attempts) ON n.name = o.name
     WHERE o.id = ANY (webhook_rows_of($3, $4, $5)) AND o.kind = 'handler'
       AND o.state = 'pending' AND NOT o.waits AND (o.leased_by IS NULL OR o.lease_until <= now())
       FOR UPDATE OF o SKIP LOCKED
  ), ${take('NULL::text[]')}`;

// A statement of its own, after the lease: rows that another redelivery has just locked were skipped there and count here.
export const LIVE_LEASES = `
  SELECT count(*)::int AS pending FROM webhook_outbox
   WHERE id = ANY (webhook_rows_of($1, $2, $3)) AND kind = 'handler'
     AND state = 'pending' AND NOT id = ANY($4::uuid[])`;

/**
 * Rows that became dead or parked in the last $2 milliseconds by a lease, by a claim, or, of those in $3, by a settle. A
 * lease and a claim write into `lease_until` when that was; a settle leaves the end of its lease there, which is later.
 */
export const EXHAUSTED_SINCE = `
  WITH died AS MATERIALIZED (
    SELECT id, name, attempt, reason, error, source, tenant, event_id, settled_at AS at FROM webhook_outbox
     WHERE state = 'dead' AND settled_at >= now() - $2 * interval '1 ms'
       AND (id = ANY($3::uuid[])
            OR lease_until <= settled_at AND reason IN ('attempts-exhausted', 'last-attempt-lost', 'not-redelivered', 'unusable-id'))
    UNION ALL
    SELECT id, name, attempt, reason, error, source, tenant, event_id, lease_until FROM webhook_outbox
     WHERE state = 'parked' AND reason = 'in-doubt' AND lease_until BETWEEN now() - $2 * interval '1 ms' AND now()
  )
  SELECT id, name, attempt, reason, error, source, tenant, event_id FROM died
   WHERE name = ANY($1)
   ORDER BY at LIMIT 1000`;

export const BEGIN_EFFECT = `
  WITH begun AS (
    UPDATE webhook_outbox o SET begun_at = clock_timestamp() WHERE ${FENCE} RETURNING o.id
  )
  SELECT id FROM begun`;

// An attempt whose loss does not count. `attempt_base` stays within `attempt`: the attempts that brought the row into quarantine are
// counted.
export const EXCUSE = `
  UPDATE webhook_outbox o SET attempt_base = least(o.attempt, o.attempt_base + 1) WHERE ${FENCE}`;

export const RELEASE = `
  WITH ours AS MATERIALIZED (${FENCED_ROWS} FOR UPDATE OF o),
  released AS (
    UPDATE webhook_outbox o SET leased_by = NULL, attempt_base = o.attempt_base + 1,
           first_leased_at = CASE WHEN $5::boolean OR EXISTS (SELECT FROM webhook_attempt a WHERE a.outbox_id = o.id)
                                  THEN o.first_leased_at END,
           due_at = CASE WHEN $4 = 0 AND NOT o.alone THEN o.due_at
                         ELSE greatest(now(), coalesce($6::timestamptz, now()) + $4 * interval '1 ms') END
      FROM ours WHERE o.id = ours.id
    RETURNING o.*
  ), begun AS (
    SELECT * FROM released WHERE $5::boolean
  ), ${endedAttempts('begun', `'released'`, 'NULL, NULL, NULL')}
  SELECT id FROM released`;

export const RENEW = `
  WITH ours AS MATERIALIZED (${FENCED_ROWS} FOR UPDATE OF o SKIP LOCKED),
  renewed AS (
    UPDATE webhook_outbox o SET lease_until = clock_timestamp() + $4 * interval '1 ms'
      FROM ours WHERE o.id = ours.id
    RETURNING o.id
  )
  SELECT o.id FROM webhook_outbox o
    JOIN unnest($1::uuid[], $2::int[], $3::uuid[]) AS f(id, attempt, owner)
      ON o.id = f.id AND o.attempt = f.attempt AND o.leased_by = f.owner
   WHERE o.state = 'pending'`;
