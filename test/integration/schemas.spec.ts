import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../migrations/index.js';
import {
  ConfigurationError,
  Erasure,
  migrate,
  Inspector,
  Outbox,
  Pauses,
  Replays,
  Retention,
  Revivals,
} from '../../src/index.js';
import type { HandlerContext, WebhookEvent } from '../../src/index.js';
import { channelOf, quoted } from '../../src/storage/schema/own-schema.js';
import { until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { Client } from 'pg';
import { INSERT_RECORD, scripted, startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';

/** Of a name that has to be quoted, in SQL and in texts. */
const SHIPPING = `Ship "ping's`;
const TABLES = `SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relname LIKE 'webhook\\_%' AND relnamespace = $1::regnamespace`;
const BY = { by: 'ada', reason: 'test' };

let database: TestDatabase;
let billing: TestInbox;
let shipping: TestInbox;
/** What a handler does before it writes: it may change the search_path of its own transaction, and of its connection. */
let before = '';
let failing = false;

const count = async (schema: string, table: string, where = 'true') => {
  const rows = await database.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM ${quoted(schema)}.${table} WHERE ${where}`,
  );
  return rows[0]!.n;
};

function service(more: Omit<InboxSetup, 'database'>): Promise<TestInbox> {
  const handle = async (event: WebhookEvent, { manager, enqueue }: HandlerContext) => {
    if (before !== '') await manager.query(before);
    if (failing) throw new Error('as asked');
    await manager.query(INSERT_RECORD.replace('received_event', 'public.received_event'), [
      event.source,
      event.eventId,
      event.type,
    ]);
    await enqueue('mail', {});
  };
  const providers = [scripted({ handle }, { handler: { retry: { maxAttempts: 1 } } })];
  return startInbox({ database, loop: true, providers, ...more });
}

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  await database.query(`CREATE SCHEMA decoy; CREATE SCHEMA billing;
    CREATE TABLE public.received_event (source text, event_id text, event_type text, applied_count int DEFAULT 1, PRIMARY KEY (source, event_id))`);
  const sources = [
    new DataSource({
      ...options(database.url),
      schema: 'billing',
      migrations: webhookInboxMigrations(),
    }),
    new DataSource({ ...options(database.url), migrations: webhookInboxMigrations({ schema: SHIPPING }) }),
    // Tables that a search_path would lead to: whatever comes there is lost.
    new DataSource({ ...options(database.url), migrations: webhookInboxMigrations({ schema: 'decoy' }) }),
  ];
  for (const one of sources) {
    expect(await migrate(one)).toHaveLength(1);
    await one.destroy();
  }
  billing = await service({ dataSource: { schema: 'billing', extra: { options: '-c search_path=decoy' } } });
  shipping = await service({ webhooks: { schema: SHIPPING, claims: 'typeorm' } });
}, 120_000);
afterAll(async () => {
  await billing?.stop();
  await shipping?.stop();
  await database?.drop();
});

describe('two services with schemas of their own in one database', () => {
  it('the migrations made all there, and nothing elsewhere', async () => {
    const names = async (schema: string) =>
      (await database.query<{ relname: string }>(TABLES, [schema])).map(({ relname }) => relname).sort();
    expect(await names('billing')).toEqual(
      expect.arrayContaining(['webhook_claim', 'webhook_outbox', 'webhook_attempt']),
    );
    expect(await names(quoted(SHIPPING))).toEqual(await names('billing'));
    expect(await names('public')).toEqual([]);
  });

  it.each([
    ['as it is', ''],
    ['SET LOCAL search_path in the handler', 'SET LOCAL search_path = decoy'],
    ['SET search_path in the handler', 'SET search_path = decoy'],
    ['set_config in the handler', `SELECT set_config('search_path', 'decoy', false)`],
    [
      'temporary tables of our names',
      `CREATE TEMP TABLE IF NOT EXISTS webhook_outbox (id int); CREATE TEMP TABLE IF NOT EXISTS webhook_claim (id int);
       CREATE TEMP TABLE IF NOT EXISTS webhook_outbox_data (id int)`,
    ],
  ])('each has its own events, handlers and effects: %s', async (name, sql) => {
    before = sql;
    for (const [inbox, schema] of [
      [billing, 'billing'],
      [shipping, SHIPPING],
    ] as const) {
      const verdicts = [await inbox.deliver(name), await inbox.deliver(name)];
      expect(verdicts.map(({ status }) => status)).toEqual([200, 200]);
      expect(verdicts.map(({ body }) => body)).toEqual([
        expect.objectContaining({ status: 'ok' }),
        expect.objectContaining({ status: 'duplicate' }),
      ]);
      await until(async () => (await count(schema, 'webhook_outbox', `state = 'done'`)) % 2 === 0);
      await until(async () => (await count(schema, 'webhook_outbox', `state = 'pending'`)) === 0);
      expect(await count(schema, 'webhook_outbox', `event_id = '${name}' AND state = 'done'`)).toBe(2);
    }
    expect(await count('decoy', 'webhook_claim')).toBe(0);
    expect(await count('decoy', 'webhook_outbox')).toBe(0);
    before = '';
  });

  it('a notification wakes the listeners of its own schema alone', async () => {
    const heard: string[] = [];
    const client = new Client({ connectionString: database.url });
    await client.connect();
    client.on('notification', ({ channel }) => heard.push(channel));
    for (const { dataSource } of [billing, shipping])
      await client.query(`LISTEN ${quoted(channelOf(dataSource))}`);
    await billing.deliver('told');
    await until(() => heard.length > 0);
    await shipping.deliver('told as well');
    await until(() => heard.includes(channelOf(shipping.dataSource)));
    const [first] = heard;
    expect(first).toBe(channelOf(billing.dataSource));
    expect(channelOf(shipping.dataSource)).not.toBe(first);
    await client.end();
  });

  it('a manager of another DataSource of the database enqueues into the schema of the module', async () => {
    const enqueue = (more: object) => async () => {
      const other = await new DataSource({ ...options(database.url, 2), ...more }).initialize();
      try {
        const outbox = shipping.app.get(Outbox);
        await other.transaction((manager) => outbox.enqueue(manager, 'mail', {}, { key: 'other' }));
      } finally {
        await other.destroy();
      }
    };
    await enqueue({ schema: 'decoy', entityPrefix: 'app_' })();
    expect(await count(SHIPPING, 'webhook_outbox', `key = 'other'`)).toBe(1);
    expect(await count('decoy', 'webhook_outbox')).toBe(0);
    await expect(enqueue({ url: process.env.TEST_POSTGRES_URL })()).rejects.toThrow(
      /manager of another database/,
    );
  });

  it('options that are set after the boot change nothing', async () => {
    billing.dataSource.setOptions({ schema: 'decoy' });
    expect((await billing.deliver('set options')).status).toBe(200);
    expect(await count('billing', 'webhook_claim', `event_id = 'set options'`)).toBe(1);
    billing.dataSource.setOptions({ schema: 'billing' });
  });

  it('signs of life and pauses are apart', async () => {
    await until(async () => (await count('billing', 'webhook_relay')) === 1);
    await until(async () => (await count(SHIPPING, 'webhook_relay')) === 1);
    await billing.app.get(Pauses).pause('source', 'awardee', BY);
    expect(await shipping.app.get(Pauses).list()).toEqual([]);
    expect(await billing.app.get(Pauses).list()).toHaveLength(1);
    await billing.app.get(Pauses).resume('source', 'awardee', BY);
  });

  it('people’s work stays in its schema: replay, revival, erasure, retention, the desk', async () => {
    const key = { source: 'awardee', tenant: '', eventId: 'people' };
    failing = true;
    await billing.deliver('people');
    const [dead] = await until(async () => {
      const rows = await database.query<{ id: string }>(
        `SELECT id FROM billing.webhook_outbox WHERE event_id = 'people' AND state = 'dead'`,
      );
      return rows.length > 0 && rows;
    });
    failing = false;
    await billing.app.get(Revivals).revive([dead!.id], BY);
    const isDone = async () =>
      (await count('billing', 'webhook_outbox', `event_id = 'people' AND state = 'done'`)) === 2;
    await until(isDone);
    await billing.app.get(Replays).run({ events: [key] }, BY);
    await until(isDone);
    expect((await billing.app.get(Erasure).erase(key, BY)).outcome).toBe('erased');
    await billing.app.get(Retention).prune();
    expect((await billing.app.get(Inspector).events('')).events.length).toBeGreaterThan(0);
    expect(await count('billing', 'webhook_audit')).toBeGreaterThan(2);
    expect(await count(SHIPPING, 'webhook_audit')).toBe(0);
  });
});

describe('the schema of the tables', () => {
  it.each(['', 'x'.repeat(64), 'with\0nul', 7])('%j is refused as its name', (schema) => {
    expect(() => webhookInboxMigrations({ schema: schema as string })).toThrow(ConfigurationError);
    expect(() => webhookInboxMigrations({ schema: schema as string })).toThrow(
      /webhookInboxMigrations.schema: expected the name of a schema/,
    );
  });

  it('has to be there where no option names it', async () => {
    const dataSource = { extra: { options: '-c search_path=nowhere' } };
    await expect(service({ dataSource })).rejects.toThrow(/names no schema that exists\. Set it/);
  });

  it('has each statement fail with its name where the tables are not in it', async () => {
    const nowhere = await service({ loop: false, webhooks: { schema: 'public' } });
    expect((await nowhere.deliver('nowhere')).status).toBe(503);
    await nowhere.stop();
  });
});
