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
function host(more: object = {}): DataSource {
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
    const [longest, long] = [255, 256].map((bytes) => `repeat('x', ${bytes})`) as [string, string];
    const sound: Record<string, string>[] = [
      {},
      { kind: `'handler'`, event_id: `'e'`, state: `'superseded'`, settled_at: 'now()' },
      { order_key: `'k'`, order_name: `'mail'`, waits: 'true' },
      { leased_by: 'gen_random_uuid()', lease_until: 'now()' },
      { state: `'cancelled'`, settled_at: 'now()' },
      { state: `'handed'` },
      { name: longest, key: longest, order_key: longest, order_name: longest },
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
      { leased_by: 'gen_random_uuid()' },
      { leased_by: 'gen_random_uuid()', lease_until: 'now()', state: `'done'`, settled_at: 'now()' },
      {
        leased_by: 'gen_random_uuid()',
        lease_until: 'now()',
        waits: 'true',
        order_key: `'k'`,
        order_name: `'mail'`,
      },
      { state: `'handed'`, settled_at: 'now()' },
      { state: `'cancelled'` },
      { kind: `'handler'`, event_id: `'e'`, state: `'handed'` },
      { kind: `'handler'`, event_id: `'e'`, state: `'cancelled'`, settled_at: 'now()' },
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

  it('have PostgreSQL itself refuse a second claim with an id of ours', async () => {
    await within(host(), (dataSource) => dataSource.runMigrations());
    const claim = (eventId: string) =>
      database.query(
        `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
         VALUES ('awardee', '', $1, '01990000-0000-7000-8000-000000000000', 0, 'grant.made', 'delivery', 'test', '{}')`,
        [eventId],
      );
    await claim('d-1');
    await expect(claim('d-2')).rejects.toMatchObject({ driverError: { constraint: 'webhook_claim_id' } });
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

  it('migrate() refuses a pool of one, in which it would wait for itself', async () => {
    for (const pool of [{ poolSize: 1 }, { extra: { max: 1 } }, { poolSize: 5, extra: { max: '1' } }]) {
      const dataSource = host(pool);
      await expect(migrate(dataSource)).rejects.toThrow(
        /^migrate\(dataSource\): .* expected a poolSize of at least 2, received 1\. Give the DataSource two/,
      );
      expect(dataSource.isInitialized).toBe(false);
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

describe('objects of the application that have a name of ours', () => {
  /** Of each kind that PostgreSQL has, one that is of nobody but the application. */
  const KINDS: Record<string, (name: string) => string> = {
    table: (name) => `CREATE TABLE app.${name} (mine int); INSERT INTO app.${name} VALUES (7)`,
    view: (name) => `CREATE VIEW app.${name} AS SELECT 7 AS mine`,
    'materialized view': (name) => `CREATE MATERIALIZED VIEW app.${name} AS SELECT 7 AS mine`,
    index: (name) => `CREATE TABLE app.mine (mine int); CREATE INDEX ${name} ON app.mine (mine)`,
    sequence: (name) => `CREATE SEQUENCE app.${name}`,
    type: (name) => `CREATE TYPE app.${name} AS (mine int)`,
  };
  const TYPES = {
    enum: (name: string) => `CREATE TYPE app.${name} AS ENUM ('mine')`,
    domain: (name: string) => `CREATE DOMAIN app.${name} AS int`,
  };
  const IN_APP = `
    SELECT relname AS name FROM pg_class WHERE relnamespace = 'app'::regnamespace
     UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'app'::regnamespace
     UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'app'::regnamespace ORDER BY 1`;

  it('are refused by up and down, each by its name, and stay as they are', async () => {
    const [Migration] = webhookInboxMigrations({ schema: 'app' });
    const runner = database.dataSource.createQueryRunner();
    const fresh = (sql = '') =>
      database.query(`DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA app; ${sql}`);
    const refused = async (kind: string, name: string) => {
      const before = await database.query(IN_APP);
      for (const way of ['up', 'down'] as const)
        await expect(new Migration!()[way](runner)).rejects.toThrow(
          new RegExp(`names of this package: ${kind} app\\.${name}(?:, |\\. ).*schema: 'webhooks'`),
        );
      expect(await database.query(IN_APP)).toEqual(before);
    };

    await fresh();
    await new Migration!().up(runner);
    const relations = await database.query<{ relname: string; relkind: string }>(
      `SELECT relname, relkind FROM pg_class WHERE relnamespace = 'app'::regnamespace ORDER BY 1`,
    );
    expect(relations.length).toBeGreaterThan(50);
    for (const { relname, relkind } of relations) {
      const kinds =
        relkind === 'r' || relkind === 'v' ? Object.entries(KINDS) : [['table', KINDS['table']!] as const];
      for (const [kind, create] of kinds) {
        await fresh(create(relname));
        await refused(kind, relname);
      }
      if (kinds.length === 1) continue;
      for (const create of Object.values(TYPES)) {
        await fresh(create(relname));
        await refused('type', relname);
      }
    }
    for (const routine of ['FUNCTION', 'PROCEDURE']) {
      const returns = routine === 'FUNCTION' ? 'RETURNS int' : '';
      await fresh(
        `CREATE ${routine} app.webhook_outbox_is_sound(mine int) ${returns} LANGUAGE sql AS 'SELECT 7'`,
      );
      await refused('function', 'webhook_outbox_is_sound');
    }
    await runner.release();
  }, 120_000);

  it('are no matter where they have other names', async () => {
    await database.query(`
      CREATE TABLE mine (mine int); CREATE TYPE mood AS ENUM ('mine');
      CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 7'`);
    const dataSource = host();
    await within(dataSource, () => dataSource.runMigrations());
    expect((await schema()).length).toBeGreaterThan(50);
  });

  it('are refused too where they inherit from a table of ours in another schema', async () => {
    await within(host(), (dataSource) => dataSource.runMigrations());
    await database.query(`CREATE SCHEMA app; CREATE TABLE app.webhook_audit () INHERITS (webhook_audit)`);
    const [Migration] = webhookInboxMigrations({ schema: 'app' });
    const runner = database.dataSource.createQueryRunner();
    await expect(new Migration!().up(runner)).rejects.toThrow(/table app\.webhook_audit/);
    await runner.release();
  });

  it('keep their rows when the migration is reverted through TypeORM, and ours goes once they have moved', async () => {
    const dataSource = host({ migrationsTransactionMode: 'none' });
    await within(dataSource, async () => {
      await dataSource.runMigrations();
      await database.query(`DROP TABLE webhook_audit; CREATE TABLE webhook_audit (mine int);
        INSERT INTO webhook_audit VALUES (7)`);
      await expect(dataSource.undoLastMigration()).rejects.toThrow(/table public\.webhook_audit/);
      expect(await database.query(`SELECT mine FROM webhook_audit`)).toEqual([{ mine: 7 }]);
      await database.query(`ALTER TABLE webhook_audit RENAME TO audit`);
      await dataSource.undoLastMigration();
      expect(await schema()).toEqual([]);
      expect(await database.query(`SELECT mine FROM audit`)).toEqual([{ mine: 7 }]);
    });
  });

  it('are left alone in another schema, in which services may share TypeORM’s table of migrations', async () => {
    await database.query(`
      CREATE TABLE webhook_audit (mine int); CREATE TYPE webhook_alert AS ENUM ('mine');
      CREATE FUNCTION webhook_outbox_is_sound(mine int) RETURNS int LANGUAGE sql AS 'SELECT 7'`);
    const services = ['billing', 'shipping'].map((name) =>
      host({ migrations: webhookInboxMigrations({ schema: name }) }),
    );
    for (const one of services)
      await within(one, async () => expect(await one.runMigrations()).toHaveLength(1));
    for (const one of services.toReversed()) await within(one, () => one.undoLastMigration());
    expect((await schema()).map(({ relname }) => relname)).toEqual(['webhook_audit']);
  });

  it('spread uncalled, the migrations are those without options', () => {
    expect([...webhookInboxMigrations]).toEqual(webhookInboxMigrations());
  });
});
