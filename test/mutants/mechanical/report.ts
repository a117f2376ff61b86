import Table from 'cli-table3';
import { writeFigures } from '../../../scripts/figures.js';
import { ROOT } from '../copy.js';
import { MUTANTS } from '../mutants.js';
import { EXPLAINED, idle, isExplained } from './explained.js';
import { derived } from './plan.js';
import { isKnown, readResults, type Result } from './results.js';

interface Row {
  readonly file: string;
  readonly derived: number;
  readonly explained: number;
  readonly caught: number;
  readonly survived: readonly string[];
  /** Some results are of a former text of the file or of a test. */
  readonly isOld: boolean;
}

function rows(): Row[] {
  const results = readResults();
  return [...derived(ROOT)].map(([file, faults]) => {
    const open = faults.filter((fault) => !isExplained(fault));
    const known = results[file] ?? {};
    const of = (outcome: Result['outcome']) => open.filter(({ name }) => known[name]?.outcome === outcome);
    return {
      file,
      derived: faults.length,
      explained: faults.length - open.length,
      caught: of('caught').length,
      survived: of('survived').map(({ name }) => name),
      isOld: open.some((fault) => known[fault.name] !== undefined && !isKnown(fault, results)),
    };
  });
}

const HEAD = ['file', 'derived', 'explained', 'planted', 'caught', 'survived'] as const;

function cells({ file, derived: all, explained, caught, survived, isOld }: Row): (string | number)[] {
  return [
    isOld ? `${file} (changed since)` : file,
    all,
    explained,
    caught + survived.length,
    caught,
    survived.length,
  ];
}

function totals(all: readonly Row[]): (string | number)[] {
  const sum = (of: (row: Row) => number) => all.reduce((total, row) => total + of(row), 0);
  const survived = sum((row) => row.survived.length);
  const caught = sum((row) => row.caught);
  return ['all', sum((row) => row.derived), sum((row) => row.explained), caught + survived, caught, survived];
}

/** Prints what is recorded of the derived faults, and the explanations. Returns how many survived without one. */
export function summary(): number {
  const all = rows();
  const table = new Table({ head: [...HEAD], style: { head: [], border: [] } });
  table.push(...all.filter(({ caught, survived }) => caught + survived.length > 0).map(cells), totals(all));
  console.log(table.toString());
  console.log(`${MUTANTS.length} faults of test/mutants/mutants.ts beside these`);
  for (const { names, why } of EXPLAINED) console.log(`explained: ${names}: ${why}`);
  const faults = [...derived(ROOT).values()].flat();
  for (const names of idle(faults)) console.log(`explains nothing any more: ${names}`);
  const survivors = all.flatMap(({ survived }) => survived);
  for (const name of survivors) console.log(`SURVIVED, unexplained: ${name}`);
  return survivors.length;
}

export async function recordTable(): Promise<void> {
  const all = rows();
  const line = (of: readonly (string | number)[]) => `| ${of.join(' | ')} |`;
  await writeFigures('docs/reliability.md', 'mutants', [
    `Recorded on ${new Date().toISOString().slice(0, 10)}.`,
    '',
    line(HEAD),
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...all.filter(({ caught, survived }) => caught + survived.length > 0).map((row) => line(cells(row))),
    line(totals(all)),
  ]);
}
