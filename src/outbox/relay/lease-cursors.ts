import type { RunnableName } from '../../storage/outbox.store.js';
import type { WokenNames } from '../wake/wake-up.js';

/** After this time a lease starts from the beginning of the index again. */
const FULL_MS = 1_000;

interface Cursor {
  /** Due time of the last row that was leased, as PostgreSQL writes it. */
  readonly at: string;
  /** When the last scan from the very beginning was, on the monotonic clock. */
  readonly fullAt: number;
}

/**
 * The due time at which the next lease of a backlog may start: where the last one ended. An open snapshot keeps the index entries of leased
 * rows, and each lease would step over all of them. A cursor is only a hint. Rows before it are found by the next wake of their name, by a
 * lease that finds too few rows, or after a second.
 */
export class LeaseCursors {
  private readonly cursors = new Map<string, Cursor>();

  /** The names, each with its cursor. */
  of(names: readonly RunnableName[]): readonly RunnableName[] {
    if (this.cursors.size === 0) return names;
    const oldest = performance.now() - FULL_MS;
    return names.map((name) => {
      const cursor = this.cursors.get(name.name);
      return cursor === undefined || cursor.fullAt < oldest ? name : { ...name, since: cursor.at };
    });
  }

  /** After a lease of as many rows as were wanted. */
  ended(names: readonly RunnableName[], lastDue: ReadonlyMap<string, string>): void {
    for (const { name, since } of names) {
      const at = lastDue.get(name);
      const fullAt = since === undefined ? performance.now() : this.cursors.get(name)?.fullAt;
      if (at !== undefined && fullAt !== undefined) this.cursors.set(name, { at, fullAt });
    }
  }

  forget(names: WokenNames): void {
    if (names === undefined) this.cursors.clear();
    for (const name of names ?? []) this.cursors.delete(name);
  }
}
