import type { Kill } from '../play/log.js';
import type { LeaseFact } from './tables.js';
import type { Verdict } from './verdict.js';

const FEW = 20;

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
  const times = kills.map((kill) => goesOnAfter(kill, leases)).filter((ms) => ms !== undefined);
  times.sort((a, b) => a - b);
  const faults = [
    ...(fromLiving.length > 0 ? [`leases taken from living processes: ${fromLiving.length}`] : []),
    ...(direct && times.length >= FEW && taken.length === 0 ? ['the run shows nothing: no takeover'] : []),
  ];
  return {
    faults,
    figures: {
      leasesTaken: taken.length,
      takenFromLiving: fromLiving.length,
      cutWhileAnotherDied: kills.filter(({ wasCut }) => wasCut).length,
      killsWithWorkThatGoesOn: times.length,
      takeoverP50Ms: percentile(times, 0.5),
      takeoverP95Ms: percentile(times, 0.95),
    },
  };
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
