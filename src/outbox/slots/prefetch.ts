/** Weight of the newest measurement in the moving average. */
const WEIGHT = 0.2;

/**
 * Prefetched rows for each slot. If a handler suddenly becomes slow, it keeps no more from other processes. If the process dies, no more go
 * to the quarantine, where rows run one at a time.
 */
const MOST = 2;
/** Leases that would fit into the time in which these rows are worked off: with half as many, leasing takes a good part of the CPU. */
const LEASES = 4;

/**
 * Decides how many rows to lease before slots are free. It keeps moving averages of lease and run times. Where runs are shorter than the
 * lease statement, slots would stay empty most of the time without a prefetch.
 */
export class Prefetch {
  private leaseMs: number | undefined;
  private readonly runMs = new Map<string, number>();

  recordLease(ms: number): void {
    this.leaseMs = average(this.leaseMs, ms);
  }

  recordRun(name: string, ms: number): void {
    this.runMs.set(name, average(this.runMs.get(name), ms));
  }

  /** How many rows of a name to lease beyond the slots that are free: at most a few for each slot. */
  size(name: string, slots: number): number {
    const runMs = this.runMs.get(name);
    if (runMs === undefined || this.leaseMs === undefined) return 0;
    return Math.floor(slots * Math.min(MOST, (LEASES * this.leaseMs) / runMs));
  }
}

function average(before: number | undefined, ms: number): number {
  return before === undefined ? ms : before + WEIGHT * (ms - before);
}
