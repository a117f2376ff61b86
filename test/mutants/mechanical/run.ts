import { ROOT, type Copy, type SpecEnd } from '../copy.js';
import { isExplained } from './explained.js';
import type { Fault } from './fault.js';
import { areaOf, derived } from './plan.js';
import { hashesOf, isKnown, readResults, writeResults, type Result } from './results.js';

export interface Wanted {
  /** A part of the path. */
  readonly file?: string;
  /** So many of each file. @default all */
  readonly sample?: number;
  /** Only faults with a recorded result that does not hold any more. */
  readonly changed: boolean;
  readonly minutes: number;
  /** Also what is known. */
  readonly again: boolean;
}

/** Plants derived faults one by one, and writes down after each what became of it. */
export async function runMechanical(copy: Copy, wanted: Wanted): Promise<void> {
  const end = performance.now() + wanted.minutes * 60_000;
  const trials = new Trials(copy);
  for (const fault of chosen(wanted)) {
    if (performance.now() >= end) {
      console.log(`the time is up after ${wanted.minutes} minutes`);
      return;
    }
    const result = await trials.plant(fault, readResults()[fault.file]?.[fault.name]);
    if (result === undefined) continue;
    note(fault, result);
    const { outcome, by, test } = result;
    console.log(
      `${outcome === 'caught' ? 'caught' : 'SURVIVED'}: ${fault.name}, by ${by}${test === undefined ? '' : ` '${test}'`}`,
    );
  }
}

function chosen({ file = '', sample, changed, again }: Wanted): Fault[] {
  const results = readResults();
  const perFile = [...derived(ROOT)]
    .filter(([name]) => name.includes(file))
    .map(([name, faults]) => {
      const wasRecorded = (fault: Fault) => results[name]?.[fault.name] !== undefined;
      const open = faults
        .filter((fault) => !isExplained(fault) && (again || !isKnown(fault, results)))
        .filter((fault) => !changed || wasRecorded(fault));
      return spread(open, sample ?? open.length);
    });
  // One of each file in turn: a run that ends early has seen all of them.
  const rounds = Math.max(0, ...perFile.map(({ length }) => length));
  return Array.from({ length: rounds }, (_, nth) =>
    perFile.map((faults) => faults[nth]).filter((one) => one !== undefined),
  ).flat();
}

/** `count` of these, at even distances. */
function spread(faults: readonly Fault[], count: number): Fault[] {
  if (count >= faults.length) return [...faults];
  return Array.from(
    { length: count },
    (_, nth) => faults[Math.floor(((nth + 0.5) * faults.length) / count)]!,
  );
}

/** Plants faults in a copy, and finds the test that notices each. */
class Trials {
  /** Whether a spec, or one test of it, passes without a fault. */
  private readonly sound = new Map<string, boolean>();

  constructor(private readonly copy: Copy) {}

  /** Undefined when nothing is known: a spec fails with the fault, but without it too. */
  async plant(fault: Fault, before: Result | undefined): Promise<Result | undefined> {
    const { file, start, end, replace } = fault;
    const text = await this.copy.read(file);
    const texts = new Map([[file, text.slice(0, start) + replace + text.slice(end)]]);
    const withFault: Run = (spec, test) => this.copy.with(texts, () => this.copy.end(spec, test));
    const specs = inOrder(fault, before);
    if (await this.isCaughtAsBefore(before, specs, withFault))
      return this.caught(file, before!.by, before!.test);
    for (const spec of specs) {
      const first = await withFault(spec);
      if (first.outcome === 'passed') continue;
      if (!(await this.isSound(spec))) {
        console.log(`not known: ${fault.name}: ${spec} does not pass without it`);
        return undefined;
      }
      if (await failsAgain(spec, first.test, withFault)) return this.caught(file, spec, first.test);
      console.log(`failed once, and not again: ${fault.name}: ${spec} '${first.test}'`);
    }
    return this.hashed(file, { outcome: 'survived', by: `none of ${specs.length} specs` });
  }

  private async isCaughtAsBefore(
    before: Result | undefined,
    specs: readonly string[],
    withFault: Run,
  ): Promise<boolean> {
    if (before?.test === undefined || !specs.includes(before.by)) return false;
    const { by, test } = before;
    return (await withFault(by, test)).outcome === 'failed' && (await this.isSound(by, test));
  }

  /** Asked once in a run, and when the first answer was no, once more. */
  private async isSound(spec: string, test?: string): Promise<boolean> {
    const key = `${spec} ${test ?? ''}`;
    const passes = async () => (await this.copy.end(spec, test)).outcome === 'passed';
    if (!this.sound.has(key)) this.sound.set(key, (await passes()) || (await passes()));
    return this.sound.get(key)!;
  }

  private caught(file: string, by: string, test: string | undefined): Result {
    return this.hashed(file, { outcome: 'caught', by, ...(test !== undefined && { test }) });
  }

  /** With the texts of the copy: those of the working tree may be others by now. */
  private hashed(file: string, result: Omit<Result, 'hashes'>): Result {
    return { ...result, hashes: hashesOf(file, result, this.copy.dir) };
  }
}

/** The spec that has noticed this fault before goes first. */
function inOrder({ file }: Fault, before: Result | undefined): string[] {
  const { specs } = areaOf(file)!;
  return [...specs.filter((spec) => spec === before?.by), ...specs.filter((spec) => spec !== before?.by)];
}

type Run = (spec: string, test?: string) => Promise<SpecEnd>;

/** A test that failed by chance has noticed nothing. A spec that did not start does not do so by chance. */
async function failsAgain(spec: string, test: string | undefined, withFault: Run): Promise<boolean> {
  if (test === undefined) return true;
  const alone = await withFault(spec, test);
  return alone.outcome === 'failed' || (await withFault(spec)).outcome === 'failed';
}

function note({ file, name }: Fault, result: Result): void {
  const results = readResults();
  results[file] = { ...results[file], [name]: result };
  writeResults(results);
}
