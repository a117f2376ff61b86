import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Cluster, complaint } from './cluster.js';
import { freePort } from './free.port.js';
import { OWN_SERVER } from './programs.js';

export interface Postgres {
  /** Connection URL of the server, without a database name's guarantee beyond `postgres`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Another program can take a port between the moment it was found free and the server's start. */
const PORTS_TRIED = 5;

/**
 * The server of DATABASE_URL, or a real PostgreSQL of our own in a temporary folder, gone when it is stopped.
 * @param settings server settings for one of our own, such as `max_connections=300`
 * @throws Error with one sentence that names the cause and the remedy
 */
export async function startPostgres(settings: readonly string[] = []): Promise<Postgres> {
  const given = process.env.DATABASE_URL;
  if (given !== undefined && given !== '') return { url: given, stop: async () => undefined };
  const cluster = await Cluster.create('webhook-inbox-pg-');
  try {
    return { url: await serve(cluster, settings), stop: () => cluster.remove() };
  } catch (error) {
    await cluster.remove();
    throw error;
  }
}

export function urlOf(port: number, database = 'postgres'): string {
  return `postgres://postgres:postgres@127.0.0.1:${port}/${database}`;
}

async function serve(cluster: Cluster, settings: readonly string[]): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    const log = await logAtStart(cluster.serve(port, settings, 'pipe'));
    if (cluster.isUp) return urlOf(port);
    const isPortTaken = log.some((line) => line.includes('Address already in use'));
    if (!isPortTaken || attempt === PORTS_TRIED)
      throw new Error(`PostgreSQL did not start: ${complaint(log)}; ${OWN_SERVER}.`);
  }
}

/** What the server says until it takes connections or has ended. */
async function logAtStart(server: ChildProcess): Promise<string[]> {
  const said: string[] = [];
  const ended = once(server, 'close').catch((error: Error) => said.push(error.message));
  for await (const line of createInterface({ input: server.stderr! })) {
    said.push(line);
    if (!line.includes('ready to accept connections')) continue;
    // Nobody reads on, and a full pipe would stop the server.
    server.stderr!.resume();
    return said;
  }
  await ended;
  return said;
}
