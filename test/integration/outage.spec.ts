import { jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { Pool } from 'pg';
import { DataSource } from 'typeorm';
import {
  hmac,
  Inbox,
  OnWebhook,
  Outbox,
  PermanentError,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { Leaser } from '../../src/outbox/relay/leaser.js';
import { RelayClaims } from '../../src/inbox/relay-claims.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { sesmetric, SESMETRIC_SECRET } from '../support/signing.js';
import { Latch } from '../support/latch.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  clear,
  awardeeSource,
  INSERT_RECORD,
  record,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { expectNoLeak, holdPool, poolOf } from './support/pool.js';
import { cuttingProxy, type CuttingProxy } from './support/proxy.js';

const OK = { status: 200, body: { status: 'ok' } };
const UNAVAILABLE = { status: 503, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let database: TestDatabase;
let proxy: CuttingProxy;
let inbox: TestInbox | undefined;
const script: Partial<Script> = {};
const sent: string[] = [];

beforeAll(async () => {
  database = await createDatabase();
  proxy = await cuttingProxy(database.url);
});
beforeEach(() => {
  sent.length = 0;
  script.handle = async (event, context) => {
    await record(event, context);
    await context.enqueue('mail', {});
  };
  script.effect = (_, { key }) => void sent.push(key);
});
afterEach(async () => {
  await inbox?.stop();
  inbox = undefined;
  await clear(database);
});
afterAll(async () => {
  await proxy?.close();
  await database?.drop();
});

async function start(setup: InboxSetup = {}): Promise<TestInbox> {
  const retry = { base: 1, cap: 50 };
  inbox = await startInbox({
    database,
    databaseUrl: proxy.url,
    providers: [scripted(script, { handler: { retry }, effect: { retry } })],
    ...setup,
  });
  return inbox;
}

/** A provider: delivers `count` events, a few at once, each again until it is acknowledged. Says which answers there were. */
async function provide(to: TestInbox, count: number): Promise<Set<number>> {
  const answers = new Set<number>();
  let next = 0;
  const end = Date.now() + 20_000;
  const deliverOne = async (id: string) => {
    for (;;) {
      if (Date.now() > end) throw new Error(`${id} was not acknowledged within 20 s`);
      const answer = await to.deliver(id);
      answers.add(answer.status);
      if (answer.status === 200) return;
      expect(answer).toMatchObject(UNAVAILABLE);
      await pause(20);
    }
  };
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      while (next < count) await deliverOne(`d-${(next += 1)}`);
    }),
  );
  return answers;
}

/** Every event was applied once, its effect done under one key, and nothing is owed any more. */
async function expectNothingLost(to: TestInbox, count: number): Promise<void> {
  await until(async () => (await to.rows(`state = 'done'`)).length === 2 * count, 20_000);
  expect(await database.query(`SELECT count(*)::int, max(applied_count) FROM received_event`)).toEqual([
    { count, max: 1 },
  ]);
  expect(new Set(sent).size).toBe(count);
}

