import { hash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../copy.js';
import type { Fault } from './fault.js';
import { areaOf } from './plan.js';
import { textOfTest } from './proof.js';

const FILE = join(ROOT, 'test/mutants/results.json');

/** What became of a fault: which test has noticed it, or that none has. */
export interface Result {
  readonly outcome: 'caught' | 'survived';
  /** The spec that noticed it, or the number of those that did not. */
  readonly by: string;
  /** Full name of the test that failed; none when the code did not even start. */
  readonly test?: string;
  /** Of the file that the fault was planted in, and of the test that noticed it, or of all specs that did not. */
  readonly hashes: string;
}

/** By file, then by the fault's name. */
export type Results = Record<string, Record<string, Result>>;

export function readResults(): Results {
  return existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Results) : {};
}

/** Sorted, so that a run changes no more of the file than it has found out. */
export function writeResults(results: Results): void {
  const sorted = <T>(of: Record<string, T>) =>
    Object.fromEntries(Object.entries(of).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const all = Object.entries(sorted(results)).map(([file, faults]) => [file, sorted(faults)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(all), undefined, 2)}\n`);
}

/** A result holds until its file, or the test that noticed it, has another text; one of no test, until any of its specs has. */
export function isKnown(fault: Fault, results: Results): boolean {
  const result = results[fault.file]?.[fault.name];
  return result !== undefined && result.hashes === hashesOf(fault.file, result, ROOT);
}

export function hashesOf(file: string, result: Omit<Result, 'hashes'>, root: string): string {
  const text = (name: string) => (existsSync(join(root, name)) ? readFileSync(join(root, name), 'utf8') : '');
  const proof =
    result.outcome === 'caught'
      ? textOfTest(text(result.by), result.test)
      : areaOf(file)!.specs.map(text).join('\n');
  return [text(file), proof].map((one) => hash('sha256', one).slice(0, 12)).join(' ');
}
