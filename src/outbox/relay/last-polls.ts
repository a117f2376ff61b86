import type { RunnableName } from '../../storage/outbox.store.js';
import type { WokenNames } from '../wake/wake-up.js';
import type { LeaseGroup, Poll, NameCounts } from './lease-plan.js';

/** After this time a lease starts from the beginning of the index again. */
const FULL_MS = 1_000;

interface Cursor {
  /** Due time of the last row that was leased, as PostgreSQL writes it. */
  readonly at: string;
  /** When the last scan from the very beginning was, on the monotonic clock. */
  readonly fullAt: number;
}

/**
 * Remembers by name whether the last poll found due rows. The next poll leaves out the names that had none, which saves most of its
 * statements. The end of a run brings no rows, and a commit says the names of its rows.
 *
 * The lease of a backlog starts at a cursor, the due time where the last one ended. An open snapshot keeps the index entries of leased
 * rows, and each lease would step over all of them. A cursor is only a hint. Rows before it are found by the next wake of their name, by a
 * lease that finds too few rows, or after a second.
 */
export class LastPolls {
  private readonly empty = new Set<string>();
  /** The same of the quarantine. */
  private readonly emptyAlone = new Set<string>();
  /** Names that were woken during a poll. The poll may have read the table before their commit. */
  private readonly woken = new Set<string>();
  private wokenAll = false;
  private readonly cursors = new Map<string, Cursor>();

  begin(): void {
    this.woken.clear();
    this.wokenAll = false;
  }

  /** Records that a poll for these names has ended. */
  record(names: readonly RunnableName[], mayHaveMore: (name: RunnableName) => boolean, alone = false): void {
    const empty = this.of(alone);
    for (const one of names) {
      const { name } = one;
      if (mayHaveMore(one)) empty.delete(name);
      else if (!this.wokenAll && !this.woken.has(name)) empty.add(name);
    }
  }

  /**
   * Records a lease of as many rows as were wanted.
   * @param seen names that have due rows
   */
  recordFull(
    names: readonly RunnableName[],
    lastDue: ReadonlyMap<string, string>,
    seen: ReadonlySet<string>,
  ): void {
    for (const { name, since } of names) {
      // Behind its cursor is nothing more.
      if (!seen.has(name)) this.cursors.delete(name);
      const at = lastDue.get(name);
      const fullAt = since === undefined ? performance.now() : this.cursors.get(name)?.fullAt;
      if (at !== undefined && fullAt !== undefined) this.cursors.set(name, { at, fullAt });
    }
  }

  /** Rows of these have been committed. */
  forget(names: WokenNames): void {
    if (names === undefined) {
      this.empty.clear();
      this.emptyAlone.clear();
      this.wokenAll = true;
      this.cursors.clear();
    }
    for (const name of names ?? []) {
      this.empty.delete(name);
      this.woken.add(name);
      this.cursors.delete(name);
    }
  }

  forgetCursors(names: readonly RunnableName[]): void {
    for (const { name } of names) this.cursors.delete(name);
  }

  /** Whether the last poll for a name found no due rows. */
  wasEmpty(name: string): boolean {
    return this.empty.has(name);
  }

  /** Whether none of these names needs a poll. */
  wereEmpty({ names, alone }: Pick<Poll, 'names' | 'alone'>): boolean {
    const empty = this.of(alone);
    return names.every((name) => empty.has(name));
  }

  /**
   * Whether no name at all needs one: the end of every run asks, and an application may have hundreds of handlers. A process without
   * handlers still polls.
   */
  wereAllEmpty({ all, quarantine }: NameCounts): boolean {
    return all > 0 && this.empty.size === all && this.emptyAlone.size === quarantine;
  }

  withoutEmpty(group: LeaseGroup): LeaseGroup {
    const empty = this.of(group.alone);
    return { ...group, names: group.names.filter(({ name }) => !empty.has(name)) };
  }

  /** The names, each with its cursor. */
  withCursors(names: readonly RunnableName[]): readonly RunnableName[] {
    if (this.cursors.size === 0) return names;
    const oldest = performance.now() - FULL_MS;
    return names.map((name) => {
      const cursor = this.cursors.get(name.name);
      return cursor === undefined || cursor.fullAt < oldest ? name : { ...name, since: cursor.at };
    });
  }

  private of(alone = false): Set<string> {
    return alone ? this.emptyAlone : this.empty;
  }
}
