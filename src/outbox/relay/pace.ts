import { Injectable } from '@nestjs/common';

/** What the newest measurement counts for, beside all former ones. */
const WEIGHT = 0.2;

/**
 * Rows ahead for each place: a handler that is slow all of a sudden keeps no more from other processes, and a process that dies leaves
 * no more to the lane, where rows run one at a time.
 */
const MOST = 2;
/** Leases that would fit into the time in which these rows are worked off: with half as many, leasing takes a good part of the CPU. */
const LEASES = 4;

/**
 * How long leases and runs take here, as moving averages. Where runs are shorter than the lease statement, places would stand empty
 * for most of the time: then rows are leased ahead.
 */
@Injectable()
export class Pace {
  private leaseMs: number | undefined;
  private readonly runMs = new Map<string, number>();

  leaseTook(ms: number): void {
    this.leaseMs = average(this.leaseMs, ms);
  }

  runTook(name: string, ms: number): void {
    this.runMs.set(name, average(this.runMs.get(name), ms));
  }

  /** How many rows of a name to lease beyond the places that are free: at most a few for each place. */
  ahead(name: string, places: number): number {
    const runMs = this.runMs.get(name);
    if (runMs === undefined || this.leaseMs === undefined) return 0;
    return Math.floor(places * Math.min(MOST, (LEASES * this.leaseMs) / runMs));
  }
}

function average(before: number | undefined, ms: number): number {
  return before === undefined ? ms : before + WEIGHT * (ms - before);
}
