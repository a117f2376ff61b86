import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { allPairs, axes, pairsOf, type Cell } from './cells.js';
import { CACHE } from './tools.js';

const FILE = 'docs/compatibility.md';
const FOUND = join(CACHE, 'outcomes.json');

export interface Outcome {
  /** A cell, or a way of installing. */
  readonly cell?: Cell;
  readonly way?: string;
  readonly fault?: string;
  readonly seconds: number;
  /** Exact versions. */
  readonly versions?: string;
}

/** Keeps what a run found, so that one that is ended goes on where it was. */
export function keep(outcomes: readonly Outcome[]): void {
  writeFileSync(FOUND, JSON.stringify(outcomes, undefined, 1));
}

export function kept(): Outcome[] {
  return existsSync(FOUND) ? (JSON.parse(readFileSync(FOUND, 'utf8')) as Outcome[]) : [];
}

/** Writes the tables of docs/compatibility.md between their marks. */
export function report(outcomes: readonly Outcome[]): void {
  const text = readFileSync(FILE, 'utf8');
  const tables = `${head(outcomes)}\n\n${cells(outcomes)}\n\n${ways(outcomes)}`;
  writeFileSync(FILE, text.replace(/(<!-- tables: [^>]*-->)[\s\S]*(<!-- end -->)/, `$1\n\n${tables}\n\n$2`));
}

function head(outcomes: readonly Outcome[]): string {
  const tried = outcomes.flatMap(({ cell }) => cell ?? []);
  const pairs = new Set(tried.flatMap(pairsOf)).size;
  const memory = Math.round(totalmem() / 2 ** 30);
  const machine = `${type()} ${release()}, ${cpus().length} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${memory} GiB`;
  const bad = outcomes.filter(({ fault }) => fault !== undefined).length;
  const which = tried.length < allPairs().length ? 'Last run, which was ended early' : 'Last full run';
  return `${which}: ${new Date().toISOString().slice(0, 10)}, ${machine}. ${tried.length} applications hold ${pairs} of ${everyPair()} pairs of values; ${bad === 0 ? 'no cell fails' : `${bad} fail`}.`;
}

function everyPair(): number {
  const sizes = Object.values(axes()).map(({ length }) => length);
  return sizes
    .flatMap((one, at) => sizes.slice(at + 1).map((other) => one * other))
    .reduce((sum, n) => sum + n, 0);
}

function cells(outcomes: readonly Outcome[]): string {
  const rows = outcomes.flatMap(({ cell, fault, versions }) => {
    if (cell === undefined) return [];
    const { nest, adapter, typeorm, node, postgres } = cell;
    return [
      [
        nest,
        adapter,
        typeorm,
        node,
        postgres,
        nest === '11' ? 'ts-jest' : 'Vitest',
        said(fault),
        versions ?? '',
      ],
    ];
  });
  return table(
    ['Nest', 'adapter', 'TypeORM', 'Node', 'PostgreSQL', 'tests by', 'result', 'exact versions'],
    rows,
  );
}

function ways(outcomes: readonly Outcome[]): string {
  if (outcomes.every(({ way }) => way === undefined)) return 'No other way of installing was tried.';
  const rows = outcomes.flatMap(({ way, fault, versions }) =>
    way === undefined ? [] : [[way, said(fault), versions ?? '']],
  );
  return table(['installed by', 'result', 'exact versions'], rows);
}

function said(fault: string | undefined): string {
  return fault === undefined
    ? 'works'
    : `**fails**: ${fault.split('\n')[0]!.replaceAll('|', '\\|').slice(0, 200)}`;
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const width = titles.map((title, at) => Math.max(title.length, 3, ...rows.map((row) => row[at]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((text, at) => text.padEnd(width[at]!)).join(' | ')} |`;
  return [line(titles), `| ${width.map((n) => '-'.repeat(n)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
