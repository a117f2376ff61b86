/** How long and how large. */
export interface Settings {
  readonly quick: boolean;
  readonly rounds: number;
  /** Milliseconds of load in one round. */
  readonly loadMs: number;
  /** Requests before the first round: compiled code is everybody's. */
  readonly warmRequests: number;
  /** Requests of one round from the request to the settled effect. */
  readonly requests: number;
  /** Jobs of one drain. */
  readonly jobs: number;
  /** Jobs of a latency round. */
  readonly samples: number;
  /** Claims in the table for `scale`. */
  readonly claims: number;
  /** Contenders whose names hold one of these; all, where there is none. */
  readonly only: readonly string[];
  /** The folder for CPU profiles of the last rounds. */
  readonly profile?: string;
}

export interface Given {
  readonly quick: boolean;
  readonly claims?: string;
  readonly only?: readonly string[];
  readonly profile?: string;
}

export function settingsOf({ quick, claims: count, only = [], profile }: Given): Settings {
  const claims = count === undefined ? undefined : Number(count);
  return quick
    ? {
        quick,
        only,
        profile,
        rounds: 3,
        loadMs: 1_000,
        warmRequests: 4_000,
        requests: 2_000,
        jobs: 4_000,
        samples: 20,
        claims: claims ?? 50_000,
      }
    : {
        quick,
        only,
        profile,
        rounds: 5,
        loadMs: 5_000,
        warmRequests: 30_000,
        requests: 10_000,
        jobs: 20_000,
        samples: 100,
        claims: claims ?? 1_000_000,
      };
}
