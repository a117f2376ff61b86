import type { Lease } from './leased-rows.js';

/** A leased row that is still ours. `leased_by` is the mark that a settle clears: attempt alone would let one attempt settle twice. */
export const FENCE = `o.id = $1 AND o.attempt = $2 AND o.leased_by = $3 AND o.state = 'pending'`;

/** The same of many, locked in the order of their ids by whoever adds FOR UPDATE. */
export const FENCED_ROWS = `
  SELECT o.id FROM webhook_outbox o
    JOIN unnest($1::uuid[], $2::int[], $3::uuid[]) AS f(id, attempt, owner)
      ON o.id = f.id AND o.attempt = f.attempt AND o.leased_by = f.owner
   WHERE o.state = 'pending'
   ORDER BY o.id`;

/** The values of FENCE. */
export const fence = (lease: Lease) => [lease.id, lease.attempt, lease.owner];
/** The values of FENCED_ROWS, sorted by id: batches that lock rows in opposite orders deadlock. */
export const fences = (leases: readonly Lease[]) => {
  const sorted = leases.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return [sorted.map((l) => l.id), sorted.map((l) => l.attempt), sorted.map((l) => l.owner)];
};
