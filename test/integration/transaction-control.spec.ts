import { Query, type Client } from 'pg';
import type { EntityManager } from 'typeorm';
import type { HandlerContext } from '../../src/index.js';
import { record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const script: Partial<Script> = {};
let inbox: TestInbox;

beforeAll(async () => {
  inbox = await startInbox({
    providers: [scripted(script, { handler: { retry: { maxAttempts: 1 } }, effect: false })],
  });
});
afterAll(() => inbox.stop());

const client = async ({ manager }: HandlerContext) => (await manager.queryRunner!.connect()) as Client;
const ways: Record<string, (context: HandlerContext) => unknown> = {
  COMMIT: ({ manager }) => manager.query('COMMIT'),
  'ROLLBACK behind a comment': ({ manager }) => manager.query('/* x */ ROLLBACK'),
  'a second statement': ({ manager }) => manager.query('SELECT 1; COMMIT'),
  'with values': ({ manager }) => manager.query('COMMIT', [1]),
  'TypeORM’s own method': ({ manager }) => manager.queryRunner!.commitTransaction(),
  'TypeORM’s own ROLLBACK': ({ manager }) => manager.queryRunner!.rollbackTransaction(),
  'the savepoint of inline work': ({ manager }) => manager.query('RELEASE SAVEPOINT webhook_inline'),
  'inside manager.transaction()': ({ manager }) =>
    manager.transaction((inner: EntityManager) => inner.query('COMMIT')),
  'a query of pg with its text in an object': async (context) =>
    (await client(context)).query({ text: 'COMMIT' }),
  'a callback': async (context) => {
    const pg = await client(context);
    await new Promise<void>((resolve, reject) => {
      pg.query('COMMIT', (error: Error | null) => (error === null ? resolve() : reject(error)));
    });
  },
  'a query object': async (context) => {
    const pg = await client(context);
    const query = pg.query(new Query('COMMIT'));
    await new Promise<void>((resolve, reject) => {
      query.once('error', reject);
      query.once('end', resolve);
    });
  },
};

it.each(Object.entries(ways))(
  'transaction control of a handler is refused with the remedy and not sent: %s',
  async (name, way) => {
    const error: { message?: string } = {};
    script.handle = async (event, context) => {
      await record(event, context);
      await Promise.resolve(way(context)).catch((one: Error) => {
        error.message = one.message;
        throw one;
      });
    };
    await inbox.deliver(name);
    await inbox.relay.tick();
    expect(error.message).toContain('was not sent');
    expect(error.message).toContain('Throw to roll back');
    expect(await inbox.query(`SELECT FROM received_event WHERE event_id = $1`, [name])).toEqual([]);
    expect(await inbox.query(`SELECT state FROM webhook_outbox WHERE event_id = $1`, [name])).toEqual([
      { state: 'dead' },
    ]);
  },
);

it('manager.transaction() and savepoints of the handler’s own go on working', async () => {
  script.handle = async (event, { manager }) => {
    await manager.transaction(async (inner) => {
      await record(event, { manager: inner });
      await inner.transaction((deeper) => record({ ...event, eventId: 'inner' }, { manager: deeper }));
    });
    await manager
      .transaction(async (inner) => {
        await record({ ...event, eventId: 'taken back' }, { manager: inner });
        await inner.query('SELECT 1 / 0');
      })
      .catch(() => undefined);
    await manager.query('SAVEPOINT own');
    await record({ ...event, eventId: 'own' }, { manager });
    await manager.query('ROLLBACK TO SAVEPOINT own');
    await manager.query(`SET LOCAL work_mem = '8MB'`);
  };
  await inbox.deliver('outer');
  expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
  const events = await inbox.query<{ event_id: string }>(`SELECT event_id FROM received_event ORDER BY 1`);
  expect(events.map(({ event_id }) => event_id)).toEqual(['inner', 'outer']);
});

describe.each(['message', 'typeorm'] as const)('a setting of the session, with claims by %s', (claims) => {
  const settings: string[] = [];
  let one: TestInbox;
  const set: Partial<Script> = {};

  beforeAll(async () => {
    // Few connections, so that all of them are met again.
    one = await startInbox({
      providers: [scripted(set, { handler: { retry: { maxAttempts: 1 } }, effect: false })],
      poolSize: 4,
      webhooks: { claims },
    });
  });
  afterAll(() => one.stop());

  it.each([
    ['SET', `SET app.tenant = 'a'`],
    ['set_config()', `SELECT set_config('app.tenant', 'a', false)`],
    ['a second statement', `SELECT 1; SET app.tenant = 'a'`],
    ['read only from now on', `SET default_transaction_read_only = on; SET app.tenant = 'a'`],
  ])('holds for the run, and for nobody after it: %s', async (name, sql) => {
    settings.length = 0;
    set.handle = async (event, { manager }) => {
      await record(event, { manager });
      await manager.query(sql);
      const [row] = await manager.query<{ tenant: string }[]>(
        `SELECT current_setting('app.tenant') AS tenant`,
      );
      settings.push(row!.tenant);
    };
    await one.deliver(name);
    expect(await one.relay.tick()).toMatchObject({ done: 1 });
    expect(settings).toEqual(['a']);
    const seen = await Promise.all(
      Array.from({ length: 4 }, () =>
        one.dataSource.query<{ tenant: string | null; only: string }[]>(
          `SELECT current_setting('app.tenant', true) AS tenant, current_setting('default_transaction_read_only') AS only,
                  pg_sleep(0.05)`,
        ),
      ),
    );
    for (const [row] of seen) expect(row).toMatchObject({ only: 'off' });
    expect(seen.map(([row]) => row!.tenant ?? '')).toEqual(['', '', '', '']);
    expect((await one.deliver(`${name} later`)).status).toBe(200);
  });
});
