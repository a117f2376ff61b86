import type { Fault } from './fault.js';

/** Faults that no test can notice, or need not, and why. */
interface Explanation {
  /** Of the faults' names. */
  readonly names: RegExp;
  readonly why: string;
}

const EXPLAINED: readonly Explanation[] = [
  {
    names:
      /(?:<=?|>=?) becomes (?:<=?|>=?) in [^:]*(?:now\(\)|clock_timestamp\(\)|statement_timestamp\(\)|performance\.now\(\)|Date\.now\(\)|nowMs)/,
    why: 'two instants of a clock are equal in one of a million looks, and then both sides are right',
  },
];

export function explanationOf({ name }: Pick<Fault, 'name'>): string | undefined {
  return EXPLAINED.find(({ names }) => names.test(name))?.why;
}

/** Such a fault is not planted. */
export const isExplained = (fault: Pick<Fault, 'name'>): boolean => explanationOf(fault) !== undefined;

/** Explanations of nothing: what they explained is gone. */
export function idle(faults: readonly Pick<Fault, 'name'>[]): string[] {
  return EXPLAINED.filter(({ names }) => !faults.some(({ name }) => names.test(name))).map(({ names }) =>
    String(names),
  );
}

export { EXPLAINED };
