import type { DataSource } from 'typeorm';
import { ConfigurationError } from '../../core/errors.js';
import { poolSize } from '../postgres/connection.js';

const LOCK = 'nestjs-webhook-inbox:migrate';
/** By name, since an application may list a copy or a subclass of its own. */
const OURS = /^WebhookInbox(?:_.+_)?\d+$/;

/**
 * Runs the pending migrations of the DataSource, safely when several instances start at once. TypeORM's own runner creates its `migrations`
 * table before any migration could take a lock, and all but one instance would fail there. The lock is held by an open transaction, since a
 * session's lock breaks behind a pooler. The pool needs two connections.
 * @returns the names of the migrations that ran
 * @throws ConfigurationError when the DataSource does not list the package's migrations, or has one connection
 */
export async function migrate(dataSource: DataSource): Promise<string[]> {
  const size = poolSize(dataSource);
  if (size < 2) {
    throw new ConfigurationError(
      `migrate(dataSource): its lock holds one connection, and the migrations run on another; expected a poolSize of at least 2, ` +
        `received ${size}. Give the DataSource two connections, or run the migrations with TypeORM's CLI`,
    );
  }
  if (!dataSource.isInitialized) await dataSource.initialize();
  if (!dataSource.migrations.some((one) => OURS.test(one.name ?? one.constructor.name))) {
    throw new ConfigurationError(
      `migrate(dataSource): expected webhookInboxMigrations among the migrations of the DataSource, found ` +
        `${dataSource.migrations.length} others. Add them: migrations: webhookInboxMigrations() from 'nestjs-webhook-inbox/migrations'`,
    );
  }
  return dataSource.transaction(async (manager) => {
    await manager.query(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [LOCK]);
    const done = await dataSource.runMigrations({ transaction: 'each' });
    return done.map((migration) => migration.name);
  });
}
