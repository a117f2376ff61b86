import type { LeasedRow } from '../storage/outbox.store.js';
import type { Outcomes } from './batch.runner.js';
import type { Deadline } from './deadline.js';

/** Rows that run together: one, or the batch of a handler with `batch`. */
export interface Job {
  readonly rows: readonly LeasedRow[];
  readonly deadline: Deadline;
  /** When the lease ends, on this process's monotonic clock. */
  leaseEndsAt: number;
}

/** A job under way. */
export interface StartedJob extends Job {
  readonly ended: Promise<Outcomes>;
  /** It was lost again where it ran as the only suspect: nothing else runs in this process while it does. */
  readonly exclusive: boolean;
}
