import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { startPostgres } from '../../examples/support/postgres.js';
import { webhookInboxMigrations } from '../../migrations/index.js';
import { parentOf } from './cpu.js';

/** PostgreSQL with its default durability, for all contenders. */
export interface Server {
  readonly version: string;
  readonly postmaster: number;
  /** A new database; `ours` has the package's tables. Every one has the tables of the articles' receiver and a business record. */
  database(name: string): Promise<string>;
  /** Writes what is dirty, so that no contender pays for the one before. */
  quiet(): Promise<void>;
  stop(): Promise<void>;
}

const TABLES = `
  CREATE TABLE business_record (source text, event_id text, kind text, PRIMARY KEY (source, event_id));
  CREATE TABLE processed_event (event_id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz);
  CREATE TABLE owed_event (event_id text PRIMARY KEY, due_at timestamptz NOT NULL DEFAULT now(), attempt integer NOT NULL DEFAULT 0,
    leased_by uuid, processed_at timestamptz);
  CREATE INDEX owed_event_due ON owed_event (due_at) WHERE processed_at IS NULL;
  CREATE TABLE outbox_message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id text NOT NULL, kind text NOT NULL,
    payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), sent_at timestamptz);
  CREATE INDEX ON outbox_message (id) WHERE sent_at IS NULL`;

export async function startServer(more: readonly string[] = []): Promise<Server> {
  const postgres = await startPostgres([
    'shared_buffers=512MB',
    'max_wal_size=8GB',
    'max_connections=200',
    ...more,
  ]);
  const admin = new Client({ connectionString: postgres.url });
  await admin.connect();
  const { rows } = await admin.query<{ version: string; pid: number }>(
    `SELECT split_part(version(), ' ', 2) AS version, pg_backend_pid() AS pid`,
  );
  return {
    version: rows[0]!.version,
    postmaster: parentOf(rows[0]!.pid),
    database: async (name) => {
      await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await admin.query(`CREATE DATABASE ${name}`);
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      const migrations = webhookInboxMigrations();
      const dataSource = await new DataSource({ type: 'postgres', url: url.href, migrations }).initialize();
      await dataSource.runMigrations();
      await dataSource.query(TABLES);
      await dataSource.destroy();
      return url.href;
    },
    quiet: async () => {
      await admin.query('CHECKPOINT');
    },
    stop: async () => {
      await admin.end();
      await postgres.stop();
    },
  };
}
