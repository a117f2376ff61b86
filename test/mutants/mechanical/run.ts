import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Copy } from '../copy.js';
import { isExplained } from './explained.js';
import type { Fault } from './fault.js';
import { areaOf, derived } from './plan.js';
import { readResults, shaOf, writeResults, type Result } from './results.js';
import { ROOT } from '../copy.js';

export interface Wanted {
  /** A part of the path. */
  readonly file?: string;
  /** So many of each file. @default all */
  readonly sample?: number;
  /** Only files whose text is another than when they were recorded. */
  readonly changed: boolean;
  readonly minutes: number;
  /** Also what is known. */
  readonly again: boolean;
}

/** Plants derived faults one by one, and writes down after each what became of it. */
export async function runMechanical(copy: Copy, wanted: Wanted): Promise<void> {
  const end = performance.now() + wanted.minutes * 60_000;
  const sound = new Map<string, boolean>();
  for (const fault of chosen(wanted)) {
    if (performance.now() >= end) {
      console.log(`the time is up after ${wanted.minutes} minutes`);
      return;
    }
    const result = await plant(copy, fault, sound);
    if (result === undefined) continue;
    note(fault, result);
    console.log(`${result.outcome === 'caught' ? 'caught' : 'SURVIVED'}: ${fault.name}, by ${result.by}`);
  }
}

function chosen({ file = '', sample, changed, again }: Wanted): Fault[] {
  const results = readResults();
  const perFile = [...derived(ROOT)]
    .filter(([name]) => name.includes(file))
    .filter(([name]) => !changed || (results[name] !== undefined && results[name].sha256 !== shaOf(name)))
    .map(([name, faults]) => {
      const known = results[name]?.sha256 === shaOf(name) ? results[name].faults : {};
      const open = faults.filter(
        (fault) => !isExplained(fault) && (again || known[fault.name] === undefined),
      );
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

/** Undefined when a spec of the fault does not pass without it: nothing is known then. */
async function plant(copy: Copy, fault: Fault, sound: Map<string, boolean>): Promise<Result | undefined> {
  const { specs } = areaOf(fault.file)!;
  const text = await readFile(join(copy.dir, fault.file), 'utf8');
  const mutated = text.slice(0, fault.start) + fault.replace + text.slice(fault.end);
  for (const spec of specs) {
    if (!sound.has(spec)) sound.set(spec, (await copy.outcome(spec)) === 'passed');
    if (sound.get(spec) === false) {
      console.log(`not known: ${fault.name}: ${spec} does not pass without it`);
      return undefined;
    }
    const outcome = await copy.with(new Map([[fault.file, mutated]]), () => copy.outcome(spec));
    if (outcome === 'failed') return { outcome: 'caught', by: spec };
  }
  return { outcome: 'survived', by: `none of ${specs.length} specs` };
}

function note({ file, name }: Fault, result: Result): void {
  const results = readResults();
  const sha256 = shaOf(file);
  const known = results[file]?.sha256 === sha256 ? results[file].faults : {};
  results[file] = { sha256, faults: { ...known, [name]: result } };
  writeResults(results);
}
