// An instance that migrates at its start, together with others. Forked by `migrations.spec`.
import 'reflect-metadata';
import { once } from 'node:events';
import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../../migrations/index.js';
import { migrate } from '../../../src/storage/schema/migrate.js';
import { options } from '../../support/database.js';

const dataSource = new DataSource({
  ...options(process.env.DATABASE_URL!, 2),
  migrations: webhookInboxMigrations(),
});
await dataSource.initialize();
process.send!('ready');
await once(process, 'message');
process.send!(await migrate(dataSource));
await dataSource.destroy();
process.disconnect();
