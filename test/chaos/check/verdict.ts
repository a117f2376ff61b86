import type { Kill, Outage, Overdue, Sent, SinkCall } from '../play/log.js';

export interface Logs {
  readonly sent: readonly Sent[];
  readonly calls: readonly SinkCall[];
  readonly kills: readonly Kill[];
  readonly outages: readonly Outage[];
  readonly overdue: readonly Overdue[];
}

export interface Verdict {
  readonly figures: Readonly<Record<string, number>>;
  /** What was found wrong, a line each; none: the run is passed. */
  readonly faults: readonly string[];
}

/** What was done to a run. */
export type Faults = 'kills' | 'clocks' | 'stops' | 'promotions' | 'retention';
