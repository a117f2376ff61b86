import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { format } from 'prettier';
import { goals, verdict, type Results } from './goals.js';
import type { Measured } from './rounds.js';
import type { Settings } from './settings.js';

/** Where and how a benchmark was run. */
export interface Circumstances {
  readonly date: string;
  readonly machine: string;
  readonly node: string;
  readonly postgres: string;
  readonly settings: Settings;
  /** One-minute load average before the run: what others were doing. */
  readonly loadBefore: number;
}

interface Stored {
  readonly circumstances: Circumstances;
  readonly measured: readonly Measured[];
}

export const BENCHES = ['ingest', 'drain', 'latency', 'end-to-end', 'scale', 'growth'] as const;
export type Bench = (typeof BENCHES)[number];

const path = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));
const DOCS = path('../docs/performance.md');
const START = '<!-- figures: written by npm run bench -->';
const END = '<!-- end of figures -->';

export function machine(): string {
  return `${cpus()[0]?.model.trim() ?? 'unknown'}, ${availableParallelism()} cores`;
}

export async function store(bench: Bench, stored: Stored): Promise<void> {
  mkdirSync(path('results'), { recursive: true });
  const json = await format(JSON.stringify(stored), { parser: 'json', printWidth: 110 });
  writeFileSync(path(`results/${bench}.json`), json);
}

function stored(bench: Bench): Stored | undefined {
  const file = path(`results/${bench}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Stored) : undefined;
}

const number = (value: number) =>
  value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(value >= 10 ? 1 : 2);

/** The table of ratios, of the latest results of every benchmark. */
export function goalTable(): string {
  const results: Results = Object.fromEntries(BENCHES.map((bench) => [bench, stored(bench)?.measured ?? []]));
  const rows = goals(results).map((goal) => {
    const wanted = goal.goal === 0 ? '' : `${goal.bound} ${number(goal.goal)}${goal.unit}`;
    const value = goal.value === undefined ? '' : `${number(goal.value)}${goal.unit}`;
    const cpu = goal.cpuRatio === undefined ? '' : `${number(goal.cpuRatio)}×`;
    return `| ${goal.text} | ${wanted} | ${value} | ${verdict(goal)} | ${cpu} |`;
  });
  return ['| goal | wanted | measured | | by CPU used |', '| - | - | - | - | - |', ...rows].join('\n');
}

function figuresOf(bench: Bench, { circumstances, measured }: Stored): string {
  const names = [...new Set(measured.flatMap(({ figures }) => Object.keys(figures)))];
  const cell = (one: Measured, name: string) => {
    const found = one.figures[name];
    return found === undefined
      ? ''
      : `${number(found.median)} (${number(found.lowest)} to ${number(found.highest)})`;
  };
  const { date, postgres, node, settings, loadBefore } = circumstances;
  return [
    `### ${bench}`,
    '',
    `${date}, ${circumstances.machine}, PostgreSQL ${postgres}, Node ${node}; ${settings.rounds} rounds${settings.quick ? ', `--quick`' : ''}; ` +
      `load average before: ${loadBefore.toFixed(1)}. Medians, with the lowest and the highest round.`,
    '',
    `| | ${names.join(' | ')} | bound by |`,
    `| - | ${names.map(() => '-').join(' | ')} | - |`,
    ...measured.map(
      (one) => `| ${one.name} | ${names.map((name) => cell(one, name)).join(' | ')} | ${one.bound} |`,
    ),
    '',
    `![${bench}](../bench/results/${bench}.svg)`,
  ].join('\n');
}

/** Puts the latest results into docs/performance.md, between its marks. */
export async function writeDocs(): Promise<void> {
  const text = readFileSync(DOCS, 'utf8');
  const [before, rest] = text.split(START);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined)
    throw new Error(`docs/performance.md has lost its mark ${START}`);
  const parts = BENCHES.flatMap((bench) => {
    const found = stored(bench);
    return found === undefined ? [] : [figuresOf(bench, found)];
  });
  const made = [before.trimEnd(), START, goalTable(), ...parts, END, after.trimStart()].join('\n\n');
  writeFileSync(DOCS, await format(made, { parser: 'markdown', printWidth: 110, proseWrap: 'preserve' }));
}
