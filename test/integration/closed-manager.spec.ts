import { AsyncResource } from 'node:async_hooks';
import { Client, Query } from 'pg';
import { Instance } from '../../src/core/instance.js';
import { Deadline } from '../../src/outbox/runs/deadline.js';
import { HandlerRunner } from '../../src/outbox/runs/handler.runner.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { until } from '../support/application.js';
import { createDatabase } from '../support/database.js';
import { faults, stray } from './support/faults.js';
import { clear, record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';
import { expectNoLeak, holdPool, poolOf } from './support/pool.js';
import { cuttingProxy } from './support/proxy.js';

const ROUNDS = 50;
const NOPE = `select * from nope where what = 'stray'`;

/** As a library does that has lost the async context of its caller: the timer was started outside any run. */
let afterwards: (() => unknown) | undefined;

const FAULTS = faults({ pauseMs: 80, queryMs: 200 });

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('R35 R13 a handler that goes wrong leaves no row behind and is never recorded as done', () => {
  const script: Partial<Script> = {};
  /** The one that the present test is about. */
  let inbox: TestInbox;
  let patient: TestInbox;
  /** Its handlers have little time; a run that is to succeed would time out there on a busy machine. */
  let hasty: TestInbox;

  beforeAll(async () => {
    // One attempt: with jitter, however long the pause, one of hundreds of rows would now and then come again at once.
    const retry = { maxAttempts: 1 };
    patient = await startInbox({ providers: [scripted(script, { handler: { timeout: '20s', retry } })] });
    hasty = await startInbox({ providers: [scripted(script, { handler: { timeout: 40, retry } })] });
  });
  beforeEach(() => {
    inbox = patient;
  });
  afterEach(async () => {
    await clear(inbox.database);
    await expectNoLeak(poolOf(inbox.dataSource));
  });
  afterAll(async () => {
    await patient?.stop();
    await hasty?.stop();
  });

  it.each(Object.entries(FAULTS))(`one that %s, ${ROUNDS} times`, async (name, code) => {
    if (name.startsWith('times out')) inbox = hasty;
    script.handle = code;
    await Promise.all(Array.from({ length: ROUNDS }, (_, round) => inbox.deliver(`${round}`)));
    await amongOthers(async () => {
      await inbox.relay.drain({ maxMs: 20_000 });
      // What was started and not awaited gets the time to land.
      await pause(20);
    });

    expect(await inbox.query(`SELECT source, count(*)::int FROM received_event GROUP BY source`)).toEqual([]);
    const failed = `state = 'dead' AND attempt = 1 AND error IS NOT NULL`;
    expect(await inbox.rows(failed)).toHaveLength(ROUNDS);
  });

  it('one that writes after it has returned and its run was committed: the write is not sent, and a person is told', async () => {
    // Bound to the run's own context, as a timer or a listener would be that the handler has left behind.
    const later: (() => void)[] = [];
    script.handle = async (event, context) => {
      await record(event, context);
      const leftBehind = () => {
        void stray(context.manager, event);
        void context.manager.transaction((inner) => stray(inner, event));
        void context.enqueue('mail', {});
      };
      later.push(AsyncResource.bind(leftBehind));
    };
    await Promise.all(Array.from({ length: ROUNDS }, (_, round) => inbox.deliver(`${round}`)));
    inbox.alerts.length = 0;
    await amongOthers(async () => {
      expect(await inbox.relay.drain({ maxMs: 20_000 })).toMatchObject({ done: ROUNDS });
      for (const leftBehind of later) leftBehind();
      await until(() => inbox.alerts.length >= 3 * ROUNDS);
    });

    expect(await inbox.query(`SELECT source, count(*)::int FROM received_event GROUP BY source`)).toEqual([
      { source: 'awardee', count: ROUNDS },
    ]);
    expect(await inbox.rows(`kind = 'effect'`)).toEqual([]);
    expect(inbox.alerts).toHaveLength(3 * ROUNDS);
    for (const alert of inbox.alerts) {
      expect(alert).toMatchObject({ kind: 'manager-misused', name: 'awardee/handle' });
    }
  });

  it.each([
    ['with a result', 'its result'],
    ['without one', undefined],
  ])(
    'one %s whose write comes from code that has lost its context, while its run is being settled and committed',
    async (_, result) => {
      const timer = setInterval(() => {
        void afterwards?.();
        afterwards = undefined;
      }, 0);
      script.handle = async (event, context) => {
        await record(event, context);
        afterwards = () => stray(context.manager, event);
        return result;
      };
      inbox.alerts.length = 0;
      await inbox.deliver('1');
      // The settle takes its time, so that the write comes in its middle.
      await inbox.query(`CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.03); RETURN NEW; END $$`);
      await inbox.query(`CREATE TRIGGER slow BEFORE UPDATE ON webhook_outbox FOR EACH ROW WHEN (NEW.state = 'done')
      EXECUTE FUNCTION pause()`);
      try {
        expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
      } finally {
        clearInterval(timer);
        await inbox.query(`DROP TRIGGER slow ON webhook_outbox`);
      }
      // What is refused is never sent: the run is committed as its code had left it.
      expect(await inbox.query(`SELECT * FROM received_event`)).toHaveLength(1);
      expect(inbox.alerts.filter(({ kind }) => kind === 'manager-misused')).toMatchObject([
        { name: 'awardee/handle' },
      ]);
    },
  );

  it('one that goes on after its time is up is not accused of anything, and nothing of it is sent', async () => {
    inbox = hasty;
    let wentOn = 0;
    script.handle = async (event, context) => {
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      await new Promise((resolve) => setTimeout(resolve, 20));
      wentOn += 1;
      await stray(context.manager, event);
    };
    inbox.alerts.length = 0;
    await inbox.deliver('1');
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 0 });
    await until(() => wentOn === 1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await inbox.query(`SELECT * FROM received_event`)).toEqual([]);
    expect(inbox.alerts.filter(({ kind }) => kind === 'manager-misused')).toEqual([]);
  });

  it.each<[string, Script['handle']]>([
    ['a query', (_event, { manager }) => manager.query(NOPE).catch(() => undefined)],
    [
      'a query and those behind it',
      async (_event, { manager }) => {
        for (const query of [NOPE, 'SELECT 1', 'SELECT 2']) await manager.query(query).catch(() => undefined);
      },
    ],
    [
      'a query, after another one in a savepoint',
      async (_event, { manager }) => {
        await manager.transaction((inner) => inner.query('SELECT 1 / 0')).catch(() => undefined);
        await manager.query(NOPE).catch(() => undefined);
      },
    ],
  ])('one that swallows the error of %s is told which, why, and what to do', async (_, handle) => {
    script.handle = handle;
    await inbox.deliver('1');
    await inbox.relay.tick();
    expect(await inbox.rows()).toMatchObject([
      {
        error:
          `ManagerMisused: a query failed and its error was swallowed: select * from nope where what = '…': ` +
          'relation "nope" does not exist; the run cannot commit: throw the error again, or run a query that may fail in ' +
          'manager.transaction(), which is a savepoint',
      },
    ]);
  });

  it('one that swallows the error of a query object is told why', async () => {
    script.handle = async (_event, { manager }) => {
      const client = (await manager.queryRunner!.connect()) as Client;
      await new Promise((resolve) => client.query(new Query(NOPE)).once('error', resolve));
    };
    await inbox.deliver('1');
    await inbox.relay.tick();
    expect((await inbox.rows())[0]).toMatchObject({
      error: expect.stringContaining('swallowed: a query object: relation "nope" does not exist; '),
    });
  });

  it('one that lets a query fail in a savepoint is done', async () => {
    script.handle = async (_event, { manager }) =>
      manager.transaction((inner) => inner.query(NOPE)).catch(() => undefined);
    await inbox.deliver('1');
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
  });

  it('one that writes too late is told of without the values in its query', async () => {
    const later: (() => void)[] = [];
    script.handle = (_event, { manager }) => {
      const write = () => void manager.query(`INSERT INTO received_event VALUES ('card 4242')`);
      later.push(AsyncResource.bind(write));
    };
    await inbox.deliver('1');
    inbox.alerts.length = 0;
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    later[0]!();
    await until(() => inbox.alerts.length > 0);
    expect(inbox.alerts).toMatchObject([
      { detail: expect.stringContaining(`was not sent: INSERT INTO received_event VALUES ('…'); await`) },
    ]);
  });

  it.each<[string, Script['handle']]>([
    ['its first query', (_event, { manager }) => manager.query(NOPE).catch(() => undefined)],
    [
      'its first query, which has values and goes with the BEGIN',
      (_event, { manager }) =>
        manager.query('SELECT * FROM nope WHERE what = $1', ['x']).catch(() => undefined),
    ],
    [
      'a later query',
      async (_event, { manager }) => {
        await manager.query('SELECT 1');
        await manager.query(NOPE).catch(() => undefined);
      },
    ],
  ])(
    'one that swallows the error of %s is told which, also where the server tells late that the transaction has failed',
    async (_, handle) => {
      const database = await createDatabase();
      const proxy = await cuttingProxy(database.url);
      const slow = await startInbox({ database, databaseUrl: proxy.url, providers: [scripted(script)] });
      try {
        script.handle = handle;
        await slow.deliver('1');
        proxy.delayStateAfterErrors();
        await slow.relay.tick();
        expect(await slow.rows()).toMatchObject([
          {
            error: expect.stringMatching(
              /^ManagerMisused: a query failed and its error was swallowed: select/i,
            ),
          },
        ]);
      } finally {
        await slow.stop();
        await proxy.close();
      }
    },
  );

  it('one that has waited for a connection for longer than its time is not started', async () => {
    const started: string[] = [];
    script.handle = (event) => {
      started.push(event.eventId);
      throw new Error('nobody waits for me');
    };
    await inbox.deliver('1');
    const name = { name: 'awardee/handle', maxAttempts: 1, limit: 1 };
    const { manager } = inbox.database.dataSource;
    const { leased } = await inbox.app
      .get(OutboxStore)
      .lease(manager, inbox.app.get(Instance).id, 30_000, [name], 1);
    const giveBack = await holdPool(inbox.dataSource);
    const run = inbox.app.get(HandlerRunner).run(leased[0]!, new Deadline('awardee/handle', 40).signal, 40);
    await pause(80);
    await giveBack();
    expect(await run).toBe('dead');
    expect(started).toEqual([]);
    expect((await inbox.rows())[0]).toMatchObject({
      error: expect.stringContaining('did not end within 40 ms'),
    });
  });

  /** Works beside the application's own transactions, on the same connections, whose fate a stray write would share. */
  async function amongOthers(work: () => Promise<void>): Promise<void> {
    const others = { busy: true };
    const one = async () => {
      while (others.busy) {
        await inbox.dataSource.transaction(async (manager) => {
          await manager.query(`SELECT 1`);
          await pause(3);
        });
        await inbox.dataSource.query('SELECT 1');
      }
    };
    const working = Promise.all([one(), one()]);
    try {
      await work();
    } finally {
      others.busy = false;
      await working;
    }
  }
});
