import { PLACE } from './turn.sql.js';

// `known` is read before anything is inserted: the statement's snapshot does not see its own rows. An event that is claimed already
// is only redelivered, whatever others with its bytes came in the meantime.
export const CLAIM = `
  WITH input AS (
    SELECT i.*, i.body_sha256 IS NOT NULL AND EXISTS (
             SELECT FROM webhook_claim k
              WHERE k.source = i.source AND k.tenant = i.tenant AND k.body_sha256 = i.body_sha256
                AND k.event_id <> i.event_id) AND NOT EXISTS (
             SELECT FROM webhook_claim c
              WHERE c.source = i.source AND c.tenant = i.tenant AND c.event_id = i.event_id) AS known
      FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::timestamptz[], $7::text[], $8::text[],
                  $9::int[], $10::bytea[], $11::boolean[], $12::jsonb[], $13::bytea[])
           AS i(source, tenant, event_id, id, event_type, occurred_at, origin, verified_by,
                owed, body_sha256, refuse_known, headers, body)
  ), claimed AS (
    INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, occurred_at, origin, verified_by,
                               owed, body_sha256, headers, body)
    SELECT source, tenant, event_id, id, event_type, occurred_at, origin, verified_by, owed, body_sha256, headers, body
      FROM input WHERE NOT (known AND refuse_known)
        ON CONFLICT DO NOTHING
    RETURNING id, source, tenant, event_id, received_at
  ), owed AS (
    INSERT INTO webhook_outbox (id, kind, name, order_key, waits, source, tenant, event_id, leased_by, attempt, due_at)
    SELECT r.id, 'handler', r.name, r.order_key, r.order_key IS NOT NULL, c.source, c.tenant, c.event_id, r.owner,
           CASE WHEN r.owner IS NULL THEN 0 ELSE 1 END,
           CASE WHEN r.owner IS NULL THEN now() ELSE clock_timestamp() + r.lease_ms * interval '1 ms' END
      FROM unnest($14::uuid[], $15::text[], $16::uuid[], $17::uuid[], $18::int[], $19::text[])
           AS r(id, name, claim_id, owner, lease_ms, order_key)
      JOIN claimed c ON c.id = r.claim_id
  )
  SELECT i.id, i.known AS suspected, c.received_at FROM input i LEFT JOIN claimed c ON c.id = i.id`;

export const DUPLICATE = `
  WITH claim AS (
    SELECT source, tenant, event_id, origin, body FROM webhook_claim
     WHERE source = $1 AND tenant = $2 AND event_id = $3 AND erased_at IS NULL
  ), revived AS (
    UPDATE webhook_outbox o
       SET state = 'pending', revived = true, due_at = ${PLACE}, attempt_base = attempt, settled_at = NULL, reason = NULL,
           waits = order_key IS NOT NULL
      FROM claim c
     WHERE $5 AND o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id AND o.event_id IS NOT NULL
       AND o.kind = 'handler' AND o.state = 'dead' AND NOT o.revived AND o.reason IS DISTINCT FROM 'given-up'
    RETURNING o.id
  ), conflict AS (
    INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
    SELECT source, tenant, event_id, 'other-bytes', $4
      FROM claim WHERE $6 AND origin = 'delivery' AND body IS NOT NULL AND sha256(body) <> $4
        ON CONFLICT (source, tenant, event_id, kind, body_sha256)
        DO UPDATE SET deliveries = webhook_conflict.deliveries + 1, last_at = now()
    RETURNING 1
  )
  SELECT (SELECT count(*)::int FROM revived) AS revived, (SELECT count(*)::int FROM conflict) AS conflicts`;

export const SUSPECTED_REPLAY = `
  INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
  VALUES ($1, $2, $3, 'suspected-replay', $4)
      ON CONFLICT (source, tenant, event_id, kind, body_sha256)
      DO UPDATE SET deliveries = webhook_conflict.deliveries + 1, last_at = now()`;

// The claim is locked, so that an erasure at the same moment is seen. `owed` stays: it says what the first receiver knew.
export const ADD_ROW = `
  WITH claim AS (
    SELECT source, tenant, event_id FROM webhook_claim WHERE id = $1 AND erased_at IS NULL FOR SHARE
  )
  INSERT INTO webhook_outbox (id, kind, name, order_key, waits, source, tenant, event_id)
  SELECT $2, 'handler', $3, $4, $4::text IS NOT NULL, source, tenant, event_id FROM claim
      ON CONFLICT DO NOTHING
  RETURNING id`;

// In the order of the index on (source, received_at): by id, it would read every claim of the table before the window's first.
export const RECENT = `
  SELECT c.id, c.source, c.tenant, c.event_id, c.event_type, c.owed, c.received_at::text AS cursor_at,
         ARRAY(SELECT o.name FROM webhook_outbox o
                WHERE o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
                  AND o.event_id IS NOT NULL AND o.kind = 'handler') AS names
    FROM webhook_claim c
   WHERE c.source = $1 AND c.received_at > now() - $2 * interval '1 ms' AND c.erased_at IS NULL
     AND c.received_at >= $4::timestamptz AND (c.received_at, c.id) > ($4::timestamptz, $5::uuid)
   ORDER BY c.received_at, c.id LIMIT $3`;

export const PROGRESS = `
  SELECT EXISTS (SELECT FROM webhook_outbox o
                  WHERE o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
                    AND o.event_id IS NOT NULL AND o.kind = 'handler' AND o.state = 'pending') AS pending
    FROM webhook_claim c WHERE c.source = $1 AND c.tenant = $2 AND c.event_id = $3`;

export const LOAD = `
  SELECT id, source, tenant, event_id, event_type, occurred_at, received_at, headers, body, erased_at IS NOT NULL AS erased
    FROM webhook_claim WHERE source = $1 AND tenant = $2 AND event_id = $3`;
