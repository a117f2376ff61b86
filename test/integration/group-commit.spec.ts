import { randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
import type { Answer } from '../../src/index.js';
import { uuidV7 } from '../../src/core/ids.js';
import { Tally } from '../../src/core/telemetry/tally.js';
import { Claimer } from '../../src/inbox/claimer.js';
import { ClaimStore } from '../../src/storage/claim.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import {
  awardeeSource,
  clear,
  record,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { expectNoLeak, holdPool, poolOf } from './support/pool.js';
import { cuttingProxy, type CuttingProxy } from './support/proxy.js';

const SOURCES = {
  awardee: awardeeSource({ retriesSameBytes: true }),
  wary: awardeeSource({ suspectedReplays: 'refuse' }),
};

const script: Partial<Script> = {};
let database: TestDatabase;
let proxy: CuttingProxy;
let inbox: TestInbox;

beforeAll(async () => {
  database = await createDatabase();
  proxy = await cuttingProxy(database.url);
  inbox = await start();
});
beforeEach(() => {
  script.handle = record;
  inbox.alerts.length = 0;
});
afterEach(async () => {
  await clear(database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(async () => {
  await inbox?.stop();
  await proxy?.close();
  await database?.drop();
});

function start({ webhooks, ...setup }: InboxSetup = {}): Promise<TestInbox> {
  return startInbox({
    database,
    databaseUrl: proxy.url,
    providers: [scripted(script, { sources: ['awardee', 'wary'], effect: false })],
    ...setup,
    webhooks: { sources: SOURCES, ...webhooks },
  });
}

/** Deliveries that come together: all of them wait while the pool has no connection. */
async function together(
  deliver: (to: TestInbox) => readonly Promise<Answer>[],
  to = inbox,
): Promise<Answer[]> {
  const giveBack = await holdPool(to.dataSource);
  const answers = Promise.all(deliver(to));
  await queued();
  await giveBack();
  return answers;
}

/** Until deliveries that were just made wait for a connection: what comes before are promises without I/O. */
const queued = () => new Promise((resolve) => setImmediate(resolve));
const events = (ids: readonly string[]) => (to: TestInbox) => ids.map((id) => to.deliver(id));
const ids = (count: number) => Array.from({ length: count }, (_, index) => `d-${index}`);
const kinds = (answers: readonly Answer[]) => answers.map(({ body }) => (body as { status: string }).status);
const all = (kind: string, count: number) => Array.from({ length: count }, () => kind);

/** How many events each transaction has claimed. */
async function commits(): Promise<number[]> {
  const rows = await database.query<{ events: number }>(
    `SELECT count(*)::int AS events FROM webhook_claim GROUP BY xmin::text ORDER BY min(received_at)`,
  );
  return rows.map((row) => row.events);
}

/** Claims an event in a transaction that stays open until what this gives is called. */
async function holdKey(eventId: string): Promise<() => Promise<void>> {
  const runner = database.dataSource.createQueryRunner();
  await runner.startTransaction();
  const held = {
    source: 'awardee',
    tenant: '',
    eventId,
    id: uuidV7(),
    type: 'grant.made',
    origin: 'delivery' as const,
    verifiedBy: 'test',
    headers: {},
    body: Buffer.from('{}'),
    rows: [],
  };
  await inbox.app.get(ClaimStore).claim(runner.manager, [held]);
  return async () => {
    await runner.rollbackTransaction();
    await runner.release();
  };
}

/** Every event of these was claimed and handled once. */
async function expectOnce(expected: readonly string[]): Promise<void> {
  await inbox.settle();
  const rows = await database.query<{ event_id: string; applied_count: number }>(
    `SELECT event_id, applied_count FROM received_event`,
  );
  expect(rows.map((row) => row.event_id).sort()).toEqual([...expected].sort());
  expect(rows.every((row) => row.applied_count === 1)).toBe(true);
}

describe('claims that are committed together', () => {
  it('share a commit when they come together, up to 100, and are each told what came of them', async () => {
    expect(kinds(await together(events(ids(130))))).toEqual(all('ok', 130));
    // Two transactions, at the same time: which is first is open.
    expect((await commits()).sort((a, b) => b - a)).toEqual([100, 30]);
    await expectOnce(ids(130));
  });

  it('have each a commit of their own where that is asked for', async () => {
    const single = await start({ webhooks: { groupCommit: false } });
    expect(kinds(await together(events(ids(12)), single))).toEqual(all('ok', 12));
    expect(await commits()).toEqual(all('', 12).map(() => 1));
    await single.stop();
  });

  // TypeORM prepares no statement.
  const prepares = process.env.CLAIMS === 'typeorm' ? [] : [[true, true] as const];
  it.each([...prepares, [false, false] as const])(
    'with preparedStatements: %s, statements are prepared: %s',
    async (preparedStatements, are) => {
      const other = await start({ databaseUrl: database.url, webhooks: { preparedStatements } });
      for (const id of ids(3)) expect(kinds([await other.deliver(id)])).toEqual(['ok']);
      const found = await Promise.all(
        ids(5).map(() =>
          other.dataSource.query<unknown[]>(
            `SELECT FROM pg_prepared_statements WHERE name LIKE 'webhook_inbox%'`,
          ),
        ),
      );
      // Before it is judged: an application that is left open keeps the test's process.
      await other.stop();
      expect(found.some((rows) => rows.length > 0)).toBe(are);
    },
  );

  it('do not wait for others: one that comes alone goes alone', async () => {
    for (const id of ids(3)) expect(kinds([await inbox.deliver(id)])).toEqual(['ok']);
    expect(await commits()).toEqual([1, 1, 1]);
  });

  it('are bounded in bytes too', async () => {
    // A busy machine takes seconds for 10 MB.
    const patient = await start({ webhooks: { claimTimeout: '50s' } });
    const large = randomBytes(500_000).toString('hex');
    const answers = await together(
      (to) => ids(10).map((id) => to.deliver(id, 'grant.made', { large, id })),
      patient,
    );
    await patient.stop();
    expect(kinds(answers)).toEqual(all('ok', 10));
    expect(Math.max(...(await commits()))).toBeLessThanOrEqual(4);
    const [row] = await database.query<{ bodies: number }>(
      `SELECT count(*)::int AS bodies FROM webhook_claim
        WHERE body = convert_to('{"large":"' || $1 || '","id":"' || event_id || '"}', 'UTF8')`,
      [large],
    );
    expect(row!.bodies).toBe(10);
  });
});

describe('duplicates', () => {
  // Few conflicts of a source are told of in a minute, and the tests before have used them up.
  beforeAll(async () => {
    await inbox.stop();
    inbox = await start();
  });

  it('in one batch: the first is the event, the others are answered duplicate', async () => {
    const answers = await together(events(['a', 'b', 'a', 'c', 'a', 'b']));
    expect(kinds(answers)).toEqual(['ok', 'ok', 'duplicate', 'ok', 'duplicate', 'duplicate']);
    expect(await commits()).toEqual([3]);
    await expectOnce(['a', 'b', 'c']);
  });

  it('in one batch with other bytes: the first stay, and each conflict is counted, and told of once', async () => {
    const answers = await together((to) =>
      [1, 2, 2, 3].map((amount) => to.deliver('contradicted', 'grant.made', { amount })),
    );
    expect(kinds(answers)).toEqual(['ok', 'duplicate', 'duplicate', 'duplicate']);
    const conflicts = await database.query(
      `SELECT kind, deliveries FROM webhook_conflict ORDER BY deliveries`,
    );
    expect(conflicts).toEqual([
      { kind: 'other-bytes', deliveries: 1 },
      { kind: 'other-bytes', deliveries: 2 },
    ]);
    expect(inbox.alerts).toMatchObject([{ kind: 'conflict', conflict: 'other-bytes' }]);
    expect(await database.query(`SELECT convert_from(body, 'UTF8') AS body FROM webhook_claim`)).toEqual([
      { body: '{"amount":1}' },
    ]);
  });

  it('of a dead event in one batch: its row is revived once', async () => {
    script.handle = () => Promise.reject(Object.assign(new Error('no such grant'), { status: 404 }));
    await inbox.deliver('a');
    await inbox.deliver('b');
    await inbox.relay.tick();
    expect(kinds(await together(events(['a', 'b', 'a', 'c'])))).toEqual([
      'duplicate',
      'duplicate',
      'duplicate',
      'ok',
    ]);
    expect(await inbox.rows(`event_id <> 'c'`)).toMatchObject(
      [1, 1].map((attempt) => ({ state: 'pending', attempt, attempt_base: 1 })),
    );
    script.handle = record;
    await expectOnce(['a', 'b', 'c']);
  });

  it('under other ids in one batch: suspected as in two, and refused where the source says so', async () => {
    const answers = await together((to) => [
      to.deliver('twin-a'),
      to.deliver('twin-b'),
      to.deliverTo('wary', 'twin-a'),
      to.deliverTo('wary', 'twin-b'),
    ]);
    expect(kinds(answers)).toEqual(['ok', 'ok', 'ok', 'duplicate']);
    expect(inbox.alerts).toMatchObject(
      ['awardee', 'wary'].map((source) => ({
        conflict: 'suspected-replay',
        event: { source, eventId: 'twin-b' },
      })),
    );
    expect(await database.query(`SELECT FROM webhook_claim`)).toHaveLength(3);
  });

  it('under another id: the suspicion is recorded with the claim, whatever breaks off', async () => {
    await inbox.deliver('once-a');
    await database.query(`CREATE SEQUENCE noted`);
    await database.query(`CREATE FUNCTION break_once() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF nextval('noted') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`);
    await database.query(
      `CREATE TRIGGER break_once BEFORE INSERT ON webhook_conflict FOR EACH ROW EXECUTE FUNCTION break_once()`,
    );
    try {
      expect(kinds([await inbox.deliver('once-b')])).toEqual(['ok']);
    } finally {
      await database.query(`DROP FUNCTION break_once CASCADE`);
      await database.query(`DROP SEQUENCE noted`);
    }
    expect(await database.query(`SELECT event_id, kind FROM webhook_conflict`)).toEqual([
      { event_id: 'once-b', kind: 'suspected-replay' },
    ]);
  });

  it.each([
    ['tried once more', '40001'],
    ['claimed one by one', 'P0001'],
  ])('of a batch that fails and is %s: each is counted once', async (_how, sqlState) => {
    await inbox.deliver('again', 'grant.made', { amount: 1 });
    await database.query(`CREATE SEQUENCE noted`);
    await database.query(`CREATE FUNCTION break_once() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF nextval('noted') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '${sqlState}'; END IF; RETURN NEW; END $$`);
    await database.query(
      `CREATE TRIGGER break_once BEFORE INSERT ON webhook_conflict FOR EACH ROW EXECUTE FUNCTION break_once()`,
    );
    const tally = inbox.app.get(Tally);
    tally.drain();
    try {
      const answers = await together((to) => [
        ...[2, 2].map((amount) => to.deliver('again', 'grant.made', { amount })),
        to.deliver('new'),
      ]);
      expect(kinds(answers)).toEqual(['duplicate', 'duplicate', 'ok']);
    } finally {
      await database.query(`DROP FUNCTION break_once CASCADE`);
      await database.query(`DROP SEQUENCE noted`);
    }
    const { duplicates, metrics } = tally.drain();
    expect(duplicates).toMatchObject([{ source: 'awardee', eventId: 'again', count: 2 }]);
    expect(metrics).toEqual(
      expect.arrayContaining([
        { source: 'awardee', metric: 'duplicates', value: 2 },
        { source: 'awardee', metric: 'other-bytes', value: 2 },
      ]),
    );
  });

  it('across batches in flight and across instances: each event is won once, by whoever it was', async () => {
    const others = await Promise.all([start(), start()]);
    const each = Array.from({ length: 150 }, (_, index) => `d-${index % 50}`);
    const answers = await Promise.all(
      [inbox, ...others].flatMap((to, shift) =>
        each.map((_, index) => to.deliver(each[(index + shift * 17) % each.length]!)),
      ),
    );
    const found = kinds(answers);
    expect(found.filter((kind) => kind === 'ok')).toHaveLength(50);
    expect(found.filter((kind) => kind === 'duplicate')).toHaveLength(400);
    for (const other of others) await other.stop();
    await expectOnce(ids(50));
  });
});

describe('what fails a batch fails its own delivery only', () => {
  it('a row that PostgreSQL refuses', async () => {
    await database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.event_id LIKE 'bad%' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`);
    await database.query(
      `CREATE TRIGGER refuse BEFORE INSERT ON webhook_claim FOR EACH ROW EXECUTE FUNCTION refuse()`,
    );
    try {
      const answers = await together(events(['a', 'bad-1', 'c', 'a', 'bad-2', 'f']));
      expect(kinds(answers).map((kind) => (kind === 'duplicate' ? 'ok' : kind))).toEqual([
        'ok',
        'unavailable',
        'ok',
        'ok',
        'unavailable',
        'ok',
      ]);
    } finally {
      await database.query(`DROP FUNCTION refuse CASCADE`);
    }
    expect(kinds(await together(events(['bad-1', 'bad-2'])))).toEqual(['ok', 'ok']);
    await expectOnce(['a', 'c', 'f', 'bad-1', 'bad-2']);
  });

  it('a batch that PostgreSQL breaks off however often it is tried', async () => {
    await database.query(`CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF (SELECT count(*) FROM added) > 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END IF; RETURN NULL; END $$`);
    await database.query(
      `CREATE TRIGGER break_off AFTER INSERT ON webhook_claim REFERENCING NEW TABLE AS added
         FOR EACH STATEMENT EXECUTE FUNCTION break_off()`,
    );
    try {
      expect(kinds(await together(events(ids(20))))).toEqual(all('ok', 20));
    } finally {
      await database.query(`DROP FUNCTION break_off CASCADE`);
    }
    await expectOnce(ids(20));
  });

  it('a key that another transaction holds', async () => {
    const release = await holdKey('d-3');
    let answers: Promise<Answer>[] = [];
    try {
      void (await together((to) => {
        answers = events(ids(10))(to).map((answer) => answer);
        return [];
      }));
      expect(kinds(await Promise.all(answers.filter((_, index) => index !== 3)))).toEqual(all('ok', 9));
      expect(await database.query(`SELECT FROM webhook_claim`)).toHaveLength(9);
    } finally {
      await release();
    }
    expect(kinds([await answers[3]!])).toEqual(['ok']);
    await expectOnce(ids(10));
  });

  it('a key that another transaction holds, also for the last that comes before it is seen to take long', async () => {
    // So long that nothing ends the first commit but the release of its key.
    const patient = await start({ webhooks: { claimTimeout: '10m' } });
    const release = await holdKey('d-0');
    // One that came before the first batch is taken would be in it.
    const taken = new Latch();
    const claimer = patient.app.get(Claimer);
    const claimTogether = claimer.claimTogether.bind(claimer);
    jest.spyOn(claimer, 'claimTogether').mockImplementationOnce((take, ...rest) => {
      const took = () => {
        const batch = take();
        taken.open();
        return batch;
      };
      return claimTogether(took, ...rest);
    });
    const first = patient.deliver('d-0');
    await taken.wait();
    const second = patient.deliver('d-1');
    let ended = 'nothing';
    void first.then(() => (ended = 'the first'));
    try {
      await until(async () => {
        const rows = await database.query(`SELECT FROM webhook_claim WHERE event_id = 'd-1'`);
        return rows.length === 1;
      });
      // Before the release: the first ends as soon as its key is free.
      expect(ended).toBe('nothing');
    } finally {
      await release();
    }
    expect(kinds([await first, await second])).toEqual(['ok', 'ok']);
    await patient.stop();
    await expectOnce(ids(2));
  });
});

describe('a connection that breaks at the COMMIT of a batch', () => {
  it.each(['before', 'after'] as const)(
    'cut %s the server acted: it is made good on another connection, and each is answered as if nothing had been',
    async (when) => {
      proxy.cutAt('COMMIT', when);
      const answers = await together(events(['a', 'b', 'a', 'c']));
      expect(kinds(answers)).toEqual(['ok', 'ok', 'duplicate', 'ok']);
      expect(proxy.cuts).toBe(1);
      await expectOnce(['a', 'b', 'c']);
    },
  );

  it.each([
    ['before', 'ok'],
    ['after', 'duplicate'],
  ] as const)('and again, cut %s: all are answered 503, and their redeliveries %s', async (when, kind) => {
    proxy.cutAt('COMMIT', when, { times: 2 });
    expect(kinds(await together(events(ids(20))))).toEqual(all('unavailable', 20));
    expect(proxy.cuts).toBe(2);
    expect(kinds(await together(events(ids(20))))).toEqual(all(kind, 20));
    await expectOnce(ids(20));
  });

  it('a connection that is half open is given up, so that claims go on over another', async () => {
    const line = await cuttingProxy(database.url);
    const impatient = await start({ databaseUrl: line.url, webhooks: { claimTimeout: '300ms' } });
    await together(events(ids(5)), impatient);
    line.freeze();
    expect(kinds(await Promise.all(events(['f-1', 'f-2'])(impatient)))).toEqual(all('unavailable', 2));
    await until(async () => kinds([await impatient.deliver('g-1')])[0] !== 'unavailable', 20_000);
    await line.close();
    await impatient.app.close();
    await together(events(['f-1', 'f-2']));
    await expectOnce([...ids(5), 'f-1', 'f-2', 'g-1']);
  });
});

describe('memory', () => {
  it('what waits is bounded in bytes: what is beyond is answered 503 at once, and nothing of it is lost', async () => {
    const small = await start({ webhooks: { byteBudget: 100_000 } });
    const text = 'x'.repeat(30_000);
    const answers = await together(
      (to) => ids(10).map((id) => to.deliver(id, 'grant.made', { text, id })),
      small,
    );
    expect(kinds(answers)).toEqual([...all('ok', 3), ...all('unavailable', 7)]);
    expect(kinds(await Promise.all(events(ids(10))(small)))).toEqual([
      ...all('duplicate', 3),
      ...all('ok', 7),
    ]);
    await small.stop();
  });

  it('deliveries that were answered 503 for want of a connection wait no longer', async () => {
    const impatient = await start({ webhooks: { claimTimeout: '1s' } });
    const giveBack = await holdPool(impatient.dataSource);
    expect(kinds(await Promise.all(events(ids(20))(impatient)))).toEqual(all('unavailable', 20));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await giveBack();
    await until(async () => kinds([await impatient.deliver('later')])[0] === 'ok');
    expect(await database.query(`SELECT event_id FROM webhook_claim`)).toEqual([{ event_id: 'later' }]);
    await impatient.stop();
  });
});

describe('shutdown', () => {
  it('waits for what is queued: it is committed and answered before the pool is closed', async () => {
    const going = await start();
    const giveBack = await holdPool(going.dataSource);
    const answers = Promise.all(events(ids(150))(going));
    await queued();
    const closed = going.app.close();
    await giveBack();
    expect(kinds(await answers)).toEqual(all('ok', 150));
    await closed;
    await expectOnce(ids(150));
  });
});
