import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startPostgres, type Postgres } from '../../examples/support/postgres.js';

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
/** A mutant may make its test wait for what never comes. */
const TEST_MS = 40_000;
/** For a spec: one with a fault may wait in each of its tests. */
const SPEC_MS = 240_000;

interface Report {
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

export type Outcome = 'passed' | 'failed' | 'not found';

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

/** A copy of the code to plant faults in, and a server for its tests. */
export class Copy {
  private constructor(
    readonly dir: string,
    private readonly postgres: Postgres,
  ) {}

  static async make(): Promise<Copy> {
    const dir = await mkdtemp(join(tmpdir(), 'webhook-mutants-'));
    const postgres = await startPostgres([
      'max_connections=400',
      'fsync=off',
      'synchronous_commit=off',
      'full_page_writes=off',
    ]);
    process.env.DATABASE_URL = postgres.url;
    for (const name of COPIED) await cp(join(ROOT, name), join(dir, name), { recursive: true });
    await symlink(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
    await symlink(join(ROOT, 'dist'), join(dir, 'dist')).catch(() => undefined);
    return new Copy(dir, postgres);
  }

  async remove(): Promise<void> {
    await this.postgres.stop();
    await rm(this.dir, { recursive: true, force: true });
  }

  /** Changes files until the work has ended. */
  async with<T>(texts: ReadonlyMap<string, string>, work: () => Promise<T>): Promise<T> {
    const before = new Map<string, string>();
    try {
      for (const [file, text] of texts) {
        const path = join(this.dir, file);
        before.set(path, await readFile(path, 'utf8'));
        await writeFile(path, text);
      }
      return await work();
    } finally {
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

  /** How a whole spec ends. One that ends by no report has failed: a test has, or a fault keeps the code from starting. */
  async outcome(spec: string): Promise<'passed' | 'failed'> {
    const report = await this.report(spec, [
      '--runInBand',
      '--reporters=<rootDir>/test/mutants/first-failure.mjs',
    ]);
    return report?.testResults.every(({ status }) => status === 'passed') === true ? 'passed' : 'failed';
  }

  private async report(spec: string, args: readonly string[]): Promise<Report | undefined> {
    const file = join(this.dir, 'report.json');
    const jest = [
      '--experimental-vm-modules',
      join(ROOT, 'node_modules/jest/bin/jest.js'),
      spec,
      // Specs of `npm run test:long` too.
      '--testMatch=**/*.spec.ts',
      ...args,
      '--json',
      `--outputFile=${file}`,
      `--testTimeout=${TEST_MS}`,
      '--forceExit',
    ];
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
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
