import { Injectable } from '@nestjs/common';
import { OnEffect, Outbox, PermanentError, RetryAfter, type SkipStale } from '../../src/index.js';
import { Tally } from '../../src/core/telemetry/tally.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { LEASE_ALONE, leaseDue } from '../../src/storage/outbox.sql.js';
import { qualified } from '../../src/storage/schema/own-schema.js';
import { FAIL } from '../../src/storage/settle.sql.js';
import { NotCommitted } from '../../src/storage/postgres/connection.js';
import { UserTransaction } from '../../src/storage/postgres/user-transaction.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import {
  clear,
  awardeeSource,
  record,
  scripted,
  startInbox,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';
import { cuttingProxy, type CuttingProxy } from './support/proxy.js';

const OK = { status: 200, body: { status: 'ok' } };
const DUPLICATE = { status: 200, body: { status: 'duplicate' } };
const UNAVAILABLE = { status: 503, headers: { 'retry-after': expect.any(String) } };

const SOURCES = {
  own: awardeeSource(),
  waited: awardeeSource({ retries: 'provider' }),
  inline: awardeeSource(),
  'waited-inline': awardeeSource({ retries: 'provider' }),
  both: awardeeSource({ retries: 'provider' }),
  marked: awardeeSource(),
  hopeless: awardeeSource({ retries: 'provider' }),
  batched: awardeeSource({
    eventsPath: 'items',
    idHeader: undefined,
    idPath: 'id',
    typeHeader: undefined,
    typePath: 'type',
  }),
};

const skipStale: SkipStale = {
  key: () => 'one',
  at: ({ payload }) => new Date((payload as { at: string }).at),
};

@Injectable()
class Doubtful {
  @OnEffect('doubtful', { inDoubt: 'park' })
  call(): void {}
}

const script: Partial<Script> = {};
/** Of a handler that is not inline, of the same events as one that is. */
const beside: Partial<Script> = {};
const sent: string[] = [];
let database: TestDatabase;
let proxy: CuttingProxy;
let inbox: TestInbox;

