import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createTemplate, startServer, tearDown } from '../support/postgres.js';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COPIED = [
  'src',
  'test',
  'migrations',
  'examples',
  'dashboard',
  'scripts',
  'docs',
  'package.json',
  'jest.config.mjs',
  'tsconfig.json',
];
/** For a spec: one with a fault may wait in each of its tests. */
const SPEC_MS = 240_000;

interface Report {
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

export type Outcome = 'passed' | 'failed' | 'not found';

/** How a spec ends: at its first test that fails, or at none when the code does not even start. */
export interface SpecEnd {
  readonly outcome: Outcome;
  /** Full name of the test that failed. */
  readonly test?: string;
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

/** A copy of the code to plant faults in, and a server for its tests. */
export class Copy {
  /** Whether a migration has a fault, so that the template of the run would not show it. */
  private isSchemaChanged = false;

  private constructor(readonly dir: string) {}

  static async make(): Promise<Copy> {
    const dir = await mkdtemp(join(tmpdir(), 'webhook-mutants-'));
    await startServer();
    await createTemplate();
    // A spec with a template of its own makes it on the same server.
    process.env.DATABASE_URL = process.env.TEST_POSTGRES_URL;
    for (const name of COPIED) await cp(join(ROOT, name), join(dir, name), { recursive: true });
    await symlink(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
    await symlink(join(ROOT, 'dist'), join(dir, 'dist')).catch(() => undefined);
    return new Copy(dir);
  }

  async remove(): Promise<void> {
    await tearDown();
    await rm(this.dir, { recursive: true, force: true });
  }

  async read(file: string): Promise<string> {
    return readFile(join(this.dir, file), 'utf8');
  }

  /** Changes files until the work has ended. */
  async with<T>(texts: ReadonlyMap<string, string>, work: () => Promise<T>): Promise<T> {
    const before = new Map<string, string>();
    this.isSchemaChanged = [...texts.keys()].some((file) => file.startsWith('migrations/'));
    try {
      for (const [file, text] of texts) {
        const path = join(this.dir, file);
        before.set(path, await readFile(path, 'utf8'));
        await writeFile(path, text);
      }
      return await work();
    } finally {
      this.isSchemaChanged = false;
      for (const [path, text] of before) await writeFile(path, text);
    }
  }

  /** How tests of a spec end, by a part of their names. */
  async outcomes(spec: string, tests: readonly string[]): Promise<Map<string, Outcome>> {
    const report = await this.report(spec, ['-t', tests.map(escaped).join('|')]);
    const results = report?.testResults.flatMap((one) => one.assertionResults) ?? [];
    const outcome = (test: string): Outcome => {
      const of = results.filter(({ fullName }) => fullName.includes(test));
      if (of.some(({ status }) => status === 'failed')) return 'failed';
      return of.some(({ status }) => status === 'passed') ? 'passed' : 'not found';
    };
    return new Map(tests.map((test) => [test, outcome(test)]));
  }

  /** How a spec ends, or one test of it. An end without a report is a failure: a fault keeps the code from starting, or waits for ever. */
  async end(spec: string, test?: string): Promise<SpecEnd> {
    const failedTest = join(this.dir, 'failed-test.txt');
    await rm(failedTest, { force: true });
    const only = test === undefined ? [] : ['-t', `^${escaped(test)}$`];
    const report = await this.report(
      spec,
      ['--reporters=<rootDir>/test/mutants/first-failure.mjs', ...only],
      { MUTANTS_FAILED_TEST: failedTest },
    );
    // Jest calls a file with a skipped test 'focused', not 'passed'.
    if (report?.testResults.every(({ status }) => status !== 'failed') === true) {
      const hasRun = report.testResults.some(({ assertionResults }) =>
        assertionResults.some(({ status }) => status === 'passed'),
      );
      return { outcome: hasRun ? 'passed' : 'not found' };
    }
    const failed = await readFile(failedTest, 'utf8').catch(() => undefined);
    return { outcome: 'failed', ...(failed !== undefined && { test: failed }) };
  }

  private async report(
    spec: string,
    args: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<Report | undefined> {
    const file = join(this.dir, 'report.json');
    const jest = [
      '--experimental-vm-modules',
      join(ROOT, 'node_modules/jest/bin/jest.js'),
      spec,
      '--config=test/mutants/jest.config.mjs',
      '--runInBand',
      ...args,
      '--json',
      `--outputFile=${file}`,
      '--forceExit',
    ];
    const env = {
      ...process.env,
      ...variables,
      NODE_NO_WARNINGS: '1',
      MUTANTS_OWN_TEMPLATE: this.isSchemaChanged ? 'yes' : 'no',
    };
    const child = spawn(process.execPath, jest, { cwd: this.dir, env, stdio: 'ignore' });
    const late = setTimeout(() => child.kill('SIGKILL'), SPEC_MS);
    await once(child, 'exit');
    clearTimeout(late);
    try {
      return JSON.parse(await readFile(file, 'utf8')) as Report;
    } catch {
      return undefined;
    } finally {
      await rm(file, { force: true });
    }
  }
}
