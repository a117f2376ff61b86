import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { startPostgres, type Postgres } from '../../examples/support/postgres.js';
import { webhookInboxMigrations } from '../../migrations/index.js';
import { RECEIVED_EVENT } from './tables.js';

let server: Postgres | undefined;

/**
 * One server for the whole run, with an empty database.
 * @throws Error with one sentence that names the cause and the remedy
 */
export async function startServer(): Promise<void> {
  server = await startPostgres([
    'max_connections=400',
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
    // Each database of a test writes half a segment, which would be filled with zeros before.
    'wal_init_zero=off',
    'max_prepared_transactions=0',
  ]);
  const template = `inbox_template_${process.pid}`;
  const client = new Client({ connectionString: server.url });
  try {
    await client.connect();
    await client.query(`DROP DATABASE IF EXISTS ${template}`);
    await client.query(`CREATE DATABASE ${template}`);
  } catch (error) {
    throw new Error(
      `The tests cannot use the server of DATABASE_URL: ${String(error)}; ` +
        'let it take connections of a user who may create databases, or unset DATABASE_URL.',
      { cause: error },
    );
  } finally {
    await client.end();
  }
  process.env.TEST_POSTGRES_URL = server.url;
  process.env.TEST_POSTGRES_TEMPLATE = template;
}

/** Migrates the database, which every test file clones. */
export async function createTemplate(): Promise<void> {
  const url = new URL(process.env.TEST_POSTGRES_URL!);
  url.pathname = `/${process.env.TEST_POSTGRES_TEMPLATE}`;
  const dataSource = new DataSource({
    type: 'postgres',
    url: url.href,
    migrations: webhookInboxMigrations(),
  });
  await dataSource.initialize();
  await dataSource.runMigrations();
  await dataSource.query(RECEIVED_EVENT);
  await dataSource.destroy();
}

export async function tearDown(): Promise<void> {
  const client = new Client({ connectionString: process.env.TEST_POSTGRES_URL });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${process.env.TEST_POSTGRES_TEMPLATE}`);
  await client.end();
  await server?.stop();
}
