import type { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../../migrations/index.js';
import { sqlStateOf } from '../../core/classify.js';
import { DoctorStore, type CatalogObject } from '../../storage/desk/doctor.store.js';
import { schemaOf } from '../../storage/schema/own-schema.js';
import { error, warning, type Check, type Finding } from './finding.js';

const MIGRATE =
  'run the migrations: npx typeorm migration:run -d <DataSource file>, or migrate(dataSource) at start';
const MAX_NAMED = 8;
const SCRATCH = 'webhook_inbox_doctor';

/** Makes the tables of this version in a schema of their own, in a transaction that is rolled back, and compares the two. */
export const tablesCheck: Check = {
  name: 'migrations',
  run: async ({ app, dataSource }) => {
    const store = app.get(DoctorStore, { strict: false });
    const schema = schemaOf(dataSource);
    const found = await rolledBack(dataSource, (runner) => store.objects(runner.manager, schema));
    if (found.length === 0) return [error(`the package's tables are missing in schema '${schema}'`, MIGRATE)];
    try {
      const expected = await rolledBack(dataSource, async (runner) => {
        for (const Migration of webhookInboxMigrations({ schema: SCRATCH })) await new Migration().up(runner);
        return store.objects(runner.manager, SCRATCH);
      });
      return differences(expected, found, schema);
    } catch (thrown) {
      if (sqlStateOf(thrown) !== '42501') throw thrown;
      return missingTables(found, schema);
    }
  },
};

async function rolledBack<T>(
  dataSource: DataSource,
  work: (runner: ReturnType<DataSource['createQueryRunner']>) => Promise<T>,
): Promise<T> {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    return await work(runner);
  } finally {
    if (runner.isTransactionActive) await runner.rollbackTransaction();
    await runner.release();
  }
}

function differences(
  expected: readonly CatalogObject[],
  found: readonly CatalogObject[],
  schema: string,
): Finding[] {
  const there = new Map(found.map(({ name, definition }) => [name, definition]));
  const missing = expected.filter(({ name }) => !there.has(name)).map(({ name }) => name);
  const drifted = expected
    .filter(({ name, definition }) => there.has(name) && there.get(name) !== definition)
    .map(({ name }) => name);
  return [
    ...(missing.length === 0 ? [] : [error(`missing in schema '${schema}': ${listed(missing)}`, MIGRATE)]),
    ...(drifted.length === 0
      ? []
      : [
          warning(
            `different from this version in schema '${schema}': ${listed(drifted)}`,
            `${MIGRATE}. If they have run, these objects were changed later: compare them with npx webhook-inbox migrate-sql`,
          ),
        ]),
  ];
}

/** For a role that may not make a schema. */
function missingTables(found: readonly CatalogObject[], schema: string): Finding[] {
  const columns = new Set(found.map(({ name }) => name));
  const missing = ['column webhook_claim.id', 'column webhook_outbox.id', 'column webhook_relay.id'].filter(
    (name) => !columns.has(name),
  );
  return missing.length === 0 ? [] : [error(`missing in schema '${schema}': ${listed(missing)}`, MIGRATE)];
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
