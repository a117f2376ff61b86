import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../../migrations/index.js';
import { CHAOS_TABLES } from '../receiver/tables.js';

/** A new, migrated database with the tables of a run. */
export async function createStageDatabase(serverUrl: string, name: string): Promise<string> {
  const client = new Client({ connectionString: serverUrl });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const dataSource = new DataSource({
    type: 'postgres',
    url: url.href,
    migrations: webhookInboxMigrations(),
  });
  await dataSource.initialize();
  await dataSource.runMigrations();
  await dataSource.query(CHAOS_TABLES);
  await dataSource.destroy();
  return url.href;
}
