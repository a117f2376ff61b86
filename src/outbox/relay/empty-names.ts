import type { LeaseGroup, Poll, NameCounts } from './lease-plan.js';
import type { WokenNames } from '../wake/wake-up.js';

/**
 * The names that had no due rows at their last poll. The next poll leaves them out, which saves most of its statements. The end of a run
 * brings no rows, and a commit says the names of its rows.
 */
export class EmptyNames {
  private readonly empty = new Set<string>();
  /** The same of the quarantine. */
  private readonly emptyAlone = new Set<string>();
  /** Names that were woken during a poll. The poll may have read the table before their commit. */
  private readonly woken = new Set<string>();
  private wokenAll = false;

  beginPoll(): void {
    this.woken.clear();
    this.wokenAll = false;
  }

  /** Records that a poll for these names has ended. @param found whether there may be more rows */
  record(names: readonly string[], found: boolean, alone = false): void {
    const empty = this.of(alone);
    for (const name of names) {
      if (found) empty.delete(name);
      else if (!this.wokenAll && !this.woken.has(name)) empty.add(name);
    }
  }

  /** Rows of these have been committed. */
  forget(names: WokenNames): void {
    if (names === undefined) {
      this.empty.clear();
      this.emptyAlone.clear();
      this.wokenAll = true;
    }
    for (const name of names ?? []) {
      this.empty.delete(name);
      this.woken.add(name);
    }
  }

  /** Whether the last poll for a name found no due rows. */
  has(name: string): boolean {
    return this.empty.has(name);
  }

  /** Whether none of these names needs a poll. */
  hasAll({ names, alone }: Pick<Poll, 'names' | 'alone'>): boolean {
    const empty = this.of(alone);
    return names.every((name) => empty.has(name));
  }

  /** Whether nothing of anything is: the end of every run asks, and an application may have hundreds of handlers. */
  hasEverything({ all, quarantine }: NameCounts): boolean {
    return all > 0 && this.empty.size === all && this.emptyAlone.size === quarantine;
  }

  without(group: LeaseGroup): LeaseGroup {
    const empty = this.of(group.alone);
    return { ...group, names: group.names.filter(({ name }) => !empty.has(name)) };
  }

  private of(alone = false): Set<string> {
    return alone ? this.emptyAlone : this.empty;
  }
}
