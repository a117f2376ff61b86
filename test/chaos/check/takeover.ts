import type { Kill } from '../play/log.js';
import type { LeaseFact } from './tables.js';
import type { Verdict } from './verdict.js';

const FEW = 20;
/** Takes a process less than this, from the end of another to the end of its leases: half a second to look, and a second of grace. */
const WATCH_MS = 2_500;

/**
 * That no work of a living process was taken, and that some of killed ones was. How soon is recorded and not judged: it is a time.
 * @param direct the receivers' connections led to the server itself: behind a pooler the leases decide
 */
export function checkTakeover(
  leases: readonly LeaseFact[],
  kills: readonly Kill[],
  direct: boolean,
): Verdict {
  const diedAt = new Map(kills.map((kill) => [kill.owner, kill.diedAt]));
  const taken = leases.filter(({ what }) => what === 'taken');
  const fromLiving = taken.filter(({ owner, at }) => at < (diedAt.get(owner) ?? Infinity));
  const goesOn = (among: readonly Kill[]) =>
    among
      .map((kill) => goesOnAfter(kill, leases))
      .filter((ms) => ms !== undefined)
      .sort((a, b) => a - b);
  const isSeen = (kill: Kill) =>
    keptItsLock(kill, kills) && kill.watchers.some((watcher) => watchesOn(watcher, kill, kills));
  const times = goesOn(kills);
  const watched = goesOn(kills.filter(isSeen));
  const faults = [
    ...(fromLiving.length > 0 ? [`leases taken from living processes: ${fromLiving.length}`] : []),
    ...(direct && times.length >= FEW && taken.length === 0 ? ['the run shows nothing: no takeover'] : []),
  ];
  return {
    faults,
    figures: {
      leasesTaken: taken.length,
      takenFromLiving: fromLiving.length,
      cutWhileAnotherDied: kills.filter(({ cut }) => cut !== undefined).length,
      killsWithWorkThatGoesOn: times.length,
      watchedKills: watched.length,
      takeoverP50Ms: percentile(watched, 0.5),
      takeoverP95Ms: percentile(watched, 0.95),
      unwatchedP95Ms: percentile(goesOn(kills.filter((kill) => !isSeen(kill))), 0.95),
    },
  };
}

/** Whether a process saw the lock held and then free: it lived on for long enough, and kept its own session around the kill. */
function watchesOn(watcher: string, { diedAt }: Kill, kills: readonly Kill[]): boolean {
  return !kills.some(
    (other) =>
      (other.owner === watcher && other.diedAt < diedAt + WATCH_MS) ||
      (other.cut === watcher && Math.abs(other.diedAt - diedAt) < WATCH_MS),
  );
}

/** Whether the lock that the dead process held was not lost shortly before, so that a watcher can have seen it. */
function keptItsLock({ owner, diedAt }: Kill, kills: readonly Kill[]): boolean {
  return !kills.some(
    (other) => other.cut === owner && other.diedAt <= diedAt && other.diedAt > diedAt - WATCH_MS,
  );
}

/** From a kill to the first new attempt of a row that the dead process held; undefined where it held none. */
function goesOnAfter({ owner, diedAt }: Kill, leases: readonly LeaseFact[]): number | undefined {
  const held = new Set(
    leases.filter((one) => one.what === 'lost' && one.owner === owner).map(({ id }) => id),
  );
  const next = leases.find(({ what, id, at }) => what === 'attempt' && held.has(id) && at > diedAt);
  return next && Math.round(next.at - diedAt);
}

const percentile = (sorted: readonly number[], part: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
