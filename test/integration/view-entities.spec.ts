import {
  Column,
  DataSource,
  DefaultNamingStrategy,
  Entity,
  PrimaryColumn,
  ViewColumn,
  ViewEntity,
} from 'typeorm';
import {
  webhookEntities,
  webhookInboxMigrations,
  WebhookEventView,
  WebhookWorkView,
} from '../../migrations/index.js';
import { ConfigurationError } from '../../src/index.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { scripted, startInbox, type TestInbox } from './support/inbox.js';

@Entity('invoice')
class Invoice {
  @PrimaryColumn('text') id!: string;
  @Column('text', { name: 'event_id' }) eventId!: string;
}

/** A view that TypeORM looks after: it drops those that it made and does not find any more. */
@ViewEntity({ name: 'invoice_id', expression: `SELECT 'i-1' AS id` })
class InvoiceId {
  @ViewColumn() id!: string;
}

/** Of any name it makes another. */
class Shouting extends DefaultNamingStrategy {
  override tableName(target: string, given: string | undefined) {
    return super.tableName(target, given).toUpperCase();
  }
  override prefixTableName(prefix: string, name: string) {
    return `${prefix.toUpperCase()}${name}`;
  }
}

/** All that the catalogue knows of a schema, but for the application's own. */
const OBJECTS = `
  SELECT c.relname AS name, c.relkind::text AS kind, obj_description(c.oid) AS comment,
         ARRAY(SELECT attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull FROM pg_attribute
                WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum) AS columns,
         ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid ORDER BY conname) AS constraints,
         pg_get_indexdef(c.oid) AS index, pg_get_viewdef(c.oid) AS view
    FROM pg_class c WHERE c.relname LIKE 'webhook\\_%' ORDER BY c.relnamespace, 1`;

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase({ empty: true });
});
afterAll(() => database?.drop());

