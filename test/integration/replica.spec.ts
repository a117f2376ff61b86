import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataSource, type EntityManager } from 'typeorm';
import { webhookInboxMigrations } from '../../migrations/index.js';
import { PERMISSION } from '../../src/dashboard/dashboard.actions.js';
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { Inspector, Operator, Retention, StartupReconciler, Stats } from '../../src/index.js';
import { SignOfLife } from '../../src/operator/sign-of-life.js';
import { BoundedRead } from '../../src/storage/postgres/bounded-read.js';
import { fromPrimary, fromReplica, type ReplicaUse } from '../../src/storage/postgres/replica.js';
import { copyForStandby } from '../chaos/support/backup.js';
import { Server } from '../chaos/support/server.js';
import { listen, until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { RECEIVED_EVENT } from '../support/tables.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { startInbox, type TestInbox } from './support/inbox.js';

/** How many connections were lent since the last look. */
interface Lent {
  master: number;
  slave: number;
}

function watch(dataSource: DataSource): () => Lent {
  const { driver } = dataSource;
  const lent: Lent = { master: 0, slave: 0 };
  const [master, slave] = [
    driver.obtainMasterConnection.bind(driver),
    driver.obtainSlaveConnection.bind(driver),
  ];
  driver.obtainMasterConnection = () => {
    lent.master += 1;
    return master();
  };
  driver.obtainSlaveConnection = () => {
    lent.slave += 1;
    return slave();
  };
  return () => {
    const seen = { ...lent };
    Object.assign(lent, { master: 0, slave: 0 });
    return seen;
  };
}

const NO_ROW = '0199a1b2-0000-7000-8000-000000000000';
const DEED = { by: 'ada', reason: 'test' };
const DEAD = { source: 'awardee', tenant: '', eventId: 'dies' };

describe('with a streaming standby', () => {
  let folder: string;
  let primary: Server;
  let standby: Server;
  let inbox: TestInbox;
  let desk: string;
  let lent: () => Lent;
  let ids: { event: string; row: string; group: string };

  const query = <T = Record<string, unknown>>(sql: string, parameters?: unknown[]) =>
    inbox.dataSource.query<T[]>(sql, parameters);

  /** The standby has everything, and a sign of life of this very moment. */
  const inSync = async () => {
    await inbox.app.get(SignOfLife).give();
    const [row] = await query<{ at: string }>('SELECT pg_current_wal_lsn()::text AS at');
    const looking = inbox.dataSource.createQueryRunner('slave');
    try {
      await until(async () => {
        const [{ there }] = (await looking.query(`SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS there`, [
          row!.at,
        ])) as [{ there: boolean }];
        return there;
      });
    } finally {
      await looking.release();
    }
    lent();
  };
  const get = (path: string, headers: Record<string, string> = {}) => fetch(`${desk}/${path}`, { headers });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'replica-'));
    const log = join(folder, 'postgres.log');
    primary = await Server.create(log, ['max_connections=50']);
    await primary.start();
    const { hostname, port } = new URL(primary.url);
    standby = await Server.empty(log, [
      'max_connections=50',
      `primary_conninfo=host=${hostname} port=${port} user=postgres password=postgres`,
    ]);
    await copyForStandby(primary.url, primary.data, standby.data);
    await standby.start();
    const migrating = await new DataSource({
      ...options(primary.url),
      migrations: webhookInboxMigrations(),
    }).initialize();
    await migrating.runMigrations();
    await migrating.query(RECEIVED_EVENT);
    await migrating.destroy();
    const database: TestDatabase = {
      url: primary.url,
      dataSource: migrating,
      query: (sql, parameters) => inbox.dataSource.query(sql, parameters),
      whileDown: (work) => work(),
      drop: () => Promise.resolve(),
    };
    inbox = await startInbox({
      database,
      dataSource: { replication: { master: { url: primary.url }, slaves: [{ url: standby.url }] } } as object,
      webhooks: { sources: deskSources },
      providers: [DeskHandlers],
      imports: [WebhooksDashboardModule.forRoot({ path: 'desk', allowUnauthenticated: true })],
    });
    lent = watch(inbox.dataSource);
    desk = `${await listen(inbox.app)}/desk/api`;
    world.grantsFail = true;
    await inbox.deliver(DEAD.eventId);
    await inbox.settle();
    world.grantsFail = false;
    const inspector = inbox.app.get(Inspector);
    const event = (await inspector.events('')).events[0]!.id;
    const { rows } = (await inspector.event(event))!;
    ids = { event, row: rows[0]!.id, group: (await inspector.deadGroups('')).groups[0]!.fingerprint };
  }, 120_000);
  afterAll(async () => {
    await inbox?.app.close();
    await standby?.remove();
    await primary?.remove();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(inSync);

  // Spelt out: made of the code's own table, a list could be missing in both.
  const LISTS = [
    'events',
    'effects',
    'dead',
    'rejections',
    'sources',
    'audit',
    'overview',
    'relays',
    'alerts',
    'destinations',
    'counts',
  ];
  it.each([...LISTS, 'events/:event', 'dead/:group'])(
    'the desk’s %s comes from it, and from the primary with no-cache',
    async (path) => {
      const asked = path.replace(':event', ids.event).replace(':group', ids.group);
      const listed = await get(asked);
      const { master, slave } = lent();
      expect([listed.status, master, slave > 0]).toEqual([200, 0, true]);
      const fresh = await get(asked, { 'cache-control': 'no-cache' });
      expect([fresh.status, lent().slave]).toEqual([200, 0]);
    },
  );

  it('pauses, which decide, come from the primary', async () => {
    expect([(await get('paused')).status, lent()]).toEqual([200, { master: 1, slave: 0 }]);
  });

  it('an event that is not there yet is looked for on the primary', async () => {
    expect((await get(`events/${NO_ROW}`)).status).toBe(404);
    expect(lent()).toEqual({ master: 1, slave: 1 });
  });

  it('no action of the desk reads it', async () => {
    const [events, { reason }] = [[DEAD], DEED];
    const rows = [ids.row];
    const bodies: Readonly<Record<string, object>> = {
      'revive-preview': { ids: rows },
      'row-states': { ids: rows },
      issue: { fingerprint: ids.group, state: 'acknowledged', reason },
      'find-gaps': { source: 'awardee', reason },
      'verify-again': { source: 'awardee', reason },
      reveal: { event: ids.event },
      download: { event: ids.event },
      'replay-preview': { events },
      replay: { events, reason },
      forward: { events, url: 'https://example.com', reason },
      pause: { kind: 'source', name: 'stripe', paused: true, reason },
      park: { ids: rows, reason },
      decide: { id: rows[0], decision: 'done', reason },
      cancel: { id: rows[0], reason },
      revive: { ids: rows, reason },
      'give-up': { ids: rows, reason },
      erase: { event: DEAD, reason },
    };
    expect(Object.keys(bodies).sort()).toEqual([...Object.keys(PERMISSION), 'download'].sort());
    for (const [action, body] of Object.entries(bodies)) {
      const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
      await fetch(`${desk}/actions/${action}`, { method: 'POST', headers, body: JSON.stringify(body) });
      const { master, slave } = lent();
      expect([action, slave, master > 0]).toEqual([action, 0, true]);
    }
  });

  it('no injected service reads it by itself: claims, runs, plans, replays, reconciling and retention', async () => {
    await inbox.deliver('claimed');
    await inbox.deliver('claimed');
    await inbox.settle();
    const event = { source: 'awardee', tenant: '', eventId: 'claimed' };
    await inbox.app.get(Operator).previewReplay([event], []);
    expect(await inbox.app.get(Operator).replay([event], [], DEED)).toMatchObject({ replayed: 1 });
    await inbox.settle();
    await inbox.app.get(StartupReconciler).reconcile();
    await inbox.app.get(Retention).prune();
    for (const service of [inbox.app.get(Inspector), inbox.app.get(Stats)]) {
      const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(service));
      for (const name of methods.filter((one) => one !== 'constructor')) {
        const method = Reflect.get(service, name) as (...given: unknown[]) => unknown;
        // Without arguments most of them refuse.
        await Promise.resolve()
          .then(() => method.call(service))
          .catch(() => undefined);
      }
    }
    const { master, slave } = lent();
    expect([slave, master > 20]).toEqual([0, true]);
  });

  it('lists come from the primary when it has ended', async () => {
    await standby.stopAtOnce();
    const { status } = await get('events');
    expect([status, lent()]).toEqual([200, { master: 1, slave: 1 }]);
    expect([(await get('events')).status, lent()]).toEqual([200, { master: 1, slave: 0 }]);
  });
});

