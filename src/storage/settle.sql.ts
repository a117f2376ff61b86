import { endedAttempts } from './desk/attempt.store.js';
import { FENCE } from './pending.sql.js';
import { FORGIVEN } from './outbox.sql.js';
import { PLACE } from './turn.sql.js';

/** The columns of a row that has succeeded. */
const DONE = `state = 'done', leased_by = NULL, settled_at = clock_timestamp(), reason = NULL, error = NULL, place = NULL,
           begun_at = NULL, alone = false`;

/** Without a result: of a statement that writes to one table, planning takes a third less. */
export const SETTLE = `
  UPDATE webhook_outbox o
     SET ${DONE}
   WHERE ${FENCE}`;

/** Of the error that a settle with the COMMIT fails with. */
export const REFUSED = 'webhook inbox: rows settled: ';

const SETTLED = `
  settled AS (
    UPDATE webhook_outbox o
       SET ${DONE}
     WHERE ${FENCE}
    RETURNING o.id
  )`;
const KEPT = `
  kept AS (
    INSERT INTO webhook_outbox_data (outbox_id, result) SELECT id, $4::text FROM settled
        ON CONFLICT (outbox_id) DO UPDATE SET result = EXCLUDED.result
  )`;

// For one message with COMMIT: they fail where the fence refuses them, so that the COMMIT is not reached. The cast fails when it is
// run, and it is run for no other count than one.
const ONE_OR_FAIL = `SELECT CASE count(*) WHEN 1 THEN 1 ELSE ('${REFUSED}' || count(*))::int END FROM settled`;
export const SETTLE_OR_FAIL = `WITH ${SETTLED} ${ONE_OR_FAIL}`;
export const SETTLE_WITH_RESULT_OR_FAIL = `WITH ${SETTLED}, ${KEPT} ${ONE_OR_FAIL}`;

export const SETTLE_WITH_RESULT = `WITH ${SETTLED}, ${KEPT}
  SELECT count(*)::int AS settled FROM settled`;

export const FAIL = `
  WITH failed AS (
    UPDATE webhook_outbox o
       SET state = $4, leased_by = NULL, error = $7, reason = $6, place = $11,
           alone = false, attempt_base = o.attempt_base + ${FORGIVEN('o')} - CASE WHEN $10 THEN 1 ELSE 0 END,
           begun_at = CASE WHEN $8 THEN o.begun_at END,
           due_at = CASE WHEN $4 = 'pending' THEN greatest(clock_timestamp(),
                         coalesce($9::timestamptz, clock_timestamp()) + $5 * interval '1 ms') ELSE o.due_at END,
           settled_at = CASE WHEN $4 = 'dead' THEN clock_timestamp() END
     WHERE ${FENCE}
    RETURNING o.*
  ), ${endedAttempts('failed', `CASE state WHEN 'pending' THEN 'retry' ELSE state END`)}
  SELECT id FROM failed`;

/** The run is rolled back, and its row is again what it was. */
export const REFUSE_RERUN = `
  WITH refused AS (
    UPDATE webhook_outbox o
       SET state = o.rerun ->> 'from', leased_by = NULL, settled_at = clock_timestamp(), error = $4, place = NULL,
           alone = false, reason = CASE WHEN o.rerun ->> 'from' = 'dead' THEN 'permanent-error' END,
           rerun = o.rerun || jsonb_build_object('refused', $5::jsonb)
     WHERE ${FENCE}
    RETURNING o.*
  ), ${endedAttempts('refused', `'refused'`)}
  SELECT id FROM refused`;

export const SUPERSEDE = `
  WITH superseded AS (
    UPDATE webhook_outbox o
       SET state = 'superseded', leased_by = NULL, settled_at = clock_timestamp(), reason = NULL, error = NULL,
           place = NULL, alone = false
     WHERE ${FENCE}
    RETURNING o.id
  )
  SELECT id FROM superseded`;

// Batches: rows are locked in the order of their ids, in which they are given, so that two batches never wait for each other. Each row is
// looked up, and carries its result. Joined without a hash, each of 500 rows is compared with 500: 240 ms where this takes 25.
export const SETTLE_MANY = `
  WITH ours AS MATERIALIZED (
    SELECT o.id, f.result FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[]) AS f(id, attempt, owner, result)
     CROSS JOIN LATERAL (
       SELECT id FROM webhook_outbox
        WHERE id = f.id AND attempt = f.attempt AND leased_by = f.owner AND state = 'pending' FOR UPDATE) o
  ), settled AS (
    UPDATE webhook_outbox o
       SET ${DONE}
      FROM ours WHERE o.id = ours.id
    RETURNING o.id, ours.result
  ), kept AS (
    INSERT INTO webhook_outbox_data (outbox_id, result)
    SELECT id, result FROM settled WHERE result IS NOT NULL
        ON CONFLICT (outbox_id) DO UPDATE SET result = EXCLUDED.result
  )
  SELECT id FROM settled`;

// A late end of an attempt that was not repeated yet. Its result holds. An erased result must not come back: the row's lock makes an
// erasure at this moment come before or after.
export const KEEP_RESULT = `
  INSERT INTO webhook_outbox_data (outbox_id, result)
  SELECT id, $2 FROM webhook_outbox WHERE id = $1 AND state <> 'erased' FOR SHARE
      ON CONFLICT (outbox_id) DO UPDATE SET result = EXCLUDED.result`;

export const SETTLE_LATE = `
  WITH settled AS (
    UPDATE webhook_outbox o
       SET state = 'done', settled_at = clock_timestamp(), reason = NULL, error = NULL, place = NULL, begun_at = NULL,
           alone = false
     WHERE o.id = $1 AND o.attempt = $2
       AND (o.state = 'parked' OR (o.state = 'pending' AND o.leased_by IS NULL))
    RETURNING o.id
  ), kept AS (
    INSERT INTO webhook_outbox_data (outbox_id, result) SELECT id, $3::text FROM settled WHERE $3::text IS NOT NULL
        ON CONFLICT (outbox_id) DO UPDATE SET result = EXCLUDED.result
  )
  SELECT id FROM settled`;

// A call that is known to have been made, of a row that waits for a person for not knowing it: only its completion is missing.
export const RESUME_LATE = `
  WITH resumed AS (
    UPDATE webhook_outbox o
       SET state = 'pending', due_at = ${PLACE}, waits = o.order_key IS NOT NULL, attempt_base = o.attempt, reason = NULL,
           begun_at = NULL
     WHERE o.id = $1 AND o.attempt = $2 AND o.state = 'parked'
    RETURNING o.id
  )
  SELECT id FROM resumed`;

// A call that is known to have been made and must not be made again by itself. A parked row waits for a person already.
export const FAIL_LATE = `
  WITH failed AS (
    UPDATE webhook_outbox o
       SET state = 'dead', settled_at = clock_timestamp(), reason = $3, error = $4, place = $5, alone = false
     WHERE o.id = $1 AND o.attempt = $2 AND o.state = 'pending' AND o.leased_by IS NULL
    RETURNING o.*
  ), ${endedAttempts('failed', `'dead'`)}
  SELECT id FROM failed`;