beforeAll(async () => {
  database = await createDatabase();
  proxy = await cuttingProxy(database.url);
  inbox = await startInbox({
    database,
    databaseUrl: proxy.url,
    webhooks: { sources: SOURCES, deadLetterThreshold: 1 },
    providers: [
      scripted(script, { sources: ['own', 'waited', 'batched'] }),
      scripted(script, { sources: ['inline', 'waited-inline'], handler: { inline: true }, effect: false }),
      scripted(script, {
        sources: ['hopeless'],
        handler: { inline: true, classify: () => 'permanent' },
        effect: false,
      }),
      scripted(script, { sources: ['both'], handler: { inline: true }, effect: false }),
      Doubtful,
      scripted(beside, { sources: ['both'], handler: { name: 'beside' }, effect: false }),
      scripted(script, { sources: ['marked'], handler: { skipStale }, effect: false }),
    ],
  });
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
  await clear(inbox.database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(async () => {
  await inbox?.stop();
  await proxy?.close();
  await database?.drop();
});

describe('a COMMIT whose answer never came', () => {
  const cuts = (['before', 'after'] as const).flatMap((when) => [
    { source: 'own', when, skip: 0, times: 1, which: 'the claim' },
    { source: 'own', when, skip: 0, times: 2, which: 'the claim and its second try' },
    { source: 'own', when, skip: 1, times: 1, which: "the handler's run" },
    { source: 'waited', when, skip: 0, times: 1, which: 'the claim' },
    { source: 'waited', when, skip: 0, times: 2, which: 'the claim and its second try' },
    { source: 'waited', when, skip: 1, times: 1, which: "the handler's run" },
    { source: 'inline', when, skip: 0, times: 1, which: 'claim and handler in one' },
    { source: 'waited-inline', when, skip: 0, times: 1, which: 'claim and handler in one' },
  ]);

  it.each(cuts)(
    '$source, $which cut $when the server acted: nothing lost, nothing doubled, and no 2xx without a claim',
    async ({ source, when, skip, times }) => {
      proxy.cutAt('COMMIT', when, { skip, times });
      let answer = await inbox.deliverTo(source, 'd-1');
      for (let again = 0; again < 10 && answer.status !== 200; again += 1) {
        expect(source.startsWith('waited') ? [500, 503] : [503]).toContain(answer.status);
        // The lease of a claim whose COMMIT came through unknown to its process ends at its time.
        await inbox.query(`UPDATE webhook_outbox SET lease_until = now() WHERE leased_by IS NOT NULL`);
        answer = await inbox.deliverTo(source, 'd-1');
      }
      expect(answer.status).toBe(200);
      expect(await inbox.query(`SELECT FROM webhook_claim`)).toHaveLength(1);
      await inbox.settle();
      expect(proxy.cuts).toBe(times);
      expect(await inbox.deliverTo(source, 'd-1')).toMatchObject(DUPLICATE);
      expect(await inbox.query(`SELECT applied_count FROM received_event`)).toEqual([{ applied_count: 1 }]);
      expect(new Set(sent).size).toBe(1);
      expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
    },
  );

  it.each(['before', 'after'] as const)(
    'under own, one cut %s the server acted is made good on another connection: the answer is ok',
    async (when) => {
      proxy.cutAt('COMMIT', when);
      expect(await inbox.deliverTo('own', 'd-1')).toMatchObject(OK);
      expect(proxy.cuts).toBe(1);
      proxy.cutAt('COMMIT', when, { times: 2 });
      expect(await inbox.deliverTo('own', 'd-2')).toMatchObject(UNAVAILABLE);
      expect(await inbox.deliverTo('own', 'd-2')).toMatchObject(when === 'after' ? DUPLICATE : OK);
    },
  );

  it.each([
    ['before', 1, DUPLICATE, 1],
    ['after', 1, DUPLICATE, 1],
    ['before', 2, UNAVAILABLE, 0],
    ['after', 2, UNAVAILABLE, 0],
  ] as const)(
    'of a redelivery, cut %s the server acted (%i of two tries): it is counted once, where the commit is known',
    async (when, times, answer, count) => {
      for (const source of ['own', 'waited']) {
        await inbox.deliverTo(source, 'd-1');
        await inbox.settle();
        inbox.app.get(Tally).drain();
        // Under 'own' the claim's statement has a COMMIT of its own before that of the redelivery.
        proxy.cutAt('COMMIT', when, { times, skip: source === 'own' ? 1 : 0 });
        expect([source, await inbox.deliverTo(source, 'd-1')]).toMatchObject([source, answer]);
        const { metrics } = inbox.app.get(Tally).drain();
        const counted = metrics.filter(({ metric }) => metric === 'duplicates').map(({ value }) => value);
        expect([source, counted]).toEqual([source, count === 0 ? [] : [count]]);
      }
    },
  );

  it('where user code ran in it, nothing is made again: the claim is looked for', async () => {
    let runs = 0;
    script.handle = (event, context) => {
      runs += 1;
      return record(event, context);
    };
    proxy.cutAt('COMMIT', 'after');
    expect(await inbox.deliverTo('inline', 'd-1')).toMatchObject(OK);
    expect(runs).toBe(1);
    proxy.cutAt('COMMIT', 'before');
    expect(await inbox.deliverTo('inline', 'd-2')).toMatchObject(UNAVAILABLE);
    expect(await inbox.query(`SELECT FROM webhook_claim`)).toHaveLength(1);
    expect(runs).toBe(2);
  });

  it('what it leased of the event beside its inline handlers runs under the same delivery', async () => {
    script.handle = record;
    proxy.cutAt('COMMIT', 'after');
    expect(await inbox.deliverTo('both', 'd-1')).toMatchObject(OK);
    expect(proxy.cuts).toBe(1);
    expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
  });

  it.each(['before', 'after'] as const)(
    'of a redelivery that finds no inline handler to run, cut %s the server acted: no 2xx before what is left has run',
    async (when) => {
      script.handle = record;
      beside.handle = () => {
        throw new Error('not now');
      };
      expect(await inbox.deliverTo('both', 'd-1')).toMatchObject({ status: 500 });
      beside.handle = undefined;
      proxy.cutAt('COMMIT', when);
      const answer = await inbox.deliverTo('both', 'd-1');
      expect(proxy.cuts).toBe(1);
      expect(answer).toMatchObject(when === 'after' ? OK : UNAVAILABLE);
      if (when === 'before') expect(await inbox.deliverTo('both', 'd-1')).toMatchObject(OK);
      expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
    },
  );

  it('a dead inline handler is told of when its transaction has committed, and not when it has not', async () => {
    const dead = () => inbox.alerts.filter(({ kind }) => kind === 'dead-letter');
    script.handle = () => {
      throw new PermanentError('no');
    };
    proxy.cutAt('COMMIT', 'before');
    expect(await inbox.deliverTo('inline', 'd-1')).toMatchObject(UNAVAILABLE);
    expect([dead(), await inbox.rows()]).toEqual([[], []]);
    expect(await inbox.deliverTo('inline', 'd-1')).toMatchObject(OK);
    expect(dead()).toHaveLength(1);
    proxy.cutAt('COMMIT', 'after');
    expect(await inbox.deliverTo('inline', 'd-2')).toMatchObject(OK);
    expect(dead()).toHaveLength(2);
    // Counted after the commit: the one that reaches the threshold is seen.
    await until(() => inbox.alerts.some(({ kind }) => kind === 'dead-letters'));
  });

  it('an inline handler that the lease makes dead is acknowledged when that has been committed', async () => {
    script.handle = () => {
      throw new Error('not now');
    };
    for (let attempt = 1; attempt <= 5; attempt += 1)
      expect(await inbox.deliverTo('waited-inline', 'd-1')).toMatchObject({ status: 500 });
    proxy.cutAt('COMMIT', 'before');
    expect(await inbox.deliverTo('waited-inline', 'd-1')).toMatchObject(UNAVAILABLE);
    expect(await inbox.rows()).toMatchObject([{ state: 'pending' }]);
    expect(await inbox.deliverTo('waited-inline', 'd-1')).toMatchObject(OK);
    expect(await inbox.rows()).toMatchObject([{ state: 'dead' }]);
  });

  it.each([
    ['after', 'done'],
    ['before', 'retried'],
  ] as const)('of a handler that the relay runs, cut %s the server acted: %s', async (when, outcome) => {
    await inbox.deliverTo('own', 'd-1');
    proxy.cutAt('COMMIT', when);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, [outcome]: 1 });
    expect(proxy.cuts).toBe(1);
    await inbox.settle();
    expect(await inbox.query(`SELECT applied_count FROM received_event`)).toEqual([{ applied_count: 1 }]);
    expect(sent).toHaveLength(1);
  });
});

it('a run that something newer came before ends superseded, also when the answer of its COMMIT never came', async () => {
  await inbox.deliverTo('marked', 'd-2', { at: '2026-01-02' });
  await inbox.settle();
  await inbox.deliverTo('marked', 'd-1', { at: '2026-01-01' });
  proxy.cutAt('COMMIT', 'after');
  expect(await inbox.relay.tick()).toMatchObject({ leased: 1, superseded: 1, lost: 0 });
  expect(proxy.cuts).toBe(1);
  expect(await inbox.query(`SELECT event_id FROM received_event`)).toEqual([{ event_id: 'd-2' }]);
});

describe('the record of a failure whose answer never came', () => {
  it.each([
    ['dead', 'before'],
    ['dead', 'after'],
    ['retried', 'before'],
    ['retried', 'after'],
  ] as const)('%s, cut %s the server acted: recorded once, and told of', async (outcome, when) => {
    script.handle = () => {
      throw outcome === 'dead' ? new PermanentError('no') : new RetryAfter(3_600_000, 'not now');
    };
    await inbox.deliverTo('own', 'd-1');
    const before = inbox.alerts.length;
    proxy.cutAt(qualified(inbox.dataSource, FAIL), when);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, lost: 0, [outcome]: 1 });
    expect(proxy.cuts).toBe(1);
    expect(await inbox.rows()).toMatchObject([
      { state: outcome === 'dead' ? 'dead' : 'pending', attempt: 1 },
    ]);
    expect(inbox.alerts.slice(before).filter(({ kind }) => kind === 'dead-letter')).toHaveLength(
      outcome === 'dead' ? 1 : 0,
    );
  });
});

