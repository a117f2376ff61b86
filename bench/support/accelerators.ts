interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A faster path of the package, and how a copy of the code does without it. */
export interface Accelerator {
  readonly name: string;
  /** Its switch, turned off. */
  readonly off: readonly Edit[];
  readonly bench: 'drain' | 'latency' | 'ingest' | 'end-to-end';
  /** The contender that it is for, by its whole name. */
  readonly contender: string;
  /** `rate`: more is better. `p50`: less is better. */
  readonly value: 'rate' | 'p50';
  /** For PostgreSQL so many milliseconds away, each way. */
  readonly away?: number;
}

export const ACCELERATORS: readonly Accelerator[] = [
  {
    name: 'lazy begin',
    off: [
      {
        file: 'src/storage/postgres/user-transaction.ts',
        find: '      transaction = new UserTransaction(runner, client, passThrough, lazy, new UserGate(lazy, onMisuse));',
        replace:
          '      await lazy.begin();\n      transaction = new UserTransaction(runner, client, passThrough, lazy, new UserGate(lazy, onMisuse));',
      },
    ],
    bench: 'drain',
    contender: 'handlers, ours',
    value: 'rate',
    away: 1,
  },
  {
    name: 'prefetch',
    off: [{ file: 'src/outbox/slots/prefetch.ts', find: 'const MOST = 2;', replace: 'const MOST = 0;' }],
    bench: 'drain',
    contender: 'handlers, ours',
    value: 'rate',
  },
  {
    name: "notification on the claim's connection",
    off: [
      {
        file: 'src/outbox/wake/notifier.ts',
        find: 'if (!this.isStarted || this.sending !== undefined || names.length === 0) return undefined;',
        replace: 'if (names.length >= 0) return undefined;',
      },
    ],
    bench: 'latency',
    contender: 'ours, other instance',
    value: 'p50',
  },
  {
    name: 'group settle',
    off: [
      {
        file: 'src/outbox/runs/group-settle.ts',
        find: 'const MAX_ROWS = 500;',
        replace: 'const MAX_ROWS = 1;',
      },
      {
        file: 'src/outbox/runs/group-settle.ts',
        find: 'const MAX_IN_FLIGHT = 2;',
        replace: 'const MAX_IN_FLIGHT = 500;',
      },
    ],
    bench: 'drain',
    contender: 'effects, ours',
    value: 'rate',
  },
];
