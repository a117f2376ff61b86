/**
 * Pending rows are in three partial indexes: rows that may be leased, those in quarantine, and those that wait for their turn. A query
 * about pending rows asks each of them, in exactly these words. `state = 'pending'` alone implies no index, and reads the whole table with
 * its settled rows.
 */
export const DUE = `state = 'pending' AND NOT waits AND NOT alone`;
export const LANE = `state = 'pending' AND NOT waits AND alone`;
export const WAITING = `state = 'pending' AND waits`;

/** Of a pending row: no process holds it. A lease leaves `due_at` as it is, so that this is asked beside the index. */
export const FREE = `(leased_by IS NULL OR lease_until <= now())`;

const PARTS = [
  { rows: DUE, order: 'name, due_at' },
  { rows: LANE, order: 'due_at' },
  { rows: WAITING, order: 'order_name, order_key, due_at, id' },
] as const;

/** All pending rows. */
export const PENDING_ROWS = PARTS.map(({ rows }) => `SELECT * FROM webhook_outbox WHERE ${rows}`).join(
  ' UNION ALL ',
);

/**
 * Number of pending rows, counted to `limit` at most. Each part follows the order of its index: sorting the table is never cheaper, for any
 * statistics.
 */
export function countPending(limit: string): string {
  const parts = PARTS.map(
    ({ rows, order }) => `(SELECT FROM webhook_outbox WHERE ${rows} ORDER BY ${order} LIMIT ${limit})`,
  );
  return `SELECT count(*)::int AS count FROM (${parts.join(' UNION ALL ')} LIMIT ${limit}) pending`;
}

/**
 * Names that have rows which may be leased now or later, each with the time of its first, as `due(name, due_at)`; in a WITH RECURSIVE. From name
 * to name in the index, so that a backlog of one name costs a step and not its length.
 */
const DUE_NAMES = `
  due AS (
    (SELECT name, due_at, 1 AS n FROM webhook_outbox WHERE ${DUE} AND ${FREE} ORDER BY name, due_at LIMIT 1)
    UNION ALL
    SELECT next.name, next.due_at, due.n + 1 FROM due
     CROSS JOIN LATERAL (SELECT name, due_at FROM webhook_outbox WHERE ${DUE} AND ${FREE} AND name > due.name ORDER BY name, due_at LIMIT 1) next
     WHERE due.n < 1000
  )`;

/** How long the most overdue row of each name has been due, longest first. */
export const OVERDUE = `
  WITH RECURSIVE ${DUE_NAMES}, oldest AS (
    SELECT name, due_at FROM due
    UNION ALL
    (SELECT name, due_at FROM webhook_outbox WHERE ${LANE} AND ${FREE} ORDER BY due_at LIMIT 1)
  )
  SELECT name, (extract(epoch FROM now() - min(due_at)) * 1000)::float8 AS "ageMs"
    FROM oldest WHERE due_at <= now() GROUP BY name ORDER BY 2 DESC`;

/** Counts of rows that are of no name in $1 and were due $2 milliseconds ago. Of each name at most 10,000 rows are read. */
export const UNKNOWN_NAMES = `
  WITH RECURSIVE ${DUE_NAMES}, line AS (
    (SELECT order_name AS name, 1 AS n FROM webhook_outbox WHERE ${WAITING} ORDER BY order_name LIMIT 1)
    UNION ALL
    SELECT next.order_name, line.n + 1 FROM line
     CROSS JOIN LATERAL (SELECT order_name FROM webhook_outbox WHERE ${WAITING} AND order_name > line.name
                          ORDER BY order_name LIMIT 1) next
     WHERE line.n < 1000
  ), looked AS (
    SELECT due.name, o.due_at FROM due
     CROSS JOIN LATERAL (SELECT due_at FROM webhook_outbox WHERE ${DUE} AND ${FREE} AND name = due.name ORDER BY due_at LIMIT 10000) o
     WHERE NOT due.name = ANY($1::text[])
    UNION ALL
    SELECT line.name, o.due_at FROM line
     CROSS JOIN LATERAL (SELECT due_at FROM webhook_outbox WHERE ${WAITING} AND order_name = line.name
                          ORDER BY order_key, due_at LIMIT 10000) o
     WHERE NOT line.name = ANY($1::text[])
    UNION ALL
    SELECT name, due_at FROM (SELECT name, due_at FROM webhook_outbox WHERE ${LANE} AND ${FREE} ORDER BY due_at LIMIT 10000) o
     WHERE NOT name = ANY($1::text[])
  )
  SELECT name, count(*)::int AS rows FROM looked WHERE due_at < now() - $2 * interval '1 ms' GROUP BY name ORDER BY name`;

/** A leased row that is still ours. `leased_by` is the mark that a settle clears: attempt alone would let one attempt settle twice. */
export const FENCE = `o.id = $1 AND o.attempt = $2 AND o.leased_by = $3 AND o.state = 'pending'`;

/** The same of many, in the order of their ids. Callers that lock add FOR UPDATE. */
export const FENCED_ROWS = `
  SELECT o.id FROM webhook_outbox o
    JOIN unnest($1::uuid[], $2::int[], $3::uuid[]) AS f(id, attempt, owner)
      ON o.id = f.id AND o.attempt = f.attempt AND o.leased_by = f.owner
   WHERE o.state = 'pending'
   ORDER BY o.id`;

/** The part of a `Lease` that the fence compares. */
interface Fenced {
  readonly id: string;
  readonly attempt: number;
  readonly owner: string;
}

/** The values of FENCE. */
export const fence = (lease: Fenced) => [lease.id, lease.attempt, lease.owner];
/** The values of FENCED_ROWS, sorted by id: batches that lock rows in opposite orders deadlock. */
export const fences = (leases: readonly Fenced[]) => {
  const sorted = leases.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return [sorted.map((l) => l.id), sorted.map((l) => l.attempt), sorted.map((l) => l.owner)];
};
