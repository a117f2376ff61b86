import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { startPostgres, type Postgres } from '../../examples/support/postgres.js';
import { webhookInboxMigrations } from '../../migrations/index.js';
import { RECEIVED_EVENT } from './tables.js';

let server: Postgres | undefined;

/** One server for the whole run, and one migrated database that every test file clones. */
export async function setUp(): Promise<void> {
  const postgres = await startPostgres([
    'max_connections=400',
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
    'max_prepared_transactions=0',
  ]);
  server = postgres;
  const template = `inbox_template_${process.pid}`;
  const client = new Client({ connectionString: postgres.url });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${template}`);
  await client.query(`CREATE DATABASE ${template}`);
  await client.end();
  const url = new URL(postgres.url);
  url.pathname = `/${template}`;
  const dataSource = new DataSource({ type: 'postgres', url: url.href, migrations: webhookInboxMigrations });
  await dataSource.initialize();
  await dataSource.runMigrations();
  await dataSource.query(RECEIVED_EVENT);
  await dataSource.destroy();
  process.env.TEST_POSTGRES_URL = postgres.url;
  process.env.TEST_POSTGRES_TEMPLATE = template;
}

export async function tearDown(): Promise<void> {
  const client = new Client({ connectionString: process.env.TEST_POSTGRES_URL });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${process.env.TEST_POSTGRES_TEMPLATE}`);
  await client.end();
  await server?.stop();
}
