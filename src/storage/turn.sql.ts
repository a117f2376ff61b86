import { DUE, FREE as UNLEASED } from './pending.sql.js';

// Order per key. A row with an order key is inserted waiting; the earliest due row of a key gets its turn when no row of the key has it.
// A waiting row's due_at is its place in the line. With the turn it becomes due now: among other keys it does not jump the queue.

/** The due time of a row `o` that becomes pending again: one with a key goes back to its old place in the line. */
export const PLACE = `CASE WHEN o.order_key IS NULL THEN now() ELSE o.created_at END`;

/**
 * Rows of the chosen that no transaction has locked. A person who decides about a row (replay, erasure) delays neither a round nor the
 * settle of the row before. Only the row's key waits for the next round. Rows are chosen first and locked then, or the next one would jump
 * the queue.
 */
const FREE = (chosen: string) => `
    SELECT o.id FROM webhook_outbox o JOIN ${chosen} ON ${chosen}.id = o.id
     WHERE o.state = 'pending' AND o.waits FOR UPDATE OF o SKIP LOCKED`;

/**
 * Gives the turn to keys without one. It reads up to $2 waiting keys after the cursor ($3, $4) by skipping from key to key in the index. So
 * a key with 100,000 waiting rows costs as much as one with two. LATERAL with LIMIT: NOT EXISTS would be plainer, but may become a hash of
 * every row with a key.
 */
export const GIVE_TURNS = `
  WITH RECURSIVE waiting AS (
    (SELECT order_name, order_key FROM webhook_outbox
      WHERE state = 'pending' AND waits AND (order_name, order_key) > ($3, $4)
      ORDER BY order_name, order_key LIMIT 1)
    UNION ALL
    SELECT n.order_name, n.order_key FROM waiting w CROSS JOIN LATERAL (
      SELECT order_name, order_key FROM webhook_outbox
       WHERE state = 'pending' AND waits AND (order_name, order_key) > (w.order_name, w.order_key)
       ORDER BY order_name, order_key LIMIT 1) n
  ), looked AS MATERIALIZED (
    SELECT order_name, order_key FROM waiting LIMIT $2
  ), first AS MATERIALIZED (
    SELECT f.id FROM looked l
      LEFT JOIN LATERAL (
        SELECT true AS yes FROM webhook_outbox o
         WHERE o.state = 'pending' AND NOT o.waits AND o.order_name = l.order_name AND o.order_key = l.order_key LIMIT 1) taken ON true
      LEFT JOIN LATERAL (
        SELECT true AS yes FROM webhook_outbox o
         WHERE o.state IN ('dead', 'parked') AND o.order_name = l.order_name AND o.order_key = l.order_key
           AND o.reason <> 'given-up' AND l.order_name = ANY($5::text[]) LIMIT 1) held ON true
     CROSS JOIN LATERAL (
       SELECT id FROM webhook_outbox o
        WHERE o.state = 'pending' AND o.waits AND o.order_name = l.order_name AND o.order_key = l.order_key
          AND o.due_at <= statement_timestamp()
        ORDER BY o.due_at, o.id LIMIT 1) f
     WHERE l.order_name = ANY($1::text[]) AND taken.yes IS NULL AND held.yes IS NULL
  ), free AS MATERIALIZED (
    ${FREE('first')}
  ), given AS (
    UPDATE webhook_outbox o SET waits = false, due_at = now() FROM free WHERE o.id = free.id
    RETURNING o.id
  )
  SELECT (SELECT count(*)::int FROM given) AS given, count(*)::int AS looked,
         (array_agg(order_name ORDER BY order_name DESC, order_key DESC))[1] AS last_name,
         (array_agg(order_key ORDER BY order_name DESC, order_key DESC))[1] AS last_key
    FROM looked`;

/** A tenant with a row among so many is served soon. */
const FRONT = 100;
/** So many rows of each other tenant go before them at once. */
const ROWS_A_TENANT = 20;
/** How many rows of a backlog are searched. */
const WINDOW = 20_000;
/**
 * Of a backlog of one name: tenants without a row at its front get some rows each before all of them, one of each tenant
 * after the other. The window is walked in the order of the lease's index; only rows that jump the queue are written.
 */
export const ADVANCE_TENANTS = `
  WITH backlog AS MATERIALIZED (
    SELECT id, source, tenant, due_at, row_number() OVER (ORDER BY due_at) AS place FROM (
      SELECT id, source, tenant, due_at FROM webhook_outbox
       WHERE ${DUE} AND name = $1 AND due_at <= now() AND ${UNLEASED} ORDER BY due_at LIMIT ${WINDOW}) due
  ), placed AS (
    SELECT id, row_number() OVER (PARTITION BY source, tenant ORDER BY place) AS nth,
           min(place) OVER (PARTITION BY source, tenant) AS first FROM backlog
  ), chosen AS MATERIALIZED (
    SELECT id, nth FROM placed WHERE first > ${FRONT} AND nth <= ${ROWS_A_TENANT} ORDER BY nth LIMIT 1000
  ), behind AS MATERIALIZED (
    SELECT c.id, c.nth FROM chosen c
     CROSS JOIN LATERAL (
       SELECT FROM webhook_outbox WHERE id = c.id AND ${DUE} AND ${UNLEASED} LIMIT 1 FOR UPDATE SKIP LOCKED) o
  ), moved AS (
    UPDATE webhook_outbox o SET due_at = (SELECT min(due_at) FROM backlog) - (1000 - b.nth) * interval '1 microsecond'
      FROM behind b WHERE o.id = b.id
    RETURNING o.id
  )
  SELECT count(*)::int AS moved FROM moved`;

/** After a settle, in its transaction: the next row of the same key, so that a hot key is not held up by a round. */
export const PASS_TURN = `
  WITH next AS (
    SELECT id FROM webhook_outbox
     WHERE state = 'pending' AND waits AND order_name = $1 AND order_key = $2 AND due_at <= statement_timestamp()
     ORDER BY due_at, id LIMIT 1
  ), free AS MATERIALIZED (
    ${FREE('next')}
  ), given AS (
    UPDATE webhook_outbox o SET waits = false, due_at = now() FROM free WHERE o.id = free.id
    RETURNING o.id
  )
  SELECT id FROM given`;
