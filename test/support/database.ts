import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';

/** A database of this test file's own. */
export interface TestDatabase {
  readonly url: string;
  /** A connection for looking at tables, apart from the application's pool. */
  readonly dataSource: DataSource;
  query<T = Record<string, unknown>>(sql: string, parameters?: unknown[]): Promise<T[]>;
  /** Runs `work` while the database accepts nobody and has cut every connection. */
  whileDown<T>(work: () => Promise<T>): Promise<T>;
  drop(): Promise<void>;
}

/** Cloned from the migrated template, or empty. */
export async function createDatabase({ empty = false } = {}): Promise<TestDatabase> {
  const name = `inbox_${randomUUID().replaceAll('-', '')}`;
  const template = empty ? 'template0' : process.env.TEST_POSTGRES_TEMPLATE;
  await admin(`CREATE DATABASE ${name} TEMPLATE ${template}`);
  const url = new URL(process.env.TEST_POSTGRES_URL!);
  url.pathname = `/${name}`;
  const dataSource = new DataSource({ ...options(url.href), extra: { max: 3 } });
  await dataSource.initialize();
  return {
    url: url.href,
    dataSource,
    query: (sql, parameters) => dataSource.query(sql, parameters),
    whileDown: async (work) => {
      await admin(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      try {
        await admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
        return await work();
      } finally {
        await admin(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
      }
    },
    drop: async () => {
      await dataSource.destroy();
      await admin(`DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

type PostgresOptions = Extract<DataSourceOptions, { readonly type: 'postgres' }>;

/** Options of a test application's DataSource. */
export function options(url: string, poolSize = 10): PostgresOptions {
  return { type: 'postgres', url, poolSize, logging: false };
}

async function admin(sql: string): Promise<void> {
  // CREATE DATABASE … TEMPLATE is refused while another clone is being made: wait for the one place.
  for (let attempt = 1; ; attempt += 1) {
    const client = new Client({ connectionString: process.env.TEST_POSTGRES_URL });
    await client.connect();
    try {
      await client.query(`SELECT pg_advisory_lock(42)`);
      await client.query(sql);
      return;
    } catch (error) {
      if (attempt === 5) throw error;
    } finally {
      await client.end();
    }
  }
}
