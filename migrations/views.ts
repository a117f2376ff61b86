import { view } from './own.objects.js';

/**
 * What an application may read; the tables may change with any version. PostgreSQL refuses a write to either.
 *
 * - `webhook_event`: an event with its state and outcome, derived from its rows.
 * - `webhook_work`: a run of a handler or an effect that is owed, or was.
 */
export const VIEWS = [
  view(
    'webhook_event',
    (schema) => `
  SELECT c.source, c.tenant, c.event_id, c.id, c.event_type, c.occurred_at, c.received_at, c.origin,
         c.verified_by, c.owed,
         CASE WHEN c.erased_at IS NOT NULL THEN 'erased'
              WHEN r.dead > 0 THEN 'dead'
              WHEN r.pending > 0 OR r.handlers < c.owed THEN 'pending'
              WHEN r.done > 0 THEN 'processed'
              WHEN r.superseded > 0 THEN 'superseded'
              ELSE 'skipped' END AS state,
         CASE WHEN c.erased_at IS NOT NULL THEN 'erased by ' || c.erased_by || ': ' || c.erased_why
              WHEN r.dead > 0 THEN r.dead_reasons
              WHEN c.owed = 0 AND r.handlers = 0 THEN 'no handler matched'
              ELSE r.results END AS outcome,
         CASE WHEN r.pending = 0 AND r.handlers >= c.owed THEN r.processed_at END AS processed_at,
         r.effects_pending, r.effects_done, r.effects_dead, r.effects_parked
    FROM ${schema}.webhook_claim c
    CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE o.kind = 'handler')                          AS handlers,
             count(*) FILTER (WHERE o.kind = 'handler' AND o.state IN ('pending', 'parked')) AS pending,
             count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'dead')       AS dead,
             count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'done')       AS done,
             count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'superseded') AS superseded,
             count(*) FILTER (WHERE o.kind = 'effect' AND o.state IN ('pending', 'handed'))::int AS effects_pending,
             count(*) FILTER (WHERE o.kind = 'effect' AND o.state = 'done')::int   AS effects_done,
             count(*) FILTER (WHERE o.kind = 'effect' AND o.state = 'dead')::int   AS effects_dead,
             count(*) FILTER (WHERE o.state = 'parked')::int                     AS effects_parked,
             max(o.settled_at) FILTER (WHERE o.kind = 'handler')                   AS processed_at,
             string_agg(o.name || ': ' || o.reason, '; ' ORDER BY o.name)
               FILTER (WHERE o.kind = 'handler' AND o.state = 'dead')              AS dead_reasons,
             string_agg(o.name || ': ' || d.result, '; ' ORDER BY o.name)
               FILTER (WHERE o.kind = 'handler' AND d.result IS NOT NULL)          AS results
        FROM ${schema}.webhook_outbox o LEFT JOIN ${schema}.webhook_outbox_data d ON d.outbox_id = o.id
       WHERE o.id = ANY (${schema}.webhook_rows_of(c.source, c.tenant, c.event_id))
    ) r`,
  ),
  view(
    'webhook_work',
    (schema) => `
  SELECT o.id, o.kind, o.name, o.key, o.state, o.attempt, o.lost, o.reason, o.error, d.result, o.created_at,
         CASE WHEN o.leased_by IS NULL THEN o.due_at ELSE o.lease_until END AS due_at, o.settled_at,
         o.parent_id, o.source, o.tenant, o.event_id, o.place
    FROM ${schema}.webhook_outbox o LEFT JOIN ${schema}.webhook_outbox_data d ON d.outbox_id = o.id`,
  ),
];
