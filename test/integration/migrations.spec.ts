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
  return new DataSource({ ...options(database.url), migrations: webhookInboxMigrations(), ...more });
}

async function within<T>(dataSource: DataSource, work: (dataSource: DataSource) => Promise<T>): Promise<T> {
  await dataSource.initialize();
  try {
    return await work(dataSource);
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
      expect(await dataSource.runMigrations()).toHaveLength(webhookInboxMigrations().length);
      expect(await schema()).toEqual(before);
      expect(await database.query(`SELECT event_id FROM webhook_claim`)).toEqual([{ event_id: 'd-1' }]);
    });
  });

  it('leave nothing behind when they are reverted', async () => {
    const dataSource = host();
    await within(dataSource, async () => {
      await dataSource.runMigrations();
      for (const _ of webhookInboxMigrations()) await dataSource.undoLastMigration();
    });
    expect(await schema()).toEqual([]);
    expect(await database.query(`SELECT proname FROM pg_proc WHERE proname LIKE 'webhook%'`)).toEqual([]);
  });

  it('have PostgreSQL itself refuse a row that cannot be, whatever its search_path', async () => {
    const long = `repeat('x', 256)`;
    const sound: Record<string, string>[] = [
      {},
      { kind: `'handler'`, event_id: `'e'`, state: `'superseded'`, settled_at: 'now()' },
      { order_key: `'k'`, order_name: `'mail'`, waits: 'true' },
    ];
    const wrong: Record<string, string>[] = [
      { kind: `'other'` },
      { state: `'other'`, settled_at: 'now()' },
      { name: `''` },
      { name: long },
      { key: long },
      { order_key: long, order_name: `'mail'` },
      { order_key: `'k'`, order_name: long },
      { attempt: '-1', attempt_base: '-1' },
      { attempt: '1', attempt_base: '2' },
      { leased_by: 'gen_random_uuid()', state: `'done'`, settled_at: 'now()' },
      { leased_by: 'gen_random_uuid()', waits: 'true', order_key: `'k'`, order_name: `'mail'` },
      { waits: 'true' },
      { order_key: `'k'` },
      { settled_at: 'now()' },
      { state: `'parked'`, settled_at: 'now()' },
      { state: `'done'` },
      { kind: `'handler'` },
      { state: `'superseded'`, settled_at: 'now()' },
    ];
    await within(host(), (dataSource) => dataSource.runMigrations());
    await within(host(), async (dataSource) => {
      const runner = dataSource.createQueryRunner();
      const insert = (values: Record<string, string>) => {
        const row = { id: 'gen_random_uuid()', kind: `'effect'`, name: `'mail'`, ...values };
        const [columns, expressions] = [Object.keys(row), Object.values(row)];
        return runner.query(
          `INSERT INTO public.webhook_outbox (${columns.join()}) VALUES (${expressions.join()})`,
        );
      };
      // As a restore has it.
      await runner.query(`SET search_path = ''`);
      for (const row of sound) await insert(row);
      for (const row of wrong)
        await expect(insert(row)).rejects.toMatchObject({
          driverError: { constraint: 'webhook_outbox_sound' },
        });
      await runner.release();
    });
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
    expect(ran).toEqual(webhookInboxMigrations().map(({ name }) => name));
    expect(await database.query(`SELECT name FROM migrations`)).toEqual(ran.map((name) => ({ name })));
  }, 120_000);

  it('migrate() works with a DataSource that is not initialized, and says what ran', async () => {
    const dataSource = host();
    try {
      expect(await migrate(dataSource)).toEqual(webhookInboxMigrations().map(({ name }) => name));
      expect(await migrate(dataSource)).toEqual([]);
    } finally {
      await dataSource.destroy();
    }
  });

  it('know the states of core/states.ts, and no other', async () => {
    const dataSource = host();
    await within(dataSource, () => dataSource.runMigrations());
    const [rules] = await database.query<{ body: string }>(
      `SELECT prosrc AS body FROM pg_proc WHERE proname = 'webhook_outbox_is_sound'`,
    );
    const states = /state IN \(([^)]+)\)/.exec(rules!.body)![1]!;
    const known = [...states.matchAll(/'(\w+)'/g)].map(([, state]) => state);
    expect(known).toEqual([...OUTBOX_STATES]);
  });
});
