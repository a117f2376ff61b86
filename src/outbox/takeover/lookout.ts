import type { InstanceLock, SeenLock } from '../../storage/postgres/takeover.store.js';

/** For how long a lock must be free that this session has seen held: its owner has had time to withdraw it. */
export const GRACE_MS = 1_000;
/** The same of any other: after a restart of the server each lock is free, until its owner has come back. */
export const ABSENT_MS = 10_000;

interface Sighting {
  readonly key: string;
  wasHeld: boolean;
  /** Since when each look has found it free. */
  freeSince: number | undefined;
}

/** What one session has seen of the others' locks. A new session begins with a new one: the server may have been restarted. */
export class Lookout {
  private readonly sightings = new Map<string, Sighting>();

  /**
   * Adds a look.
   * @param askedAt before it was asked, and `answeredAt` after it was answered, on the monotonic clock: a lock is believed free from its
   * first answer until the last question
   * @returns locks whose owners are dead
   */
  look(locks: readonly SeenLock[], askedAt: number, answeredAt: number): InstanceLock[] {
    this.forgetAllBut(locks);
    return locks.filter((lock) => {
      const sighting = this.sightingOf(lock);
      if (!lock.free) {
        sighting.wasHeld = true;
        sighting.freeSince = undefined;
        return false;
      }
      sighting.freeSince ??= answeredAt;
      return askedAt - sighting.freeSince >= (sighting.wasHeld ? GRACE_MS : ABSENT_MS);
    });
  }

  /** A registration of its own for each key: what was seen of an earlier one says nothing about this one. */
  private sightingOf({ owner, key }: SeenLock): Sighting {
    const known = this.sightings.get(owner);
    if (known?.key === key) return known;
    const sighting: Sighting = { key, wasHeld: false, freeSince: undefined };
    this.sightings.set(owner, sighting);
    return sighting;
  }

  /** What has been withdrawn. */
  private forgetAllBut(locks: readonly SeenLock[]): void {
    const owners = new Set(locks.map(({ owner }) => owner));
    for (const owner of this.sightings.keys()) if (!owners.has(owner)) this.sightings.delete(owner);
  }
}
