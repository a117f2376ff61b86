import { cpus } from 'node:os';
import Table from 'cli-table3';
import { writeFigures } from '../../scripts/figures.js';
import type { Course } from './check/plateau.js';
import type { Verdict } from './check/verdict.js';
import type { ModeReport } from './modes.js';
import type { ChaosOptions } from './options.js';

/** Where the page has the figures of each. */
const PLACES = { kills: 'chaos', clocks: 'clocks', stops: 'stops', promotions: 'promotions' } as const;
/** Figures that are the largest of their stages, and not their sum. */
const MAXIMA = new Set([
  'points',
  'longestOverdueMs',
  'slowAnswerMs',
  'longestAwayMs',
  'longestAwayAfterServerMs',
  'timeZones',
  'takeoverP50Ms',
  'takeoverP95Ms',
  'unwatchedP95Ms',
]);

export function merge(verdicts: readonly Verdict[]): Verdict {
  const figures: Record<string, number> = {};
  for (const verdict of verdicts) {
    for (const [name, value] of Object.entries(verdict.figures)) {
      const before = figures[name] ?? 0;
      figures[name] = MAXIMA.has(name) ? Math.max(before, value) : before + value;
    }
  }
  const faults = verdicts.flatMap((verdict, n) => verdict.faults.map((fault) => `stage ${n + 1}: ${fault}`));
  return { figures, faults };
}

/** A mode's own report; a soak has a table beside its figures. */
export async function tell(options: ChaosOptions, report: ModeReport): Promise<void> {
  const { courses, ...rest } = report;
  if (options.json) console.log(JSON.stringify(report));
  else {
    console.log(JSON.stringify(rest, undefined, 2));
    if (courses !== undefined) {
      const table = new Table({ head: [...COURSE_HEAD], style: { head: [], border: [] } });
      table.push(...courses.map(courseRow));
      console.log(table.toString());
    }
  }
  if (options.record && courses !== undefined) await recordSoak(options, report, courses);
  if (options.record && report.mode === 'attack')
    await recordFigures(report, `seed ${options.seed}, ${options.seconds} s for each adapter`);
  if (options.record && report.mode === 'races')
    await recordFigures(report, `seed ${options.seed}, ${options.adapter}`);
  if (options.record && report.mode === 'engine')
    await recordFigures(report, `seed ${options.seed}`, 'docs/scaling.md', options.engine);
}

async function recordFigures(
  { mode, figures, faults }: ModeReport,
  how: string,
  page = 'docs/reliability.md',
  place: string = mode,
): Promise<void> {
  const rows = Object.entries(figures as Readonly<Record<string, number>>);
  await writeFigures(page, place, [
    `Run of ${new Date().toISOString().slice(0, 10)} on ${machine()}; ${how}: ` +
      (faults.length === 0 ? 'passed.' : `**${faults.join('; ')}**.`),
    '',
    '| figure | value |',
    '| --- | ---: |',
    ...rows.map(([name, value]) => `| ${name} | ${value.toLocaleString('en')} |`),
  ]);
}

const COURSE_HEAD = ['figure', 'before', 'pinned', 'middle', 'last', ''] as const;

function courseRow({ name, unit, before, pinned, middle, last, grows }: Course): string[] {
  const shown = [before, pinned, middle, last].map((value) => inUnit(value, unit));
  return [name, ...shown, grows ? 'GROWS' : 'level'];
}

function inUnit(value: number | undefined, unit: Course['unit']): string {
  if (value === undefined) return '-';
  if (unit === 'bytes') return `${(value / 1024 / 1024).toFixed(1)} MB`;
  return unit === 'ms' ? `${Math.round(value)} ms` : Math.round(value).toLocaleString('en');
}

async function recordSoak(
  { seed, adapter }: ChaosOptions,
  report: ModeReport,
  courses: readonly Course[],
): Promise<void> {
  const figures = Object.entries(report.figures as Readonly<Record<string, number>>);
  await writeFigures('docs/reliability.md', 'soak', [
    `Run of ${new Date().toISOString().slice(0, 10)} on ${machine()}; seed ${seed}, ${adapter}: ` +
      (report.faults.length === 0 ? 'passed.' : `**${report.faults.join('; ')}**.`),
    figures.map(([name, value]) => `${name} ${value.toLocaleString('en')}`).join(', ') + '.',
    '',
    `| ${COURSE_HEAD.join(' | ')} |`,
    '| --- | ---: | ---: | ---: | ---: | --- |',
    ...courses.map((course) => `| ${courseRow(course).join(' | ')} |`),
  ]);
}

const machine = () => `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}, Node ${process.version}`;

export function print({ json, seed, adapter }: ChaosOptions, verdict: Verdict, seconds: number): void {
  if (json) {
    console.log(JSON.stringify({ seed, adapter, seconds, ...verdict }));
    return;
  }
  const table = new Table({ colAligns: ['left', 'right'], style: { head: [], border: [] } });
  for (const [name, value] of Object.entries(verdict.figures)) table.push([name, value.toLocaleString('en')]);
  console.log(table.toString());
  for (const fault of verdict.faults) console.log(fault);
  console.log(`seed ${seed}, ${adapter}, ${seconds} s: ${verdict.faults.length === 0 ? 'passed' : 'FAILED'}`);
}

/** Puts the figures where readers find them, with when and on what they were had. */
export async function record(
  { faults: done, seed, adapter, stages }: ChaosOptions,
  { figures, faults }: Verdict,
): Promise<void> {
  const rows = Object.entries(figures).map(([name, value]) => `| ${name} | ${value.toLocaleString('en')} |`);
  await writeFigures('docs/reliability.md', PLACES[done], [
    `Run of ${new Date().toISOString().slice(0, 10)} on ${machine()}; seed ${seed}, ${adapter}, ${stages.length === 1 ? '1 stage' : `${stages.length} stages`}: ` +
      (faults.length === 0 ? 'passed.' : `**${faults.length} faults**.`),
    '',
    '| figure | value |',
    '| --- | ---: |',
    ...rows,
  ]);
}
