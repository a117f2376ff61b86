import { rerun } from './desk/replay.sql.js';
import { isoText, millis } from './stored-event.js';
import { PLACE } from './turn.sql.js';

// LATERAL with a LIMIT: an array has no statistics, and a hash of the whole table would be planned for it.
export const DUPLICATES = `
  WITH known AS MATERIALIZED (
    SELECT i.nth, i.revive, i.body_sha256, i.compare, c.source, c.tenant, c.event_id, c.body,
           c.origin = 'delivery' AND c.body IS NOT NULL AND sha256(c.body) <> i.body_sha256 AS differs
      FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::boolean[], $6::text[]) WITH ORDINALITY
           AS i(source, tenant, event_id, body_sha256, revive, compare, nth)
     CROSS JOIN LATERAL (
       SELECT source, tenant, event_id, origin, body FROM webhook_claim
        WHERE source = i.source AND tenant = i.tenant AND event_id = i.event_id AND erased_at IS NULL
        LIMIT 1
     ) c
  ), dead AS MATERIALIZED (
    SELECT o.id
      FROM (SELECT DISTINCT source, tenant, event_id FROM known WHERE revive ORDER BY source, tenant, event_id) k
     CROSS JOIN LATERAL (
       SELECT id FROM webhook_outbox
        WHERE id = ANY (webhook_rows_of(k.source, k.tenant, k.event_id))
          AND kind = 'handler' AND state = 'dead' AND NOT revived
          AND reason IS DISTINCT FROM 'given-up' AND reason IS DISTINCT FROM 'unusable-id'
        ORDER BY id FOR UPDATE
     ) o
  ), revived AS (
    UPDATE webhook_outbox o
       SET state = 'pending', revived = true, due_at = ${PLACE}, attempt_base = attempt, settled_at = NULL, reason = NULL,
           waits = order_key IS NOT NULL, alone = false, rerun = ${rerun()}
      FROM dead WHERE o.id = dead.id
    RETURNING o.source, o.tenant, o.event_id
  )
  SELECT nth::int, differs, CASE WHEN differs AND compare = 'content' THEN body END AS first, EXISTS (
           SELECT FROM revived r WHERE r.source = k.source AND r.tenant = k.tenant AND r.event_id = k.event_id) AS revived
    FROM known k`;

/** Of each body that contradicts a first one, so many bytes are kept, and of so many bodies for each event. */
const KEPT_BYTES = 256 * 1024;
const KEPT_BODIES = 5;

// A body is kept only while the claim has its own, and behind the claim's lock: an erasure at the same moment would not find it. This
// statement does not wait for a locked claim. It records the conflict without its body then.
export const CONFLICTS = `
  WITH given AS (
    SELECT source, tenant, event_id, body_sha256, count(*)::int AS deliveries, min(nth) AS nth
      FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY AS i(source, tenant, event_id, body_sha256, nth)
     GROUP BY source, tenant, event_id, body_sha256
  ), whole AS MATERIALIZED (
    SELECT c.source, c.tenant, c.event_id
      FROM (SELECT DISTINCT source, tenant, event_id FROM given) g
     CROSS JOIN LATERAL (
       SELECT source, tenant, event_id FROM webhook_claim
        WHERE source = g.source AND tenant = g.tenant AND event_id = g.event_id AND body IS NOT NULL
          FOR SHARE SKIP LOCKED) c
  )
  INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, deliveries, headers, body)
  SELECT g.source, g.tenant, g.event_id, 'other-bytes', g.body_sha256, g.deliveries,
         CASE WHEN kept THEN ($5::jsonb[])[g.nth] END, CASE WHEN kept THEN substring(($6::bytea[])[g.nth] FOR ${KEPT_BYTES}) END
    FROM given g
   CROSS JOIN LATERAL (
     SELECT EXISTS (SELECT FROM whole w WHERE w.source = g.source AND w.tenant = g.tenant AND w.event_id = g.event_id)
            AND ${KEPT_BODIES} > (SELECT count(*) FROM webhook_conflict k
                                   WHERE k.source = g.source AND k.tenant = g.tenant AND k.event_id = g.event_id
                                     AND k.body IS NOT NULL) AS kept) k
   ORDER BY g.source, g.tenant, g.event_id, g.body_sha256
      ON CONFLICT (source, tenant, event_id, kind, body_sha256)
      DO UPDATE SET deliveries = webhook_conflict.deliveries + EXCLUDED.deliveries, last_at = now()`;

// The claim is locked, so that an erasure at the same moment is seen. `owed` stays: it says what the first receiver knew.
const addRow = (condition = '') => `
  WITH claim AS (
    SELECT source, tenant, event_id FROM webhook_claim c WHERE id = $1 AND erased_at IS NULL ${condition} FOR SHARE
  )
  INSERT INTO webhook_outbox (id, kind, name, order_key, order_name, waits, source, tenant, event_id)
  SELECT $2, 'handler', $3, $4, $5, $4::text IS NOT NULL, source, tenant, event_id FROM claim
      ON CONFLICT DO NOTHING
  RETURNING id`;

export const ADD_ROW = addRow();

/** The same, to a claim that nothing was owed for. */
export const ADD_ROW_TO_SKIPPED = addRow(
  `AND owed = 0 AND cardinality(webhook_rows_of(source, tenant, event_id)) = 0`,
);

// In the order of the index on (source, received_at): by id, it would read every claim of the table before the window's first.
export const RECENT = `
  SELECT c.id, c.source, c.tenant, c.event_id, c.event_type, c.owed, ${isoText('c.received_at')} AS cursor_at,
         ARRAY(SELECT o.name FROM webhook_outbox o
                WHERE o.id = ANY (webhook_rows_of(c.source, c.tenant, c.event_id)) AND o.kind = 'handler') AS names
    FROM webhook_claim c
   WHERE c.source = $1 AND c.received_at > now() - $2 * interval '1 ms' AND c.erased_at IS NULL
     AND c.received_at >= $4::timestamptz AND (c.received_at, c.id) > ($4::timestamptz, $5::uuid)
   ORDER BY c.received_at, c.id LIMIT $3`;

export const PROGRESS = `
  SELECT EXISTS (SELECT FROM webhook_outbox o
                  WHERE o.id = ANY (webhook_rows_of(c.source, c.tenant, c.event_id)) AND o.kind = 'handler' AND o.state = 'pending') AS pending
    FROM webhook_claim c WHERE c.source = $1 AND c.tenant = $2 AND c.event_id = $3`;

export const LOAD = `
  SELECT id, source, tenant, event_id, event_type, ${millis('occurred_at')} AS occurred_ms,
         ${millis('received_at')} AS received_ms, headers, body, erased_at IS NOT NULL AS erased
    FROM webhook_claim WHERE source = $1 AND tenant = $2 AND event_id = $3`;