describe('what was made dead or parked by a statement whose answer never came is told of once', () => {
  const told = () =>
    inbox.alerts.flatMap((alert) =>
      alert.kind === 'dead-letter' || alert.kind === 'parked' ? [`${alert.kind} ${alert.reason}`] : [],
    );
  /** Those told by rounds of the keeper, and by whatever runs beside them. */
  const toldLater = async () => {
    for (let round = 0; round < 3; round += 1) {
      await inbox.relay.tick();
      await inbox.app.get(DeskKeeper).round();
    }
    return told();
  };
  /** A round has a look for each kind of work, with one text: the one that has found the row is cut. */
  const loseLease = async (sql: string) => {
    const died = () => inbox.rows(`state IN ('dead', 'parked')`);
    for (let skip = 0; skip < 4 && (await died()).length === 0; skip += 1) {
      proxy.cutAt(qualified(inbox.dataSource, sql), 'after', { skip });
      await inbox.relay.tick().catch(() => undefined);
    }
    expect(await died()).toHaveLength(1);
  };
  beforeEach(() => inbox.alerts.splice(0));

  it.each([
    ['a handler', `kind = 'handler'`, leaseDue(10), 'dead-letter attempts-exhausted'],
    ['an effect', `kind = 'effect'`, leaseDue(100), 'dead-letter attempts-exhausted'],
    ['a handler in the lane', `kind = 'handler'`, LEASE_ALONE, 'dead-letter last-attempt-lost'],
  ])('%s, by the lease', async (_, kind, sql, alert) => {
    script.effect = () => Promise.reject(new RetryAfter(3_600_000, 'not now'));
    await inbox.deliverTo('own', 'd-1');
    await inbox.deliverTo('own', 'd-2');
    if (kind.includes('effect')) await inbox.relay.tick();
    await inbox.query(
      `UPDATE webhook_outbox SET attempt = 99, due_at = now(), lease_until = now(), alone = $1, leased_by = CASE WHEN $1 THEN gen_random_uuid() END
        WHERE ${kind} AND event_id = 'd-1'`,
      [sql === LEASE_ALONE],
    );
    await loseLease(sql);
    expect(told()).toEqual([]);
    expect(await toldLater()).toEqual([alert]);
  });

  it('an effect in doubt, by the lease', async () => {
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'doubtful', {}, { outsideTransaction: true });
    await inbox.query(
      `UPDATE webhook_outbox SET attempt = 99, due_at = now(), lease_until = now(), leased_by = gen_random_uuid(), begun_at = now()`,
    );
    await loseLease(leaseDue(100));
    expect(told()).toEqual([]);
    expect(await toldLater()).toEqual(['parked in-doubt']);
  });

  it('a handler, by the lease of a redelivery', async () => {
    script.handle = () => {
      throw new Error('not now');
    };
    for (let attempt = 1; attempt <= 5; attempt += 1) await inbox.deliverTo('waited', 'd-1');
    proxy.cutAt('COMMIT', 'after');
    await inbox.deliverTo('waited', 'd-1');
    expect([proxy.cuts, await inbox.rows()]).toMatchObject([1, [{ state: 'dead' }]]);
    expect(await toldLater()).toEqual(['dead-letter attempts-exhausted']);
  });

  it('an inline handler, by the lease of a redelivery', async () => {
    script.handle = () => {
      throw new Error('not now');
    };
    for (let attempt = 1; attempt <= 5; attempt += 1) await inbox.deliverTo('waited-inline', 'd-1');
    proxy.cutAt('COMMIT', 'after');
    await inbox.deliverTo('waited-inline', 'd-1');
    expect([proxy.cuts, await inbox.rows()]).toMatchObject([1, [{ state: 'dead' }]]);
    expect(await toldLater()).toEqual(['dead-letter attempts-exhausted']);
  });

  it('an inline handler whose claim was made afresh', async () => {
    script.handle = async (_, { manager }) => {
      await manager.query('SELECT pg_terminate_backend(pg_backend_pid())');
    };
    proxy.cutAt('COMMIT', 'after');
    await inbox.deliverTo('hopeless', 'd-1');
    expect([proxy.cuts, await inbox.rows()]).toMatchObject([1, [{ state: 'dead' }]]);
    expect(await toldLater()).toEqual(['dead-letter permanent-error']);
  });

  it('an item without a usable id, by its claim', async () => {
    const items = {
      items: [
        { id: 'd-1', type: 'made' },
        { id: null, type: 'made' },
      ],
    };
    proxy.cutAt('COMMIT', 'after', { times: 2 });
    expect(await inbox.deliverTo('batched', 'delivery', items)).toMatchObject(UNAVAILABLE);
    expect(await inbox.deliverTo('batched', 'delivery', items)).toMatchObject(DUPLICATE);
    expect(await toldLater()).toEqual(['dead-letter unusable-id']);
  });
});

