/** What was measured in one moment of a soak. */
export interface Sample {
  /** Part of the run that was over, 0 to 1. */
  readonly at: number;
  readonly values: Readonly<Record<string, number>>;
}

/** How a figure is judged. */
export interface Rule {
  readonly unit: 'bytes' | 'ms' | 'count';
  /** More than a tenth and more than this is growth. */
  readonly floor: number;
  /** It rises while a snapshot is pinned, and must come back: compared with the time before, not with the middle. */
  readonly returns?: boolean;
}

export interface Course {
  readonly name: string;
  readonly unit: Rule['unit'];
  /** Medians; undefined where nothing was measured. */
  readonly before?: number;
  readonly pinned?: number;
  readonly middle?: number;
  readonly last?: number;
  readonly grows: boolean;
}

/** Parts of a run. The tables are full, and the rate is known, before `before`. */
export const PARTS = {
  before: [0.2, 0.3],
  pinned: [0.3, 0.4],
  middle: [1 / 3, 2 / 3],
  last: [2 / 3, 1],
} as const satisfies Record<string, readonly [number, number]>;

const GROWTH = 1.1;
/** Of what comes and goes; autovacuum looks when it looks. */
const RETURN = 1.5;

const MB = 1024 * 1024;
const RULES: Readonly<Record<string, Rule>> = {
  heap: { unit: 'bytes', floor: 8 * MB },
  rss: { unit: 'bytes', floor: 64 * MB },
  // What the machine does beside this is in them: it grows only above all that was before.
  'ack p50': { unit: 'ms', floor: 100 },
  'ack p99': { unit: 'ms', floor: 500 },
  pending: { unit: 'count', floor: 500 },
  'dead tuples': { unit: 'count', floor: 5_000, returns: true },
  'buffers per lease': { unit: 'count', floor: 100, returns: true },
};
/** Every table and index, and all of them. */
const RELATION: Rule = { unit: 'bytes', floor: MB / 4 };

/** What became of each figure over a run, the ones that grow first. */
export function coursesOf(samples: readonly Sample[]): Course[] {
  const names = [...new Set(samples.flatMap(({ values }) => Object.keys(values)))];
  return names.map((name) => courseOf(name, samples)).toSorted((a, b) => Number(b.grows) - Number(a.grows));
}

function courseOf(name: string, samples: readonly Sample[]): Course {
  const rule = RULES[name] ?? RELATION;
  const [before, pinned, middle, last] = (['before', 'pinned', 'middle', 'last'] as const).map((part) => {
    const [from, to] = PARTS[part];
    return median(
      samples
        .filter(({ at }) => at >= from && at < to)
        // What a pinned snapshot does is no part of the middle.
        .filter(({ at }) => part !== 'middle' || at >= PARTS.pinned[1])
        .map(({ values }) => values[name])
        .filter((value) => value !== undefined),
    );
  });
  const from = rule.returns ? before : rule.unit === 'ms' ? max(before, middle) : middle;
  const grows =
    from === undefined ||
    last === undefined ||
    (last > from * (rule.returns ? RETURN : GROWTH) && last > from + rule.floor);
  return { name, unit: rule.unit, before, pinned, middle, last, grows };
}

function max(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : Math.max(a, b);
}

function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