async function withDataSource<T>(more: object, work: (dataSource: DataSource) => Promise<T>): Promise<T> {
  const dataSource = await new DataSource({ ...options(database.url, 2), ...more }).initialize();
  try {
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

describe.each([
  ['public', {}, undefined],
  ['hooks', { schema: 'hooks' }, undefined],
  ['hooks', {}, 'hooks'],
])('with our objects in the schema %s, a DataSource %j and the option %s', (_, dataSourceOptions, schema) => {
  beforeAll(async () => {
    await database.query(
      `DROP SCHEMA IF EXISTS hooks CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE SCHEMA hooks`,
    );
    await withDataSource(
      { ...dataSourceOptions, migrations: webhookInboxMigrations({ schema }) },
      (dataSource) => dataSource.runMigrations(),
    );
  });

  it.each([
    ['without view entities', []],
    ['with them', webhookEntities({ schema })],
    ['with those of any schema', webhookEntities()],
  ])('synchronize, schema:log and migration:generate leave them alone, %s', async (__, views) => {
    const before = await database.query(OBJECTS);
    expect(before.length).toBeGreaterThan(50);
    const entities = [Invoice, InvoiceId, ...views];
    for (let boot = 0; boot < 2; boot += 1) {
      await withDataSource({ ...dataSourceOptions, entities, synchronize: true }, async (dataSource) => {
        // What schema:log prints, and migration:generate writes.
        const { upQueries, downQueries } = await dataSource.driver.createSchemaBuilder().log();
        expect([...upQueries, ...downQueries]).toEqual([]);
      });
    }
    expect(await database.query(OBJECTS)).toEqual(before);
  });
});

describe('the view entities', () => {
  const HANDLED = new Date('2026-01-01');
  let inbox: TestInbox;
  const start = (more: object = {}) =>
    startInbox({
      database,
      providers: [scripted({ handle: async (_, { enqueue }) => void (await enqueue('mail', {})) })],
      entities: [Invoice, ...(webhookEntities({ schema: 'hooks' }) as never[])],
      webhooks: { schema: 'hooks' },
      dataSource: more,
    });
  afterEach(() => inbox?.stop());

  it('are for repositories and joins', async () => {
    inbox = await start({ synchronize: true });
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    await inbox.relay.tick();
    const { dataSource } = inbox;
    await dataSource.getRepository(Invoice).save({ id: 'i-1', eventId: 'd-1' });
    expect(
      await dataSource.getRepository(WebhookEventView).findOneByOrFail({ eventId: 'd-1' }),
    ).toMatchObject({
      source: 'awardee',
      state: 'processed',
      owed: 1,
      effectsDone: 1,
      effectsDead: 0,
      receivedAt: expect.any(Date) as unknown,
    });
    const work = await dataSource.getRepository(WebhookWorkView).find({ order: { createdAt: 'ASC' } });
    expect(work).toMatchObject([
      { kind: 'handler', name: 'awardee/handle', state: 'done', eventId: 'd-1' },
      { kind: 'effect', name: 'mail', state: 'done', parentId: work[0]!.id },
    ]);
    expect(work[0]).toBeInstanceOf(WebhookWorkView);
    const [invoice] = await dataSource
      .getRepository(Invoice)
      .createQueryBuilder('i')
      .leftJoinAndMapOne('i.event', WebhookEventView, 'e', `e.source = 'awardee' AND e.eventId = i.eventId`)
      .leftJoinAndMapMany('i.work', WebhookWorkView, 'w', 'w.source = e.source AND w.eventId = e.eventId')
      .getMany();
    expect(invoice).toMatchObject({ id: 'i-1', event: { state: 'processed' }, work: [{}, {}] });
  });

  it('tell of an event what became of its own handlers and effects, each state by itself', async () => {
    const events: readonly [owed: number, rows: readonly string[], expected: readonly unknown[]][] = [
      [0, [], ['skipped', 'no handler matched', null, 0, 0, 0, 0]],
      [0, ['handler done'], ['processed', 'r0: fine', HANDLED, 0, 0, 0, 0]],
      [1, [], ['pending', null, null, 0, 0, 0, 0]],
      [1, ['handler pending'], ['pending', null, null, 0, 0, 0, 0]],
      [1, ['handler parked'], ['pending', null, null, 0, 0, 0, 1]],
      [2, ['handler done'], ['pending', 'r0: fine', null, 0, 0, 0, 0]],
      [1, ['handler superseded'], ['superseded', null, HANDLED, 0, 0, 0, 0]],
      [2, ['handler superseded', 'handler done'], ['processed', 'r1: fine', HANDLED, 0, 0, 0, 0]],
      [2, ['handler done', 'handler done'], ['processed', 'r0: fine; r1: fine', HANDLED, 0, 0, 0, 0]],
      [1, ['effect done', 'handler dead'], ['dead', 'r1: why', HANDLED, 0, 1, 0, 0]],
      [
        3,
        ['handler dead', 'handler done', 'handler parked', 'handler dead', 'effect dead'],
        ['dead', 'r0: why; r3: why', null, 0, 0, 1, 1],
      ],
      [
        1,
        ['pending', 'handed', 'done', 'dead', 'parked', 'cancelled'].map((one) => `effect ${one}`),
        ['pending', null, null, 2, 1, 1, 1],
      ],
      [1, ['handler done', 'effect done'], ['processed', 'r0: fine', HANDLED, 0, 1, 0, 0]],
    ];
    for (const [nth, [owed, rows]] of events.entries()) {
      const id = `0199000${nth.toString(16)}-0000-7000-8000-000000000000`;
      await database.query(
        `INSERT INTO hooks.webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
         VALUES ('states', '', $1, $2, $3, 'x', 'delivery', '', '{}')`,
        [`e${nth}`, id, owed],
      );
      for (const [place, row] of rows.entries()) {
        const [kind, state] = row.split(' ');
        const rowId = `${id.slice(0, 14)}8${id.slice(15, -1)}${place}`;
        const settled = ['pending', 'parked', 'handed'].includes(state!)
          ? null
          : kind === 'handler'
            ? HANDLED
            : new Date('2026-01-02');
        await database.query(
          `INSERT INTO hooks.webhook_outbox (id, kind, name, state, settled_at, reason, source, tenant, event_id)
           VALUES ($1, $2, $3, $4::text, $5, CASE WHEN $4 IN ('dead', 'parked') THEN 'why' END, 'states', '', $6)`,
          [rowId, kind, `r${place}`, state, settled, `e${nth}`],
        );
        if (state === 'done')
          await database.query(
            `INSERT INTO hooks.webhook_outbox_data (outbox_id, result) VALUES ($1, 'fine')`,
            [rowId],
          );
      }
    }
    const told = await database.query(
      `SELECT state, outcome, processed_at, effects_pending, effects_done, effects_dead, effects_parked
         FROM hooks.webhook_event WHERE source = 'states' ORDER BY id`,
    );
    expect(told.map((row) => Object.values(row))).toEqual(events.map(([, , expected]) => expected));
    const work = await database.query(
      `SELECT count(*)::int AS rows, count(result)::int AS results FROM hooks.webhook_work WHERE source = 'states'`,
    );
    const all = events.flatMap(([, rows]) => rows);
    expect(work).toEqual([{ rows: all.length, results: all.filter((row) => row.endsWith(' done')).length }]);
  });

  it('are read only: PostgreSQL refuses each way to write', async () => {
    inbox = await start();
    const { manager } = inbox.dataSource;
    for (const [view, values] of [
      [WebhookEventView, { source: 'x' }],
      [WebhookWorkView, { name: 'x' }],
    ] as const) {
      const refused = /cannot (insert into|update|delete from) view/;
      await expect(manager.insert<object>(view, values)).rejects.toThrow(refused);
      await expect(manager.createQueryBuilder().update<object>(view).set(values).execute()).rejects.toThrow(
        refused,
      );
      await expect(manager.createQueryBuilder().delete().from(view).execute()).rejects.toThrow(refused);
    }
  });

  it.each([
    { entityPrefix: 'app_' },
    { namingStrategy: new Shouting() },
    { entityPrefix: 'app_', namingStrategy: new Shouting() },
  ])('keep their names under %j', async (more) => {
    inbox = await start(more);
    expect(await inbox.dataSource.getRepository(WebhookEventView).count()).toBeGreaterThan(0);
    expect(await inbox.dataSource.getRepository(WebhookWorkView).count()).toBeGreaterThan(0);
    expect((await inbox.deliver(`prefixed ${JSON.stringify(more)}`)).status).toBe(200);
  });

  it('refuse a schema that cannot be one', () => {
    expect(() => webhookEntities({ schema: '' })).toThrow(ConfigurationError);
    expect(() => webhookEntities({ scheme: 'x' } as object)).toThrow(
      /unknown option 'scheme' — did you mean|scheme/,
    );
  });
});
