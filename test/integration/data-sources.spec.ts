import { Injectable } from '@nestjs/common';
import { DefaultNamingStrategy, type DataSourceOptions } from 'typeorm';
import {
  Inspector,
  OnEffect,
  OnWebhook,
  Operator,
  Retention,
  StartupReconciler,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { awardeeSource, record, startInbox } from './support/inbox.js';

class Shouting extends DefaultNamingStrategy {
  override tableName(target: string, given: string | undefined): string {
    return (given ?? target).toUpperCase();
  }
}

/** What the handler was told of each event's arrival, in milliseconds since 1970. */
const arrivals: number[] = [];

@Injectable()
class Work {
  @OnWebhook('awardee', '*', {
    name: 'handle',
    skipStale: { key: ({ type }) => type },
    key: ({ type }) => type,
  })
  async handle(event: WebhookEvent, context: HandlerContext) {
    await record(event, context);
    await context.enqueue('mail', { at: event.receivedAt });
    arrivals.push(event.receivedAt.getTime());
  }

  @OnWebhook('awardee', '*', { name: 'now', inline: true })
  now(_event: WebhookEvent, { manager }: HandlerContext) {
    return manager.query('SELECT 1');
  }

  @OnEffect('mail')
  mail({ at }: { at: string }) {
    return { sent: at };
  }
}

/** What applications set on their DataSource, given the database and one without our tables. */
const OPTIONS: Readonly<Record<string, (url: string, empty: string) => Partial<DataSourceOptions> | object>> =
  {
    'a replica that is behind': (url, empty) => ({
      replication: { master: { url }, slaves: [{ url: empty }] },
    }),
    'entities without a constructor': () => ({ entitySkipConstructor: true }),
    synchronize: () => ({ synchronize: true }),
    'a log of all queries': () => ({
      logging: 'all',
      logger: {
        logQuery() {},
        logQueryError() {},
        logQuerySlow() {},
        logSchemaBuild() {},
        logMigration() {},
        log() {},
      },
    }),
    'a slow query log and a cache': () => ({ maxQueryExecutionTime: 1, cache: false }),
    'bigints as numbers, names of its own': () => ({
      parseInt8: true,
      namingStrategy: new Shouting(),
      applicationName: 'app',
    }),
    'connections that are used once': () => ({ extra: { maxUses: 1 } }),
    'connections that end when idle': () => ({
      extra: { idleTimeoutMillis: 1, maxLifetimeSeconds: 1, allowExitOnIdle: true },
    }),
    'settings of a session': () => ({
      extra: {
        options:
          '-c default_transaction_isolation=serializable -c DateStyle=German -c bytea_output=escape -c TimeZone=Asia/Kolkata -c IntervalStyle=sql_standard -c extra_float_digits=-5',
      },
      schema: 'public',
    }),
    'a default isolation level': () => ({ isolationLevel: 'SERIALIZABLE' }),
    'time-outs of the client and the server': () => ({
      extra: {
        statement_timeout: 20_000,
        query_timeout: 20_000,
        lock_timeout: 20_000,
        idle_in_transaction_session_timeout: 20_000,
      },
    }),
    'a pool of two': () => ({ poolSize: 2 }),
  };

describe('on a DataSource with', () => {
  let database: TestDatabase;
  let empty: TestDatabase;
  beforeAll(async () => {
    empty = await createDatabase({ empty: true });
  });
  afterAll(() => empty?.drop());
  beforeEach(async () => {
    database = await createDatabase();
  });
  afterEach(() => database?.drop());

  it.each(Object.keys(OPTIONS))(
    '%s: an event is claimed, handled, shown, replayed and pruned',
    async (name) => {
      arrivals.length = 0;
      const begun = Date.now();
      const inbox = await startInbox({
        database,
        providers: [Work],
        dataSource: OPTIONS[name]!(database.url, empty.url),
        webhooks: { sources: { awardee: awardeeSource() } },
      });
      try {
        expect([(await inbox.deliver('a')).body, (await inbox.deliver('a')).body]).toMatchObject([
          { status: 'ok' },
          { status: 'duplicate' },
        ]);
        await inbox.settle();
        const inspector = inbox.app.get(Inspector);
        const [event] = (await inspector.events('')).events;
        expect(event).toMatchObject({
          eventId: 'a',
          state: 'processed',
          receivedAt: expect.any(Date) as Date,
        });
        expect((await inspector.event(event!.id))!.rows.map(({ state }) => state)).toEqual([
          'done',
          'done',
          'done',
        ]);
        const by = { by: 'ada', reason: 'test' };
        const key = { source: 'awardee', tenant: '', eventId: 'a' };
        expect(await inbox.app.get(Operator).replay([key], [], by)).toMatchObject({
          replayed: 1,
          refused: [],
        });
        await inbox.settle();
        expect(await inbox.app.get(StartupReconciler).reconcile()).toMatchObject({ ran: true });
        expect(await inbox.query('SELECT applied_count FROM received_event')).toEqual([{ applied_count: 2 }]);
        // The claim told it to the first run, and the lease to the second.
        expect(arrivals).toEqual([expect.any(Number), arrivals[0]]);
        expect(Math.abs(arrivals[0]! - begun)).toBeLessThan(60_000);
        await inbox.query(`UPDATE webhook_claim SET received_at = now() - interval '1 year'`);
        await inbox.query(`UPDATE webhook_outbox SET settled_at = now() - interval '1 year'`);
        expect(await inbox.app.get(Retention).prune()).toMatchObject({ claims: 1 });
      } finally {
        await inbox.stop();
      }
    },
  );

  it('answers in binary: says at boot that it reads text', async () => {
    const started = startInbox({ database, dataSource: { extra: { binary: true } } });
    await expect(started).rejects.toThrow(/without extra\.binary, received true/);
  });
});
