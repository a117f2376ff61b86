import type { RunnableName } from '../../storage/outbox.store.js';
import type { WokenNames } from '../wake/wake-up.js';

/** So often everything is looked at, whatever was looked at before. */
const FULL_MS = 1_000;

interface Start {
  /** Due time of the last row that was leased, as PostgreSQL writes it. */
  readonly at: string;
  /** When the last scan from the very beginning was, on the monotonic clock. */
  readonly fullAt: number;
}

/**
 * Where the next lease of a backlog may start to look: where the last one ended. A snapshot that somebody holds open keeps the index
 * entries of what was leased, and each lease would step over all of them. A hint only: what has come before it meanwhile is found when
 * everything is looked at again, at the next wake of its name, when nothing is found behind it, or after a second.
 */
export class ScanStarts {
  private readonly starts = new Map<string, Start>();

  /** The names, each with its start. */
  of(names: readonly RunnableName[]): readonly RunnableName[] {
    if (this.starts.size === 0) return names;
    const oldest = performance.now() - FULL_MS;
    return names.map((name) => {
      const start = this.starts.get(name.name);
      return start === undefined || start.fullAt < oldest ? name : { ...name, since: start.at };
    });
  }

  /** After a lease of as many rows as were wanted. */
  ended(names: readonly RunnableName[], lastDue: ReadonlyMap<string, string>): void {
    for (const { name, since } of names) {
      const at = lastDue.get(name);
      const fullAt = since === undefined ? performance.now() : this.starts.get(name)?.fullAt;
      if (at !== undefined && fullAt !== undefined) this.starts.set(name, { at, fullAt });
    }
  }

  forget(names: WokenNames): void {
    if (names === undefined) this.starts.clear();
    for (const name of names ?? []) this.starts.delete(name);
  }
}
