import { hash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../copy.js';

const FILE = join(ROOT, 'test/mutants/results.json');

/** What became of a fault: which spec has noticed it, or that none has. */
export interface Result {
  readonly outcome: 'caught' | 'survived';
  /** The spec that noticed it, or the number of those that did not. */
  readonly by: string;
}

export interface FileResults {
  /** Of the file's text when its first fault was planted: with another one, nothing is known. */
  readonly sha256: string;
  readonly faults: Record<string, Result>;
}

/** By file. */
export type Results = Record<string, FileResults>;

export function readResults(): Results {
  return existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Results) : {};
}

/** Sorted, so that a run changes no more of the file than it has found out. */
export function writeResults(results: Results): void {
  const sorted = Object.fromEntries(
    Object.entries(results)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([file, { sha256, faults }]) => [
        file,
        {
          sha256,
          faults: Object.fromEntries(Object.entries(faults).toSorted(([a], [b]) => (a < b ? -1 : 1))),
        },
      ]),
  );
  writeFileSync(FILE, `${JSON.stringify(sorted, undefined, 2)}\n`);
}

export function shaOf(file: string): string {
  return hash('sha256', readFileSync(join(ROOT, file)));
}
