import type { InstanceLock, SeenLock } from '../../storage/postgres/takeover.store.js';

/** How long a lock must be free that this session has seen held. Its owner has had time to withdraw it. */
export const GRACE_MS = 1_000;
/** The same of any other: after a restart of the server each lock is free, until its owner has come back. */
export const ABSENT_MS = 10_000;

/** A session that is not answered for so long is lost: the server gives an unanswered connection up after the same time. */
export const SILENT_MS = 2_000;
/** How long a process without its lock may run what it has leased: the others wait for a second before they take it. */
export const UNLOCKED_MS = 900;

/** It always has time for one withdrawal. Only a process that stood still notices the loss so late. */
const WITHDRAWAL_MS = 400;

/**
 * How long a process whose session is lost may still run what it has leased, in milliseconds. Where the network was cut, the server has
 * freed the lock before this process has noticed: `SILENT_MS` after the last answer.
 * @param heardAt time of the last answer, on the monotonic clock
 */
export function unlockedMs(heardAt: number, now: number): number {
  return Math.max(WITHDRAWAL_MS, Math.min(UNLOCKED_MS, heardAt + SILENT_MS + UNLOCKED_MS - now));
}

interface Sighting {
  readonly key: string;
  wasHeld: boolean;
  /** Since when every poll has found it free. */
  freeSince: number | undefined;
}

/**
 * The locks of other processes, as one session has seen them. A new session begins with a new watch, since the server may have been
 * restarted.
 */
export class LockWatch {
  private readonly sightings = new Map<string, Sighting>();

  /**
   * Adds the answer of a poll.
   * @param askedAt the time before the poll, on the monotonic clock
   * @param answeredAt the time after its answer; a lock counts as free from its first answer until the last question
   * @returns locks whose owners are dead
   */
  observe(locks: readonly SeenLock[], askedAt: number, answeredAt: number): InstanceLock[] {
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

  /** Each key is a registration of its own. An earlier registration says nothing about this one. */
  private sightingOf({ owner, key }: SeenLock): Sighting {
    const known = this.sightings.get(owner);
    if (known?.key === key) return known;
    const sighting: Sighting = { key, wasHeld: false, freeSince: undefined };
    this.sightings.set(owner, sighting);
    return sighting;
  }

  /** Forgets registrations that were withdrawn. */
  private forgetAllBut(locks: readonly SeenLock[]): void {
    const owners = new Set(locks.map(({ owner }) => owner));
    for (const owner of this.sightings.keys()) if (!owners.has(owner)) this.sightings.delete(owner);
  }
}
