import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../migrations/index.js';
import { OUTBOX_STATES } from '../../src/core/states.js';
import { migrate } from '../../src/index.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';

const PROGRAM = fileURLToPath(new URL('support/migrate.process.ts', import.meta.url));
const SCHEMA = `
  SELECT relname, relkind, reloptions, pg_get_indexdef(oid) AS index
    FROM pg_class WHERE relname LIKE 'webhook\\_%' ORDER BY relname`;

let database: TestDatabase;

beforeEach(async () => {
  database = await createDatabase({ empty: true });
});
afterEach(async () => {
  await database?.drop();
});

/** The migrations as a host lists them in a DataSource of its own. */
function host(more: Partial<{ migrationsTransactionMode: 'all' | 'each' | 'none' }> = {}): DataSource {
  return new DataSource({ ...options(database.url), migrations: [...webhookInboxMigrations], ...more });
}

async function within<T>(dataSource: DataSource, work: () => Promise<T>): Promise<T> {
  await dataSource.initialize();
  try {
    return await work();
  } finally {
    await dataSource.destroy();
  }
}

const schema = () => database.query<{ relname: string }>(SCHEMA);

describe('case 39 the migrations', () => {
  it.each(['all', 'each', 'none'] as const)(
    'run under TypeORM’s transaction mode "%s"',
    async (transaction) => {
      const dataSource = host({ migrationsTransactionMode: transaction });
      await within(dataSource, () => dataSource.runMigrations());
      expect((await schema()).map(({ relname }) => relname)).toEqual(
        expect.arrayContaining(['webhook_claim', 'webhook_event', 'webhook_outbox', 'webhook_outbox_due']),
      );
    },
  );

  it('change nothing when they run again, whatever TypeORM remembers', async () => {
    const dataSource = host();
    await within(dataSource, async () => {
      await dataSource.runMigrations();
      const before = await schema();
      await database.query(
        `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
         VALUES ('awardee', '', 'd-1', gen_random_uuid(), 0, 'grant.made', 'delivery', 'test', '{}')`,
      );
      await database.query(`DELETE FROM migrations`);
      expect(await dataSource.runMigrations()).toHaveLength(webhookInboxMigrations.length);
      expect(await schema()).toEqual(before);
      expect(await database.query(`SELECT event_id FROM webhook_claim`)).toEqual([{ event_id: 'd-1' }]);
    });
  });

  it('leave nothing behind when they are reverted', async () => {
    const dataSource = host();
    await within(dataSource, async () => {
      await dataSource.runMigrations();
      for (const _ of webhookInboxMigrations) await dataSource.undoLastMigration();
    });
    expect(await schema()).toEqual([]);
  });

  it('run once where five instances start at once with migrate()', async () => {
    const children = Array.from({ length: 5 }, () =>
      fork(PROGRAM, {
        execArgv: ['--import', '@swc-node/register/esm-register'],
        env: { ...process.env, NODE_OPTIONS: '', DATABASE_URL: database.url },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      }),
    );
    const ended = children.map((child) => once(child, 'exit'));
    await Promise.all(children.map((child) => once(child, 'message')));
    const reports = children.map((child) => once(child, 'message').then(([ran]) => ran as string[]));
    for (const child of children) child.send('go');
    const ran = (await Promise.all(reports)).flat();
    expect((await Promise.all(ended)).map(([status]) => status as number)).toEqual([0, 0, 0, 0, 0]);
    expect(ran).toEqual(webhookInboxMigrations.map(({ name }) => name));
    expect(await database.query(`SELECT name FROM migrations`)).toEqual(ran.map((name) => ({ name })));
  }, 120_000);

  it('migrate() works with a DataSource that is not initialized, and says what ran', async () => {
    const dataSource = host();
    try {
      expect(await migrate(dataSource)).toEqual(webhookInboxMigrations.map(({ name }) => name));
      expect(await migrate(dataSource)).toEqual([]);
    } finally {
      await dataSource.destroy();
    }
  });

  it('know the states of core/states.ts, and no other', async () => {
    const dataSource = host();
    await within(dataSource, () => dataSource.runMigrations());
    const constraints = await database.query<{ definition: string }>(
      `SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint
        WHERE conrelid = 'webhook_outbox'::regclass AND conname = 'webhook_outbox_state_check'`,
    );
    const known = [...constraints[0]!.definition.matchAll(/'(\w+)'::text/g)].map(([, state]) => state);
    expect(known).toEqual([...OUTBOX_STATES]);
  });
});
