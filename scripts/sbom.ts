import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * `npm run sbom`: CycloneDX of what an application installs with this package, from the lock file. `npm sbom --omit dev` alone leaves out
 * six of eight dependencies, since packages that only tests use need those too. Peers are the application's own.
 */
interface Locked {
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly peer?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}
interface Lock {
  readonly packages: Readonly<Record<string, Locked>>;
}

const read = (name: string): unknown => JSON.parse(readFileSync(name, 'utf8'));
const forOthers = { devDependencies: undefined, peerDependencies: undefined, scripts: undefined };

const own = read('package.json') as { readonly name: string };
const manifest = { ...own, ...forOthers };
const lock = read('package-lock.json') as Lock;
const packages = Object.entries(lock.packages)
  .filter(([, { dev, devOptional, peer }]) => !dev && !devOptional && !peer)
  .map(([path, locked]) => [path, path === '' ? { ...locked, ...forOthers } : locked]);

// npm names the component by its folder.
const parent = mkdtempSync(join(tmpdir(), 'sbom-'));
const folder = join(parent, own.name);
try {
  mkdirSync(folder);
  const files = {
    'package.json': manifest,
    'package-lock.json': { ...lock, packages: Object.fromEntries(packages) as object },
  };
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), JSON.stringify(content));
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: 'inherit' });
  process.exitCode = status ?? 1;
} finally {
  rmSync(parent, { recursive: true });
}
