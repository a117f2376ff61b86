import type { LeasedRow } from '../storage/outbox.store.js';
import type { Deadline } from './deadline.js';

/** Rows that run together: one, or the batch of a handler with `batch`. */
export interface Job {
  readonly rows: readonly LeasedRow[];
  readonly deadline: Deadline;
  /** When the lease ends, on this process's monotonic clock. */
  leaseEndsAt: number;
}
