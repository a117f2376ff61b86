import { Injectable } from '@nestjs/common';

/** What the newest measurement counts for, beside all former ones. */
const WEIGHT = 0.2;

/**
 * How long leases and runs take here, as moving averages. Where runs are shorter than the lease statement, places would stand empty
 * for most of the time: then rows are leased ahead, as many as are worked off while the next two leases are under way, and no more.
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

  /** How many rows of a name to lease beyond the places that are free: at most one for each place. */
  ahead(name: string, places: number): number {
    const runMs = this.runMs.get(name);
    if (runMs === undefined || this.leaseMs === undefined) return 0;
    return Math.min(places, Math.floor((2 * places * this.leaseMs) / runMs));
  }
}

function average(before: number | undefined, ms: number): number {
  return before === undefined ? ms : before + WEIGHT * (ms - before);
}
