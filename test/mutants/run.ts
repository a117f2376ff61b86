import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startPostgres } from '../../examples/support/postgres.js';
import { MUTANTS, type Mutant } from './mutants.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COPIED = [
  'src',
  'test',
  'migrations',
  'examples',
  'scripts',
  'docs',
  'package.json',
  'jest.config.mjs',
  'tsconfig.json',
];
/** A mutant may make its test wait for what never comes. */
const TEST_MS = 40_000;

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

type Outcome = 'passed' | 'failed' | 'not found';

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

/** How tests of a spec ended in the copy, by a part of their names. */
async function outcomes(copy: string, spec: string, tests: readonly string[]): Promise<Map<string, Outcome>> {
  const file = join(copy, 'report.json');
  const args = [
    '--experimental-vm-modules',
    join(ROOT, 'node_modules/jest/bin/jest.js'),
    spec,
    // Specs of `npm run test:long` too.
    '--testMatch=**/*.spec.ts',
    '-t',
    tests.map(escaped).join('|'),
  ];
  const child = spawn(
    process.execPath,
    [...args, '--json', `--outputFile=${file}`, `--testTimeout=${TEST_MS}`, '--forceExit'],
    { cwd: copy, env: { ...process.env, NODE_NO_WARNINGS: '1' }, stdio: 'ignore' },
  );
  await once(child, 'exit');
  const report = JSON.parse(await readFile(file, 'utf8')) as Report;
  await rm(file);
  const results = report.testResults.flatMap((one) => one.assertionResults);
  const outcome = (test: string): Outcome => {
    const named = results.filter(({ fullName }) => fullName.includes(test));
    if (named.some(({ status }) => status === 'failed')) return 'failed';
    return named.some(({ status }) => status === 'passed') ? 'passed' : 'not found';
  };
  return new Map(tests.map((test) => [test, outcome(test)]));
}

/** @throws Error when a text to replace is not there exactly once: the mutant has to be written again */
async function plant(copy: string, { name, edits }: Mutant): Promise<() => Promise<void>> {
  const before = new Map<string, string>();
  for (const { file, find, replace } of edits) {
    const path = join(copy, file);
    const text = await readFile(path, 'utf8');
    if (text.split(find).length !== 2)
      throw new Error(`mutant '${name}': its text is not in ${file} exactly once:\n${find}`);
    if (!before.has(path)) before.set(path, text);
    await writeFile(
      path,
      text.replace(find, () => replace),
    );
  }
  return async () => {
    for (const [path, text] of before) await writeFile(path, text);
  };
}

async function run(mutants: readonly Mutant[]): Promise<number> {
  const copy = await mkdtemp(join(tmpdir(), 'webhook-mutants-'));
  const postgres = await startPostgres([
    'max_connections=400',
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
  ]);
  process.env.DATABASE_URL = postgres.url;
  let caught = 0;
  try {
    for (const name of COPIED) await cp(join(ROOT, name), join(copy, name), { recursive: true });
    await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
    // Without the fault a test must pass, or it would catch anything: once for each spec.
    const sounds = new Map<string, Map<string, Outcome>>();
    for (const mutant of mutants) {
      const { spec, test } = mutant;
      const tests = mutants.filter((one) => one.spec === spec).map((one) => one.test);
      if (!sounds.has(spec)) sounds.set(spec, await outcomes(copy, spec, [...new Set(tests)]));
      const sound = sounds.get(spec)!.get(test);
      const restore = await plant(copy, mutant);
      const mutated = (await outcomes(copy, spec, [test])).get(test);
      await restore();
      const isCaught = sound === 'passed' && mutated === 'failed';
      if (isCaught) caught += 1;
      console.log(
        `${isCaught ? 'caught' : `NOT CAUGHT (test without the fault: ${sound}, with it: ${mutated})`}: ` +
          `${mutant.name}, by ${mutant.spec} '${mutant.test}'`,
      );
    }
  } finally {
    await postgres.stop();
    await rm(copy, { recursive: true, force: true });
  }
  console.log(`${caught}/${mutants.length} caught`);
  return caught === mutants.length ? 0 : 1;
}

const wanted = process.argv[2];
process.exit(await run(MUTANTS.filter(({ name }) => wanted === undefined || name.includes(wanted))));
