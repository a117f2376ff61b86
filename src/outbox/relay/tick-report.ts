import type { RunOutcome } from '../runs/failure.settler.js';

/** Counts of one round: rows that it leased, and how their runs ended. */
export interface TickReport {
  readonly leased: number;
  readonly done: number;
  readonly superseded: number;
  /** Replays that would have enqueued effects for the first time: rolled back, for a person to decide. */
  readonly refused: number;
  readonly retried: number;
  readonly dead: number;
  /** Effects that an engine has now. */
  readonly handed: number;
  readonly parked: number;
  /** Leases that ended before their run did: counted apart from failures. */
  readonly lost: number;
}

export function report(outcomes: readonly RunOutcome[]): TickReport {
  const count = (outcome: RunOutcome) => outcomes.filter((one) => one === outcome).length;
  return {
    leased: outcomes.length,
    done: count('done'),
    superseded: count('superseded'),
    refused: count('refused'),
    retried: count('retry'),
    dead: count('dead'),
    handed: count('handed'),
    parked: count('parked'),
    lost: count('lost'),
  };
}

export function add(a: TickReport, b: TickReport): TickReport {
  return {
    leased: a.leased + b.leased,
    done: a.done + b.done,
    superseded: a.superseded + b.superseded,
    refused: a.refused + b.refused,
    retried: a.retried + b.retried,
    dead: a.dead + b.dead,
    handed: a.handed + b.handed,
    parked: a.parked + b.parked,
    lost: a.lost + b.lost,
  };
}

export function subtract(a: TickReport, b: TickReport): TickReport {
  return {
    leased: a.leased - b.leased,
    done: a.done - b.done,
    superseded: a.superseded - b.superseded,
    refused: a.refused - b.refused,
    retried: a.retried - b.retried,
    dead: a.dead - b.dead,
    handed: a.handed - b.handed,
    parked: a.parked - b.parked,
    lost: a.lost - b.lost,
  };
}
