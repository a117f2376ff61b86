import { Injectable, type INestApplication } from '@nestjs/common';
import { Inbox, OnWebhook, hmac, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { Leaser } from '../../src/outbox/relay/leaser.js';
import type { RelayOptions, WebhooksOptions } from '../../src/core/options/options.js';
import { ListenConnection } from '../../src/storage/postgres/listen-connection.js';
import { LISTEN_TIMES, ListenLoop } from '../../src/outbox/wake/listen.loop.js';
import { WakeListener } from '../../src/outbox/wake/wake.listener.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { TransactionPooler } from '../support/transaction-pooler.js';

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*')
  async record({ source, eventId, type }: WebhookEvent, { manager }: HandlerContext) {
    await manager.query(`INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)`, [
      source,
      eventId,
      type,
    ]);
  }
}

const source = () =>
  hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    idHeader: 'X-Awardee-Delivery',
    typeHeader: 'X-Awardee-Event',
  });

const LISTENERS = `FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND query LIKE ANY (ARRAY['LISTEN %', '%pg_listening_channels%', '%pg_try_advisory_xact_lock_shared%', '%lock_key = %'])`;

describe('wake-up across instances', () => {
  let database: TestDatabase;
  const apps: INestApplication[] = [];
  const warnings: string[] = [];
  const quiet = () => undefined;
  const logger = { log: quiet, error: quiet, warn: (text: unknown) => void warnings.push(String(text)) };

  beforeEach(async () => {
    database = await createDatabase();
    warnings.length = 0;
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await database.drop();
  });

  const start = async (
    relay: false | RelayOptions,
    more: Partial<WebhooksOptions> = {},
    url = database.url,
  ) => {
    const app = await createApplication({
      databaseUrl: url,
      webhooks: { sources: { awardee: source() }, relay, reconcile: false, ...more },
      providers: [Handlers],
      configure: (app) => app.useLogger(logger),
    });
    apps.push(app);
    return app;
  };
  const receive = (app: INestApplication, id: string) => {
    const { headers, body } = awardee(id, 'grant.made', {});
    return app.get(Inbox).receive('awardee', { headers, rawBody: body });
  };
  const handled = async (id: string) =>
    (await database.query(`SELECT 1 FROM received_event WHERE event_id = $1`, [id])).length === 1;
  /** A function of this name in `public` takes the place of PostgreSQL's. */
  const notifyIsOurs = () =>
    database.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`,
    );
  /** In a table, instead of notifying anyone. */
  const recordNotifications = async () => {
    await database.query(`CREATE TABLE told (at timestamptz DEFAULT clock_timestamp(), claims int)`);
    await database.query(`CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS $$
      INSERT INTO told (claims) SELECT count(*) FROM webhook_claim WHERE xmin::text = pg_current_xact_id_if_assigned()::text $$`);
    await notifyIsOurs();
  };
  const told = () => database.query<{ claims: number }>(`SELECT claims FROM told`);
  /** With rounds to make, the loop makes one after the other. */
  const QUIET_MS = 500;
  const rare = { pollInterval: '1h' } as const;
  const lost = () => warnings.filter((text) => text.includes('LISTEN is down'));
  /** The rounds at start-up are over, those after the listener's probe too: what comes now is found by a wake or a poll. */
  const ready = async (app: INestApplication, listens = true) => {
    if (listens) await until(() => app.get(WakeListener).listening);
    await until(() => app.get(Leaser).wasEmpty('awardee/Handlers.record'));
    await until(() => app.get(RelayLoop).silentMs > QUIET_MS);
  };
  /** Time for what must not happen. */
  const settled = () => new Promise((resolve) => setTimeout(resolve, 300));

  it('another instance handles what this one has committed, long before it polls', async () => {
    const receiver = await start(false);
    await ready(await start(rare));
    for (const id of ['1', '2', '3']) {
      await receive(receiver, id);
      await until(() => handled(id));
    }
  });

  it.each([
    ['the relay does not listen', { ...rare, listen: false }, {}],
    ['the receiver does not notify', rare, { notify: false }],
  ] as const)('polling alone finds the work when %s', async (_what, relay, more) => {
    const receiver = await start(false, more);
    await ready(await start(relay), !('listen' in relay));
    await receive(receiver, '1');
    await settled();
    expect(await handled('1')).toBe(false);
    await start({ ...relay, pollInterval: '100ms' });
    await until(() => handled('1'));
  });

  it('an idle receiver tells the others once of each commit, and of no duplicate', async () => {
    await recordNotifications();
    const receiver = await start(false);
    await settled();
    for (let nth = 1; nth <= 5; nth += 1) {
      await receive(receiver, `e${nth}`);
      await until(async () => (await told()).length >= nth);
      expect(await told()).toHaveLength(nth);
      await receive(receiver, `e${nth}`);
      await settled();
    }
    expect(await told()).toHaveLength(5);
  });

  it('what is committed right after is told of, too', async () => {
    const receiver = await start(false);
    await ready(await start(rare));
    for (const id of ['1', '2', '3']) await receive(receiver, id);
    for (const id of ['1', '2', '3']) await until(() => handled(id));
  });

  it('a thousand commits cost few notifications, and none of them is in a claim transaction', async () => {
    await recordNotifications();
    const receiver = await start(false);
    for (let i = 0; i < 1_000; i += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, j) => receive(receiver, `e${i + j}`)));
    }
    await until(async () => (await told()).length > 0);
    await settled();
    expect((await told()).length).toBeLessThan(200);
    expect((await told()).every(({ claims }) => claims === 0)).toBe(true);
  });

  it('a notification that hangs keeps nobody waiting, and only one connection', async () => {
    await database.query(`CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS $$
      SELECT pg_advisory_xact_lock(4711) $$`);
    await notifyIsOurs();
    const receiver = await start(false);
    await settled();
    const locker = database.dataSource.createQueryRunner();
    await locker.query('SELECT pg_advisory_lock(4711)');
    const waiting = () =>
      database.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted`);
    try {
      for (let nth = 0; nth < 20; nth += 1) {
        expect(await receive(receiver, `e${nth}`)).toMatchObject({ status: 200 });
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await until(async () => (await waiting()).length > 0);
      expect(await waiting()).toHaveLength(1);
    } finally {
      await locker.query('SELECT pg_advisory_unlock(4711)');
      await locker.release();
    }
  });

  it('case 40: when NOTIFY fails, claims are committed and polling delivers', async () => {
    await database.query(`CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'too many notifications in the NOTIFY queue'; END $$`);
    await notifyIsOurs();
    const receiver = await start(false);
    await start({ pollInterval: '200ms' });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => receive(receiver, `e${i}`)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    await until(async () => (await database.query(`SELECT 1 FROM received_event`)).length === 20);
    // PostgreSQL's own error has SQLSTATE 54000 and is told in its words; a function's may hold values.
    expect(warnings.filter((text) => text.includes('raised by a function or a trigger'))).toHaveLength(1);
  });

  it('case 24: a socket that is dead without a sign is found out within 15 s; a poll follows the new connection', async () => {
    const proxy = await TcpProxy.start(database.url);
    try {
      const receiver = await start(false);
      await ready(await start({ ...rare, listen: { url: proxy.url } }));
      proxy.freeze();
      await receive(receiver, '1');
      await settled();
      expect(await handled('1')).toBe(false);
      // The look at the others' locks waits 2 s. Without takeover the check comes after 10 s and waits 5 s.
      expect(LISTEN_TIMES.heartbeatMs).toBe(10_000);
      await until(() => handled('1'), 45_000);
      expect(proxy.connections).toBe(2);
      expect(lost()).toEqual([expect.stringContaining('time-out: the server did not answer within 2000 ms')]);
    } finally {
      await proxy.stop();
    }
  });

  it('listens again when the server ends the connection', async () => {
    const receiver = await start(false);
    await ready(await start(rare));
    await database.query(`SELECT pg_terminate_backend(pid) ${LISTENERS}`);
    await receive(receiver, '1');
    await until(() => handled('1'));
    expect(lost()).toEqual([expect.stringContaining('terminating connection due to administrator command')]);
  });

  it('case 25: behind a transaction pooler the probe finds that nothing arrives, warns once, and everything works by polling', async () => {
    const pooler = await TransactionPooler.start(database.url);
    try {
      const receiver = await start(false, {}, pooler.url);
      await start({ pollInterval: '200ms' }, {}, pooler.url);
      const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => receive(receiver, `e${i}`)));
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
      await until(async () => (await database.query(`SELECT 1 FROM received_event`)).length === 20);
      await until(() => warnings.some((text) => text.includes('transaction mode')));
      await receive(receiver, 'later');
      await until(() => handled('later'));
      expect(warnings.filter((text) => text.includes('transaction mode'))).toHaveLength(1);
      await Promise.all(apps.splice(0).map((app) => app.close()));
    } finally {
      await pooler.stop();
    }
  });

  it('case 25: a url that leads past the pooler is used for LISTEN', async () => {
    const pooler = await TransactionPooler.start(database.url);
    try {
      const receiver = await start(false, {}, pooler.url);
      await ready(await start({ ...rare, listen: { url: database.url } }, {}, pooler.url));
      await receive(receiver, '1');
      await until(() => handled('1'));
      expect(warnings.filter((text) => text.includes('transaction mode'))).toHaveLength(0);
      await Promise.all(apps.splice(0).map((app) => app.close()));
    } finally {
      await pooler.stop();
    }
  });

  it('tries again with growing pauses while the server is away, tells it once, and stops at once', async () => {
    const outages: unknown[] = [];
    let attempts = 0;
    const loop = new ListenLoop(
      {
        connect: () => {
          attempts += 1;
          return ListenConnection.open({ host: '127.0.0.1', port: 1 }, 'any', 200, () => undefined);
        },
        notify: async () => undefined,
        wake: () => undefined,
        onLost: (error) => outages.push(error),
        onDeaf: () => undefined,
      },
      { heartbeatMs: 50, probeMs: 50, backOffMs: [20, 100], deafMs: 50 },
    );
    loop.start();
    await until(() => attempts >= 5);
    expect(outages).toHaveLength(1);
    await loop.stop();
    const after = attempts;
    await settled();
    expect(attempts).toBe(after);
  });

  it('notices when the server no longer knows that it listens', async () => {
    let wakes = 0;
    const opened: ListenConnection[] = [];
    const loop = new ListenLoop(
      {
        connect: async (onNotification) => {
          const connection = await ListenConnection.open(
            { connectionString: database.url },
            'Any "channel"',
            1_000,
            onNotification,
          );
          opened.push(connection);
          return connection;
        },
        notify: async (payload) =>
          void (await database.query(`SELECT pg_notify('Any "channel"', $1)`, [payload])),
        wake: () => (wakes += 1),
        onLost: () => undefined,
        onDeaf: () => undefined,
      },
      { heartbeatMs: 50, probeMs: 500, backOffMs: [10, 20], deafMs: 50 },
    );
    loop.start();
    await until(() => wakes === 1);
    const { client } = opened[0] as unknown as { client: { query(sql: string): Promise<unknown> } };
    await client.query('UNLISTEN *');
    await until(() => opened.length === 2 && wakes === 2);
    await loop.stop();
  });
});
