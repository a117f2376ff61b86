import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Runs this package's own integration and e2e suites on the older peers: `npm run test:nest11 [jest's arguments]`.
 * A copy of the work tree is installed with them in a folder beside, so that processes that tests start find them too, and so that
 * nothing of it is in this repository. The folder stays: the next run installs only what changed. NEST11_FOLDER names another one.
 */
const PEERS: Readonly<Record<string, string>> = {
  '@nestjs/cli': '^11.0.0',
  '@nestjs/common': '^11.0.0',
  '@nestjs/core': '^11.0.0',
  '@nestjs/microservices': '^11.0.0',
  '@nestjs/platform-express': '^11.0.0',
  '@nestjs/platform-fastify': '^11.0.0',
  '@nestjs/schedule': '^6.0.0',
  '@nestjs/schematics': '^11.0.0',
  '@nestjs/swagger': '^11.0.0',
  '@nestjs/terminus': '^11.0.0',
  '@nestjs/testing': '^11.0.0',
  '@nestjs/typeorm': '^11.0.0',
  typeorm: '^0.3.20',
};
/** Spin and mutants read the sources, browser and consumer tests install for themselves. */
const SUITES = ['test/integration', 'test/e2e'];

const folder = process.env.NEST11_FOLDER ?? join(tmpdir(), 'nestjs-webhook-inbox-nest11');

interface Manifest {
  readonly devDependencies: Readonly<Record<string, string>>;
}

function copy(): void {
  const { stdout } = spawnSync('git', ['ls-files', '-co', '--exclude-standard'], { encoding: 'utf8' });
  for (const name of ['src', 'test', 'migrations', 'examples', 'docs', 'scripts'])
    rmSync(join(folder, name), { recursive: true, force: true });
  for (const file of stdout.split('\n').filter((name) => name !== '' && existsSync(name)))
    cpSync(file, join(folder, file));
  rmSync(join(folder, 'package-lock.json'), { force: true });
}

function install(): void {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
  const text = JSON.stringify({ ...manifest, devDependencies: { ...manifest.devDependencies, ...PEERS } });
  const installed = join(folder, 'installed.json');
  writeFileSync(join(folder, 'package.json'), text);
  if (readIfThere(installed) === text) return;
  run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock']);
  writeFileSync(installed, text);
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function run(command: string, args: readonly string[]): void {
  const { status } = spawnSync(command, args, { cwd: folder, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

mkdirSync(folder, { recursive: true });
copy();
install();
const jest = ['--experimental-vm-modules', '--no-warnings', 'node_modules/jest/bin/jest.js'];
const asked = process.argv.slice(2);
run(process.execPath, [...jest, ...(asked.length > 0 ? asked : SUITES)]);
