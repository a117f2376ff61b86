import type { LeasedRow } from '../../storage/leased-rows.js';
import type { Outcomes } from '../runs/batch.runner.js';
import type { Deadline } from '../runs/deadline.js';
import type { RunOutcome } from '../runs/failure.settler.js';
import type { Solo } from '../slots/solo.js';

interface OccupantRow extends Pick<LeasedRow, 'kind' | 'name' | 'alone'> {
  /** Undefined for a run of a delivery. */
  readonly id?: string;
  readonly event?: { readonly source: string };
}

/**
 * An occupant of a slot: running rows, prefetched rows that wait for one, a row that is being claimed to run here, or a run of a delivery.
 */
export interface Occupant {
  readonly rows: readonly OccupantRow[];
  /** False while it waits for a slot, after a prefetch. */
  readonly begun: boolean;
  /** A delivery waits for its end. @default false */
  readonly ofDelivery?: boolean;
}

/** A slot that is kept for a row until its claim is committed. */
export interface HeldSlot extends Occupant {
  readonly rows: readonly [LeasedRow];
  readonly begun: true;
  /** As a job's. */
  readonly leaseEndsAt: number;
}

/** Rows that run together: one, or the batch of a handler with `batch`. */
export interface Job {
  readonly rows: readonly LeasedRow[];
  readonly deadline: Deadline;
  /** When the lease ends, on this process's monotonic clock. */
  leaseEndsAt: number;
  /** False while it waits for a slot, after a prefetch. */
  begun: boolean;
  /** Of a row that was lost again where it ran as the only suspect. */
  readonly solo?: Solo;
}

/** A job whose rows are leased. */
export interface StartedJob extends Job {
  /** Resolves with an empty map for a job whose rows were released before its code ran. */
  readonly ended: Promise<Outcomes>;
}

/** A dead row is not among them: it lets its key go, and only a round gives that key's next row the turn. */
const ENDED_WELL: readonly RunOutcome[] = ['done', 'superseded', 'handed'];

/**
 * Names of its rows that may be due again, or that release a key: they have neither ended well, nor been handed to an engine. The end of
 * a done or superseded row passes the turn of its key on, and wakes the relays for it.
 */
export function namesToRunAgain({ rows }: Job, outcomes: Outcomes): string[] {
  const again = rows.filter(({ id }) => outcomes.has(id) && !ENDED_WELL.includes(outcomes.get(id)!));
  return [...new Set(again.map(({ name }) => name))];
}
