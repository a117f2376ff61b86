import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from './migrations/index.js';

/** For the TypeORM CLI: `npm run migration:run` (needs DATABASE_URL). */
export default new DataSource({
  type: 'postgres',
  url: process.env.DATABASE_URL,
  migrations: webhookInboxMigrations(),
});