describe('the database is down', () => {
  const EVENTS = 120;
  const relay = { pollInterval: '30ms', lease: '1s' };

  it('deliveries are answered 503 with Retry-After, and taken again when it is back; nothing is lost', async () => {
    const to = await start({ loop: true, webhooks: { relay } });
    const provided = provide(to, EVENTS);
    for (let outage = 1; outage <= 3; outage += 1) {
      await claimed((outage * EVENTS) / 5);
      await proxy.goDown();
      expect(await to.deliver(`d-1`)).toMatchObject(UNAVAILABLE);
      await pause(50);
      await proxy.comeBack();
    }
    expect(await provided).toEqual(new Set([200, 503]));
    await expectNothingLost(to, EVENTS);
  });

  it('the log tells of it with growing pauses, and once that it is over', async () => {
    const lines: string[] = [];
    const keep = (line: unknown) => void lines.push(String(line));
    const told = (text: string) => lines.filter((line) => line.includes(text));
    const failing = 'the outbox could not be read';
    const to = await start({
      loop: true,
      webhooks: { relay: { pollInterval: '20ms', listen: false } },
      configure: (app) => app.useLogger({ log: keep, warn: keep, error: keep }),
    });
    const round = jest.spyOn(to.leaser, 'lease');
    await proxy.goDown();
    await until(() => told(failing).length > 0);
    const before = round.mock.calls.length;
    await until(() => round.mock.calls.length >= before + 40);
    // Of the first 64 failures, seven.
    expect(told(failing).length).toBeLessThanOrEqual(7);
    await proxy.comeBack();
    await until(() => told('the outbox can be read again').length > 0);
    // The pool may still hold a connection from before.
    await until(async () => (await to.deliver('d-1')).status === 200);
    // The handler's row and its effect's.
    await until(async () => (await to.rows(`state = 'done'`)).length === 2);
    expect(told('the outbox can be read again')).toEqual([expect.stringMatching(/failures=\d{2,} ms=\d+$/)]);
  });

  it('every backend at work is ended, again and again, while events flow; nothing is lost', async () => {
    const to = await start({ loop: true, webhooks: { relay } });
    const provided = provide(to, EVENTS);
    let ended = 0;
    for (let kill = 1; kill <= 8; kill += 1) {
      await claimed((kill * EVENTS) / 10);
      ended += await until(async () => {
        const rows = await database.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`,
        );
        return rows.length > 0 && rows.length;
      });
    }
    // The kills have hit work in flight, or nothing was shown.
    expect(ended).toBeGreaterThanOrEqual(8);
    await provided;
    await expectNothingLost(to, EVENTS);
  });

  async function claimed(count: number): Promise<void> {
    await until(async () => (await database.query(`SELECT FROM webhook_claim`)).length >= count, 20_000);
  }
});

describe('a server that goes down in the moment in which a connection is made', () => {
  it('breaks that connection and nothing else: no error is left that nobody hears', async () => {
    const to = await start({ loop: true, webhooks: { relay: { pollInterval: '30ms', lease: '1s' } } });
    for (let index = 0; index < 5; index += 1) {
      await proxy.goDown();
      await proxy.comeBack();
      proxy.endNextAtGreeting();
      await until(async () => (await to.deliver(`d-${index}`)).status === 200);
    }
    await expectNothingLost(to, 5);
  });
});

describe('case 26 the server takes no writes', () => {
  // A test that has failed may have left it on.
  afterEach(() => readOnly('off'));

  it('claims are answered 503, and are taken again when it does, though no connection was broken', async () => {
    const to = await start();
    await to.deliver('warm');
    await readOnly('on');
    for (let index = 0; index < 3; index += 1) expect(await to.deliver('d-1')).toMatchObject(UNAVAILABLE);
    await readOnly('off', 'keep');
    await until(async () => (await to.deliver('d-1')).status === 200);
  });

  it('the relay alone finds back to a server that does, and records what failed on the one that does not', async () => {
    // Nothing may be left to the end of a lease.
    const to = await start({ loop: true, webhooks: { relay: { pollInterval: '30ms', lease: '10m' } } });
    await demotedPool(to);
    // What another process has claimed.
    const other = await startInbox({ database, providers: [scripted(script)], webhooks: { relay: false } });
    expect(await other.deliver('d-1')).toMatchObject(OK);
    await other.stop();
    await until(async () => {
      // Each attempt that meets a connection to the read-only server ends it, and waits longer than the one before.
      await to.makeDue();
      return (await to.rows(`state = 'done'`)).length === 2;
    }, 30_000);
    expect(await to.rows('lost > 0')).toEqual([]);
  }, 60_000);

  it('the farewell of a server is heard on every connection, whoever has it and whenever it was made', async () => {
    const to = await start();
    // TypeORM has made one before the module was there.
    const { master } = to.dataSource.driver as unknown as { master: Pool };
    const made = await Promise.all([master.connect(), master.connect()]);
    for (const client of made) {
      expect(client.listenerCount('error')).toBeGreaterThan(0);
      client.emit('error', new Error('terminating connection due to administrator command'));
      client.release(true);
    }
  });

  describe('what has run meanwhile is recorded, though every connection of the pool leads to the server that takes no writes', () => {
    // A listener whose connection is ended tries its next one through the pool.
    const relay = { lease: '10m', listen: false };
    // By a connection of the test's: the pool may still hold one to the server that takes no writes.
    const enqueued = (to: TestInbox) =>
      to.app.get(Outbox).enqueue(database.dataSource.manager, 'mail', {}, { outsideTransaction: true });

    it('a handler that has failed', async () => {
      const to = await start({ webhooks: { relay } });
      script.handle = async (_, { manager }) => {
        await demotedPool(to, 1);
        // Its own connection is no way out either.
        await manager.query('SELECT pg_terminate_backend(pg_backend_pid())');
      };
      await to.deliver('d-1');
      expect(await to.relay.tick()).toMatchObject({ retried: 1, lost: 0 });
      expect(await to.rows()).toMatchObject([{ state: 'pending', leased_by: null }]);
    });

    it('an effect that has failed, and one that was done: neither is called again for that', async () => {
      const to = await start({ webhooks: { relay } });
      let fails = true;
      script.effect = async (_, { key }) => {
        sent.push(key);
        await demotedPool(to);
        if (fails) throw Object.assign(new Error('no'), { status: 422 });
      };
      await enqueued(to);
      expect(await to.relay.tick()).toMatchObject({ dead: 1, lost: 0 });
      fails = false;
      await enqueued(to);
      expect(await to.relay.tick()).toMatchObject({ done: 1, lost: 0 });
      expect(sent).toHaveLength(2);
    });

    it('that an effect begins, and that it was done in its turn', async () => {
      const providers = [
        scripted(script, {
          effect: {
            probe: () => demotedPool(to).then(() => 'not-done' as const),
            probeFirst: true,
            key: () => 'k',
          },
        }),
      ];
      const to: TestInbox = await start({ providers, webhooks: { relay } });
      script.effect = async (_, { key }) => {
        sent.push(key);
        expect(await to.rows()).toMatchObject([{ begun_at: expect.any(Date) }]);
        await demotedPool(to);
      };
      await enqueued(to);
      expect(await to.relay.tick()).toMatchObject({ done: 1, lost: 0 });
      expect(sent).toHaveLength(1);
    });

    it('that a lease goes on, and that it is given back', async () => {
      const to = await start({ webhooks: { relay } });
      const begun = new Latch();
      script.effect = () => {
        begun.open();
        return new Promise(() => undefined);
      };
      await enqueued(to);
      const ticking = to.relay.tick();
      await begun.wait();
      const [before] = await to.rows();
      await demotedPool(to);
      await to.work.renew();
      const [renewed] = await to.rows();
      expect(renewed!.lease_until!.getTime()).toBeGreaterThan(before!.lease_until!.getTime());
      await demotedPool(to);
      await to.work.finish(0);
      expect(await to.rows()).toMatchObject([{ state: 'pending', leased_by: null }]);
      await ticking;
    });
  });

  /**
   * Fills the pool, but for what its caller holds of it, with connections to a server that takes no writes; new ones lead to one that
   * does.
   */
  async function demotedPool(to: TestInbox, held = 0): Promise<void> {
    const pool = poolOf(to.dataSource);
    // What still goes on would be lent a connection that is about to end, or bring back one that is sound.
    await to.app.get(Leaser).waitForLease();
    await until(() => pool.totalCount - pool.idleCount === held);
    await readOnly('on', 'keep');
    await database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle'`,
    );
    const free = 10 - held;
    await until(async () => {
      const lent = await Promise.all(
        Array.from({ length: free }, () =>
          to.dataSource
            .query<[{ mode: string; pid: number }]>(
              `SELECT current_setting('transaction_read_only') AS mode, pg_backend_pid() AS pid, pg_sleep(0.05)`,
            )
            .then(([row]) => row)
            .catch(() => ({ mode: 'ended', pid: 0 })),
        ),
      );
      // A loop's poll may have been running in the moment in which the idle ones were ended: its connection is ended now.
      const sound = lent.filter(({ mode }) => mode === 'off').map(({ pid }) => pid);
      await database.query('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid', [sound]);
      return lent.every(({ mode }) => mode === 'on');
    });
    await readOnly('off', 'keep');
  }

  /** For connections to come; those of the pool are ended first, unless the server was only changed behind their back. */
  async function readOnly(mode: 'on' | 'off', connections: 'end' | 'keep' = 'end'): Promise<void> {
    const [{ name }] = await database.dataSource.query<[{ name: string }]>(
      'SELECT current_database() AS name',
    );
    await database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${mode}`);
    if (connections === 'keep') return;
    // A connection that is just being made may have read the setting before: such a one has no database yet, and is waited for.
    const [{ changed }] = await database.dataSource.query<[{ changed: string }]>(
      'SELECT clock_timestamp()::text AS changed',
    );
    await until(async () => {
      const older = await database.query(
        // Waits for their end: one that is only about to end would still write.
        `SELECT CASE WHEN datname IS NOT NULL THEN pg_terminate_backend(pid, 10000) END FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND backend_start <= $1::timestamptz
            AND (datname = current_database() OR datname IS NULL)`,
        [changed],
      );
      return older.length === 0;
    });
  }
});

describe('the pool is exhausted', () => {
  it('deliveries are answered 503 in time, and taken again when there are connections', async () => {
    const to = await start({ webhooks: { claimTimeout: '200ms' } });
    const giveBack = await holdPool(to.dataSource);
    // The answers come while no connection is given back.
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => to.deliver(`d-${index}`)));
    for (const answer of answers) expect(answer).toMatchObject(UNAVAILABLE);
    await giveBack();
    for (let index = 0; index < 20; index += 1)
      await until(async () => (await to.deliver(`d-${index}`)).status === 200);
    expect(await database.query(`SELECT FROM webhook_claim`)).toHaveLength(20);
  });

  it.each(['own', 'provider'] as const)(
    'under retries: %s a stale delivery of a known event is answered in time too',
    async (retries) => {
      const to = await start({
        providers: [],
        webhooks: {
          claimTimeout: '200ms',
          sources: {
            ses: hmac({
              secrets: [SESMETRIC_SECRET],
              signatureHeader: 'X-SESMetric-Signature',
              timestampHeader: 'X-SESMetric-Timestamp',
              idPath: 'id',
              typePath: 'type',
              staleDuplicates: 'accept',
              retries,
            }),
          },
        },
      });
      const old = sesmetric({ id: 'e-1', type: 'x' }, Math.floor(Date.now() / 1000) - 3600);
      const giveBack = await holdPool(to.dataSource);
      const answer = await to.app.get(Inbox).receive('ses', { headers: old.headers, rawBody: old.body });
      await giveBack();
      expect(answer).toMatchObject(UNAVAILABLE);
    },
  );
});

describe('case 27 a handler that takes a second connection from a pool of two, with 50 deliveries at once', () => {
  @Injectable()
  class SecondConnection {
    constructor(@InjectDataSource() readonly dataSource: DataSource) {}

    async handle(event: WebhookEvent, context: HandlerContext) {
      await context.manager.query('SELECT 1');
      await this.dataSource.query(INSERT_RECORD, [event.source, event.eventId, event.type]);
    }
  }
  @Injectable()
  class Own extends SecondConnection {
    @OnWebhook('awardee', '*', { timeout: '1s', retry: { base: 1, cap: 20 } })
    override handle(event: WebhookEvent, context: HandlerContext) {
      return super.handle(event, context);
    }
  }
  @Injectable()
  class Inline extends SecondConnection {
    @OnWebhook('inline', '*', { inline: true })
    override handle(event: WebhookEvent, context: HandlerContext) {
      return super.handle(event, context);
    }
  }
  const sources = { awardee: awardeeSource(), inline: awardeeSource({ ackTimeout: '1s' }) };
  afterEach(() => {
    process.env.NODE_ENV = 'test';
  });

  it('own: all are handled, since the relay leaves a connection to the claims', async () => {
    process.env.NODE_ENV = 'production';
    const to = await start({
      loop: true,
      poolSize: 2,
      providers: [Own],
      webhooks: { sources, relay: { pollInterval: '50ms' } },
    });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => to.deliver(`d-${index}`)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    await until(async () => (await to.rows(`state = 'done'`)).length === 50);
  });

  it('inline: every delivery is answered in time, and the pool recovers', async () => {
    process.env.NODE_ENV = 'production';
    const to = await start({ poolSize: 2, providers: [Inline], webhooks: { sources, claimTimeout: '1s' } });
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => to.deliverTo('inline', `d-${index}`)),
    );
    for (const answer of answers) expect([200, 503]).toContain(answer.status);
    await expectNoLeak(poolOf(to.dataSource));
    expect(await to.deliverTo('inline', 'later')).toMatchObject(OK);
  });
});

describe('the connections of the pool are half open: nothing comes back on them, and new ones work', () => {
  let frozen: TcpProxy;
  beforeEach(async () => {
    frozen = await TcpProxy.start(database.url);
  });
  afterEach(async () => {
    await frozen.stop();
  });

  it('the relay gives its own up when the lease would have ended, and goes on with a new one', async () => {
    const ran: string[] = [];
    script.handle = ({ eventId }) => void ran.push(eventId);
    const to = await start({ databaseUrl: frozen.url, webhooks: { relay: { lease: '1s', listen: false } } });
    await to.deliver('d-1');
    await to.relay.tick();
    frozen.freeze();
    const other = await startInbox({ database, providers: [scripted(script)] });
    await other.deliver('d-2');
    await other.stop();
    await until(async () => {
      await to.relay.tick().catch(() => undefined);
      return ran.includes('d-2');
    }, 60_000);
  });

  it('that an effect begins, was done or has failed is recorded on a new one, and it is not called again', async () => {
    const gate = new Latch();
    const at = (payload: unknown) => (payload as { at: string }).at;
    const to = await start({
      databaseUrl: frozen.url,
      webhooks: { relay: { lease: '15s', listen: false } },
      providers: [
        scripted(script, {
          effect: {
            probeFirst: true,
            probe: async (payload) => {
              if (at(payload) === 'begin') await gate.wait();
              return 'not-done';
            },
          },
        }),
      ],
    });
    script.effect = async (payload, { key }) => {
      sent.push(key);
      if (at(payload) === 'begin') return;
      await gate.wait();
      if (at(payload) === 'fail') throw new PermanentError('no');
    };
    for (const point of ['begin', 'settle', 'fail'])
      await to.app
        .get(Outbox)
        .enqueue(to.dataSource.manager, 'mail', { at: point }, { outsideTransaction: true });
    const ticking = to.relay.tick();
    await until(() => gate.arrived === 3);
    frozen.freeze();
    gate.open();
    expect(await ticking).toMatchObject({ done: 2, dead: 1, lost: 0 });
    expect(sent).toHaveLength(3);
    expect(to.work.running).toBe(0);
  }, 90_000);

  it('a shutdown does not wait for counts that cannot be written down', async () => {
    const to = await start({ databaseUrl: frozen.url, loop: true, webhooks: { relay: false } });
    const keeper = to.app.get(DeskKeeper);
    await keeper.round();
    frozen.freeze();
    const round = keeper.round().catch(() => undefined);
    await keeper.beforeApplicationShutdown();
    await round;
  }, 60_000);

  it('a shutdown does not wait longer for an inline delivery than its provider does', async () => {
    const to = await start({
      databaseUrl: frozen.url,
      providers: [scripted(script, { handler: { inline: true } })],
      webhooks: {
        claimTimeout: '500ms',
        relay: { listen: false },
        sources: { awardee: awardeeSource({ ackTimeout: '500ms' }) },
      },
    });
    expect(await to.deliver('d-1')).toMatchObject(OK);
    await expectNoLeak(poolOf(to.dataSource));
    frozen.freeze();
    expect(await to.deliver('d-2')).toMatchObject(UNAVAILABLE);
    await to.app.get(RelayClaims).finish();
  });
});
