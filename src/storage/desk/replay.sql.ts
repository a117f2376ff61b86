import { noteAct, REPEATED_SUCCESSES } from './attempt.store.js';
import { PLACE } from '../turn.sql.js';

/** Once per event and replay: so that a replay that was interrupted can be run again. */
export const TAKE_FOR_REPLAY = `
  INSERT INTO webhook_replay (replay_id, claim_id, replayed_by, reason) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`;

/**
 * Whether a row `o` that becomes pending again was done once for its event. Then effects that it enqueues for the first time are refused,
 * unless a person allows them. The decision for a run that died holds for its repetitions too.
 */
export const rerun = (newEffects = `coalesce(o.rerun ->> 'newEffects', 'refuse')`) =>
  `CASE WHEN o.state = 'done' OR o.rerun IS NOT NULL
                THEN jsonb_build_object('from', o.state, 'newEffects', ${newEffects}) END`;

/** Rows that a lease holds are left alone: they are running, or will be taken when it ends. */
export const REPLAY_ROW = `
  WITH before AS MATERIALIZED (
    SELECT * FROM webhook_outbox
     WHERE id = $1 AND kind = 'handler' AND state IN ('done', 'superseded', 'dead') FOR UPDATE
  ), after AS (
    UPDATE webhook_outbox o
       SET state = 'pending', due_at = ${PLACE}, attempt_base = o.attempt, settled_at = NULL, reason = NULL,
           waits = o.order_key IS NOT NULL, alone = false, generation = o.generation + CASE WHEN $2 THEN 1 ELSE 0 END,
           rerun = ${rerun('$3::text')}
      FROM before WHERE o.id = before.id
    RETURNING o.id, o.attempt, o.generation
  ), ${REPEATED_SUCCESSES}, ${noteAct('after', 'replayed', '$4', '$5')}
  SELECT generation FROM after`;

export const REFIRE = `
  INSERT INTO webhook_refire (outbox_id, effect, generation, replay_id) VALUES ($1, $2, $3, $4)
      ON CONFLICT DO NOTHING`;

export const GENERATION = `
  SELECT coalesce(max(generation), 0)::int AS generation FROM webhook_refire WHERE outbox_id = $1 AND effect = ANY($2::text[])`;

export const ROWS_OF_EVENT = `
  SELECT id, parent_id, kind, name, key, state, attempt, generation, rerun, leased_by IS NOT NULL AS leased FROM webhook_outbox
   WHERE id = ANY (webhook_rows_of($1, $2, $3))
   ORDER BY created_at, id`;

/** Events of a selection, oldest first, from after a cursor; those that a replay has taken are left out. */
export const SELECT_EVENTS = `
  SELECT e.id, e.source, e.tenant, e.event_id FROM webhook_event e
   WHERE ($1::text IS NULL OR e.source = $1)
     AND ($2::text IS NULL OR e.event_type LIKE $2)
     AND ($3::text IS NULL OR e.state = $3)
     AND ($4::timestamptz IS NULL OR e.received_at >= $4)
     AND ($5::timestamptz IS NULL OR e.received_at < $5)
     AND ($6::text IS NULL OR e.tenant = $6)
     AND ($7::uuid IS NULL OR NOT EXISTS (SELECT FROM webhook_replay r WHERE r.replay_id = $7 AND r.claim_id = e.id))
   ORDER BY e.received_at, e.id LIMIT $8`;
