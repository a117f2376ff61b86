import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import {
  OWN_SERVER,
  giveTo,
  installedPrograms,
  runnablePrograms,
  serverUser,
  type User,
} from './programs.js';

const FOLDERS = [tmpdir(), '/tmp', '/var/tmp'];
const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const;

/** A PostgreSQL server and its data in a temporary folder. Both are gone when this process ends, unless it is killed. */
export class Cluster {
  private server: ChildProcess | undefined;
  private programs = '';

  private constructor(
    private readonly folder: string,
    private readonly user: User | undefined,
  ) {
    process.on('exit', this.abandon);
    for (const signal of SIGNALS) {
      if (!process.listeners(signal).includes(exitWhenAlone)) process.on(signal, exitWhenAlone);
    }
  }

  /**
   * A new one, not started, in the first of the folders that serves.
   * @throws Error with one sentence that names the cause and the remedy
   */
  static async create(name: string, folders: readonly string[] = FOLDERS): Promise<Cluster> {
    const user = serverUser();
    const installed = installedPrograms();
    const failures: string[] = [];
    for (const parent of new Set(folders)) {
      try {
        return await Cluster.in(await mkdtemp(join(parent, name)), user, installed);
      } catch (error) {
        failures.push(`in ${parent}, ${(error as Error).message}`);
      }
    }
    throw new Error(
      `PostgreSQL was not set up: ${failures.join('; ')}; set TMPDIR to a folder with 200 MB of free space ` +
        `where ${user === undefined ? 'you' : `the user ${user.name}`} may run programs, or ${OWN_SERVER}.`,
    );
  }

  private static async in(folder: string, user: User | undefined, installed: string): Promise<Cluster> {
    const cluster = new Cluster(folder, user);
    try {
      cluster.programs = await runnablePrograms(installed, folder, user);
      if (user !== undefined) giveTo(user, folder);
      await cluster.initialise();
      return cluster;
    } catch (error) {
      await cluster.remove();
      throw error;
    }
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  get isUp(): boolean {
    return this.server?.pid !== undefined && (this.server.exitCode ?? this.server.signalCode) === null;
  }

  /** Starts the server's process; its log goes to its standard error. */
  serve(port: number, settings: readonly string[], log: 'pipe' | number): ChildProcess {
    // A socket file would need /tmp, and the user may not be able to write there.
    const all = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
    const flags = all.flatMap((setting) => ['-c', setting]);
    this.server = this.spawn('postgres', ['-D', this.data, '-p', String(port), ...flags], log);
    return this.server;
  }

  /** Ends the server. One that has ended already is not waited for. */
  async stop(signal: NodeJS.Signals): Promise<void> {
    if (!this.isUp) return;
    const ended = once(this.server!, 'exit');
    this.server!.kill(signal);
    await ended;
  }

  /** Ends the server, and removes the data. */
  async remove(): Promise<void> {
    await this.stop('SIGINT');
    await rm(this.folder, { recursive: true, force: true });
    process.off('exit', this.abandon);
  }

  private async initialise(): Promise<void> {
    const flags = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
    const initdb = this.spawn('initdb', [`--pgdata=${this.data}`, ...flags], 'pipe');
    const [said, [code]] = await Promise.all([text(initdb.stderr!), once(initdb, 'close')]).catch(whyNotRun);
    if (code !== 0) throw new Error(complaint(said.split('\n')));
  }

  private spawn(program: string, args: readonly string[], log: 'pipe' | number): ChildProcess {
    const path = join(this.programs, 'bin', program);
    // A terminal sends Ctrl-C to the whole process group. The server has its own: this process ends it, after its clients.
    return spawn(path, args, {
      ...this.user,
      cwd: this.folder,
      stdio: ['ignore', 'ignore', log],
      detached: true,
    });
  }

  /** At the end of the process nothing can be awaited; the server needs a moment to let go of its files. */
  private readonly abandon = (): void => {
    if (this.isUp) this.server!.kill('SIGQUIT');
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
}

/** The line of PostgreSQL's log that says why it gave up. */
export function complaint(log: readonly string[]): string {
  const said = log.map((line) => line.trim()).filter((line) => line !== '');
  return (
    said.find((line) => /\b(?:error|fatal|panic):/i.test(line)) ?? said.at(-1) ?? 'it ended without a word'
  );
}

function whyNotRun(error: NodeJS.ErrnoException): never {
  if (error.code === 'EACCES') throw new Error('programs may not be run', { cause: error });
  throw error;
}

/** A signal ends a process without its 'exit' event, unless somebody listens; other listeners drain the application first. */
function exitWhenAlone(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) === 1) process.exit(128 + constants.signals[signal]);
}
