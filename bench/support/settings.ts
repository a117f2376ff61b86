/** How long and how large. */
export interface Settings {
  readonly quick: boolean;
  readonly rounds: number;
  /** Milliseconds of load in one round. */
  readonly loadMs: number;
  /** Jobs of one drain. */
  readonly jobs: number;
  /** Jobs of a latency round. */
  readonly samples: number;
  /** Claims in the table for `scale`. */
  readonly claims: number;
}

export function settingsOf(quick: boolean, claims: number | undefined): Settings {
  return quick
    ? { quick, rounds: 3, loadMs: 1_200, jobs: 4_000, samples: 60, claims: claims ?? 100_000 }
    : { quick, rounds: 5, loadMs: 5_000, jobs: 20_000, samples: 300, claims: claims ?? 1_000_000 };
}
