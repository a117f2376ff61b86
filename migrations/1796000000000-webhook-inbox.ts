import type { MigrationInterface, QueryRunner } from 'typeorm';
import { dataSourceOf } from '../src/storage/postgres/connection.js';
import { quoted, schemaOf } from '../src/storage/schema/own-schema.js';
import { DESK_TABLES } from './desk.tables.js';
import { INBOX_TABLES } from './inbox.tables.js';
import { createAll, dropAll, refuseForeign } from './own.objects.js';
import { VIEWS } from './views.js';

const OBJECTS = [...INBOX_TABLES, ...DESK_TABLES, ...VIEWS];

/** The tables and views of the package. Each statement may run twice. */
export class WebhookInbox1796000000000 implements MigrationInterface {
  readonly name: string = 'WebhookInbox1796000000000';
  /** Where they are; otherwise where the DataSource has them. */
  protected readonly schema: string | undefined = undefined;

  async up(runner: QueryRunner): Promise<void> {
    const schema = this.schemaFor(runner);
    await refuseForeign(runner, schema, OBJECTS);
    await createSchema(runner, schema);
    await createAll(runner, schema, OBJECTS);
    // A queue table is mostly dead rows between vacuums; the defaults (20 % of the table) let a lease scan wade through them.
    for (const table of ['webhook_outbox', 'webhook_outbox_data']) {
      await runner.query(`
        ALTER TABLE ${quoted(schema)}.${table} SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
          autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1)`);
    }
    await runner.query(`
      ALTER TABLE ${quoted(schema)}.webhook_claim
        SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02)`);
  }

  /** The schema stays: other things may be in it. */
  async down(runner: QueryRunner): Promise<void> {
    const schema = this.schemaFor(runner);
    await refuseForeign(runner, schema, OBJECTS);
    await dropAll(runner, schema, OBJECTS);
  }

  private schemaFor(runner: QueryRunner): string {
    return this.schema ?? schemaOf(dataSourceOf(runner.manager));
  }
}

/** Looked for first: CREATE SCHEMA takes a right on the database, also where the schema is there. */
async function createSchema(runner: QueryRunner, schema: string): Promise<void> {
  const there = (await runner.query(`SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1`, [
    schema,
  ])) as unknown[];
  if (there.length === 0) await runner.query(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`);
}
