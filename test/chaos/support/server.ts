import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Cluster } from '../../../examples/support/cluster.js';
import { freePort } from '../../../examples/support/free.port.js';
import { urlOf } from '../../../examples/support/postgres.js';

const START_MS = 120_000;

/** A PostgreSQL server of our own that can end at any moment and start again with what it has kept. */
export class Server {
  private constructor(
    private readonly cluster: Cluster,
    private readonly port: number,
    private readonly logFile: string,
    private readonly settings: readonly string[],
  ) {}

  /** A new one, not started; its data goes when this process ends, or with `remove`. */
  static async create(logFile: string, settings: readonly string[]): Promise<Server> {
    const cluster = await Cluster.create('webhook-chaos-pg-');
    return new Server(cluster, await freePort(), logFile, settings);
  }

  /** One without data, for a standby whose data is copied from its primary. */
  static async empty(logFile: string, settings: readonly string[]): Promise<Server> {
    const server = await Server.create(logFile, settings);
    await rm(server.data, { recursive: true });
    return server;
  }

  get data(): string {
    return this.cluster.data;
  }

  get url(): string {
    return this.urlOf('postgres');
  }

  urlOf(database: string): string {
    return urlOf(this.port, database);
  }

  /** Resolves when it takes connections; a standby, those that read. */
  async start(): Promise<void> {
    const log = openSync(this.logFile, 'a');
    this.cluster.serve(this.port, this.settings, log);
    closeSync(log);
    const latest = performance.now() + START_MS;
    while ((await ask(this.url, (client) => client.query('SELECT'))) === undefined) {
      if (!this.cluster.isUp || performance.now() > latest)
        throw new Error(`PostgreSQL did not start; see ${this.logFile}`);
      await sleep(50);
    }
  }

  /** As `pg_ctl -m immediate`: it writes nothing more, and recovers from its log at the next start. */
  async stopAtOnce(): Promise<void> {
    await this.cluster.stop('SIGQUIT');
  }

  /** Ends it in peace, and removes its data. */
  async remove(): Promise<void> {
    await this.cluster.remove();
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