describe('a replica that does not serve', () => {
  let primary: TestDatabase;
  let replica: TestDatabase;
  let proxy: TcpProxy;
  let dataSource: DataSource;
  let lent: () => Lent;
  let reads: BoundedRead;
  beforeEach(async () => {
    [primary, replica] = [await createDatabase(), await createDatabase()];
    proxy = await TcpProxy.start(replica.url);
    dataSource = await new DataSource({
      ...options(primary.url),
      replication: { master: { url: primary.url }, slaves: [{ url: proxy.url }] },
    }).initialize();
    lent = watch(dataSource);
    reads = new BoundedRead(dataSource);
    await replica.query(
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources)
       VALUES (gen_random_uuid(), 'h', 1, 'v22', true, true, 0, '{}', '{}')`,
    );
  });
  afterEach(async () => {
    await proxy?.stop();
    await dataSource?.destroy();
    await Promise.all([primary?.drop(), replica?.drop()]);
  });

  const name = (manager: EntityManager) =>
    manager
      .query<[{ name: string }]>('SELECT current_database() AS name')
      .then(([row]) => new URL(primary.url).pathname === `/${row.name}`);
  /** Whether the primary has answered. */
  const ask = (use?: ReplicaUse) => fromReplica(() => reads.run(name), use);

  it('is read while it does, by work that asks for it, and its age is told', async () => {
    const use: ReplicaUse = {};
    expect([await ask(use), await reads.run(name)]).toEqual([false, true]);
    expect(await fromReplica(() => fromPrimary(() => reads.run(name)))).toBe(true);
    expect(use.behindMs).toBeGreaterThanOrEqual(0);
    expect(use.behindMs).toBeLessThan(15_000);
  });

  const FAULTS: Readonly<Record<string, () => Promise<unknown>>> = {
    'is far behind': () => replica.query(`UPDATE webhook_relay SET seen_at = now() - interval '16 s'`),
    'has another clock': () => replica.query(`UPDATE webhook_relay SET seen_at = now() + interval '1 hour'`),
    'shows no sign of life': () => replica.query('DELETE FROM webhook_relay'),
    'lacks a table': () => replica.query('DROP TABLE webhook_relay CASCADE'),
    'takes no connection': () => proxy.stop(),
  };
  it.each(Object.keys(FAULTS))('%s: the primary answers, and the replica is left alone', async (fault) => {
    await FAULTS[fault]!();
    const use: ReplicaUse = {};
    expect([await ask(use), use.behindMs, lent()]).toEqual([true, undefined, { master: 1, slave: 1 }]);
    expect([await ask(), lent()]).toEqual([true, { master: 1, slave: 0 }]);
  });

  it('fails at the question itself: the primary answers it', async () => {
    const database = new URL(primary.url).pathname.slice(1);
    const asked = fromReplica(() =>
      reads.run((manager) => manager.query(`SELECT 1 / (current_database() = $1)::int AS one`, [database])),
    );
    expect(await asked).toEqual([{ one: 1 }]);
  });

  it('falls silent: the primary answers after a while', async () => {
    const asked = fromReplica(() =>
      reads.run(async (manager) => {
        proxy.freeze();
        return name(manager);
      }, 1_000),
    );
    expect(await asked).toBe(true);
  });

  it('a question that is wrong everywhere is refused by the primary', async () => {
    const asked = fromReplica(() => reads.run((manager) => manager.query('DELETE FROM webhook_stat')));
    await expect(asked).rejects.toMatchObject({ code: '25006' });
  });
});
