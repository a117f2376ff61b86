import type { DataSource } from 'typeorm';

const LOCK = 'nestjs-webhook-inbox:migrate';

/**
 * Runs the pending migrations of the DataSource, safely when several instances start at once: TypeORM's own runner creates its
 * `migrations` table before any migration could take a lock, and all but one instance would die there. The lock is held by an open
 * transaction, since a session's lock breaks behind a pooler; the pool needs two connections.
 * @returns the names of the migrations that ran
 */
export async function migrate(dataSource: DataSource): Promise<string[]> {
  if (!dataSource.isInitialized) await dataSource.initialize();
  return dataSource.transaction(async (manager) => {
    await manager.query(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [LOCK]);
    const done = await dataSource.runMigrations({ transaction: 'each' });
    return done.map((migration) => migration.name);
  });
}