describe('a COMMIT that was answered', () => {
  const run = (work: (transaction: UserTransaction) => Promise<void>) =>
    UserTransaction.run(inbox.dataSource, { timeoutMs: 5_000, onMisuse: () => undefined }, work);

  it('with ROLLBACK, since a query failed and nobody said so: the run has failed, and nothing of it is lent again', async () => {
    const backends: unknown[] = [];
    const failed = run(async (transaction) => {
      backends.push((await transaction.query('SELECT pg_backend_pid() AS pid'))[0]!.pid);
      await transaction.query(
        `INSERT INTO received_event (source, event_id, event_type) VALUES ('a', 'b', 'c')`,
      );
      await transaction.asOurs((manager) => manager.query('SELECT 1 / 0')).catch(() => undefined);
    });
    const error: unknown = await failed.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NotCommitted);
    expect(error).toMatchObject({
      inDoubt: false,
      code: 'TRANSACTION_NOT_COMMITTED',
      message: expect.stringMatching(
        /^COMMIT was answered ROLLBACK: .* swallowed: SELECT 1 \/ 0: division by zero; .* manager\.transaction\(\)/,
      ),
    });
    expect(await inbox.query(`SELECT FROM received_event`)).toEqual([]);
    await expectNoLeak(poolOf(inbox.dataSource));
    const [{ pid }] = await inbox.dataSource.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid');
    // TypeORM's own way ends the transaction and gives the connection back: nothing of it is open.
    if (process.env.CLAIMS !== 'typeorm') expect(backends).not.toContain(pid);
  });

  it('with an error of a deferred constraint: no doubt about it, and permanent as the constraint is', async () => {
    await inbox.query(`CREATE TABLE IF NOT EXISTS parent (id int PRIMARY KEY)`);
    await inbox.query(
      `CREATE TABLE IF NOT EXISTS child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`,
    );
    script.handle = (_, { manager }) => manager.query(`INSERT INTO child VALUES (1)`);
    await inbox.deliverTo('own', 'd-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await inbox.rows()).toMatchObject([
      { state: 'dead', reason: 'permanent-error', attempt: 1, error: expect.stringContaining('foreign key') },
    ]);
  });
});
