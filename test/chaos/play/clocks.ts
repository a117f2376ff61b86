/** What a receiver believes about time. */
export interface Clock {
  /** Minutes by which it is ahead; several: its clock jumps from each to the next while it runs. */
  readonly minutes: readonly number[];
  readonly zone: string;
}

/** Of the receivers of a run, by their place: one is right, one mostly, and no two are in one zone. */
export const CLOCKS: readonly Clock[] = [
  { minutes: [0, 10, 0, -10], zone: 'Pacific/Auckland' },
  { minutes: [0], zone: 'America/Los_Angeles' },
  { minutes: [10], zone: 'Asia/Kathmandu' },
  { minutes: [-10], zone: 'America/St_Johns' },
];

/** The environment of a receiver that has such a clock. */
export function clockEnv({ minutes, zone }: Clock, preload: string): Record<string, string> {
  return { TZ: zone, CLOCK_MINUTES: minutes.join(','), NODE_OPTIONS: `--import=${preload}` };
}
