import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { LEASE_ALONE, LEASE_EVENT, leaseDue } from '../../src/storage/outbox.sql.js';
import type { LeasedRow } from '../../src/storage/leased-rows.js';
import { AttemptStore } from '../../src/storage/desk/attempt.store.js';
import { DecisionStore } from '../../src/storage/desk/decision.store.js';
import { ErasureStore } from '../../src/storage/desk/erasure.store.js';
import { ReplayStore } from '../../src/storage/desk/replay.store.js';
import { ONE_PLAN } from '../../src/storage/postgres/one-message.js';
import { TakeoverStore } from '../../src/storage/postgres/takeover.store.js';
import { OutboxStore, type RunnableName } from '../../src/storage/outbox.store.js';
import { SettleStore } from '../../src/storage/settle.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import type { OutboxRow } from './support/inbox.js';

const NAME = 'mail';
const store = new OutboxStore();
const settles = new SettleStore();
let database: TestDatabase;
let manager: EntityManager;

beforeAll(async () => {
  database = await createDatabase();
  ({ manager } = database.dataSource);
});
afterEach(() =>
  database.query(`TRUNCATE webhook_claim, webhook_outbox, webhook_outbox_data, webhook_attempt`),
);
afterAll(() => database?.drop());

describe('a lease', () => {
  it('case 13 takes exactly its limit, also when the plan is a nested loop', async () => {
    await addRows(1_000);
    const runner = database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      for (const off of ['hashjoin', 'mergejoin', 'material', 'memoize', 'bitmapscan'])
        await runner.query(`SET LOCAL enable_${off} = off`);
      expect(await lease(5, { manager: runner.manager })).toHaveLength(5);
    } finally {
      await runner.commitTransaction();
      await runner.release();
    }
    expect(await rows('leased_by IS NOT NULL')).toHaveLength(5);
  });

  it('is held by one process only: 8 at once share 200 rows, and each row is had once', async () => {
    await addRows(200);
    const taken: string[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const owner = randomUUID();
        for (;;) {
          const some = await lease(7, { owner });
          if (some.length === 0) return;
          taken.push(...some.map((row) => row.id));
        }
      }),
    );
    expect(taken).toHaveLength(200);
    expect(new Set(taken).size).toBe(200);
  });

  it('passes over a row that is locked, and does not wait for it', async () => {
    await addRows(2);
    const locking = database.dataSource.createQueryRunner();
    await locking.startTransaction();
    try {
      const [locked] = (await locking.query(
        `SELECT id FROM webhook_outbox ORDER BY due_at LIMIT 1 FOR UPDATE`,
      )) as { id: string }[];
      const leased = await manager.transaction(async (limited) => {
        await limited.query(`SET LOCAL lock_timeout = '2s'`);
        return (await store.lease(limited, randomUUID(), 30_000, [name()], 10)).leased;
      });
      expect(leased).toHaveLength(1);
      expect(leased[0]!.id).not.toBe(locked!.id);
    } finally {
      await locking.rollbackTransaction();
      await locking.release();
    }
  });

  it('writes to no index, no more than its renewal and its release do', async () => {
    await addRows(4);
    const runner = database.dataSource.createQueryRunner();
    const counts = async () =>
      (
        (await runner.query(
          `SELECT pg_stat_get_xact_tuples_updated(oid)::int AS all, pg_stat_get_xact_tuples_hot_updated(oid)::int AS hot
             FROM pg_class WHERE oid = 'webhook_outbox'::regclass`,
        )) as [{ all: number; hot: number }]
      )[0];
    await runner.startTransaction();
    try {
      const before = await counts();
      const rows = await lease(4, { manager: runner.manager });
      await store.renew(runner.manager, rows, 60_000);
      expect(await store.begin(runner.manager, rows[0]!)).toBe(true);
      await store.release(runner.manager, rows);
      const after = await counts();
      expect([after.all - before.all, after.hot - before.hot]).toEqual([13, 13]);
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  });

  it('R19 counts the attempt before the run, and takes what is due in the order of due times', async () => {
    await addRows(3);
    await database.query(`UPDATE webhook_outbox SET due_at = now() - interval '2 hours' WHERE key = '2'`);
    expect((await lease(1)).map(({ key, attempt, tries }) => ({ key, attempt, tries }))).toEqual([
      { key: '2', attempt: 1, tries: 1 },
    ]);
    await database.query(
      `UPDATE webhook_outbox SET due_at = now() + interval '1 hour' WHERE leased_by IS NULL AND key = '1'`,
    );
    expect((await lease(10)).map((row) => row.key)).toEqual(['3']);
  });

  it('case 14 that has ended brings its row into the lane, where anyone takes it, counted as lost; one that lives does not', async () => {
    await addRows(3);
    const [first] = await lease(1);
    expect((await lease(1)).map((row) => row.id)).not.toContain(first!.id);
    await database.query(`UPDATE webhook_outbox SET lease_until = now() WHERE id = $1`, [first!.id]);
    expect(await store.lease(manager, randomUUID(), 30_000, [name()], 10)).toMatchObject({
      leased: [{ key: '3', alone: false }],
      moved: 1,
    });
    expect(await leaseAlone()).toMatchObject({
      leased: [{ id: first!.id, attempt: 2, lost: 1, alone: true }],
    });
    expect(await leaseAlone()).toMatchObject({ leased: [], exhausted: [] });
  });

  it('never gives an effect more attempts than it has: one that is exhausted is dead at the lease, and not run', async () => {
    await addRows(1);
    await lease(1, { maxAttempts: 2 });
    await endLeases();
    expect(await lease(1, { maxAttempts: 2 })).toMatchObject([{ tries: 2 }]);
    await endLeases();
    const result = await leaseAlone({ maxAttempts: 2 });
    expect(result).toMatchObject({ leased: [], exhausted: [{ attempt: 2, reason: 'last-attempt-lost' }] });
    expect(await rows()).toMatchObject([
      {
        state: 'dead',
        reason: 'last-attempt-lost',
        attempt: 2,
        leased_by: null,
        settled_at: expect.any(Date),
      },
    ]);
    // With a single attempt the first loss is the last: its call may have been made.
    await addRows(1, 'once');
    const once = name({ name: 'once', maxAttempts: 1 });
    await store.lease(manager, randomUUID(), 30_000, [once], 1);
    await endLeases();
    expect(await store.lease(manager, randomUUID(), 30_000, [once], 1)).toMatchObject({
      leased: [],
      exhausted: [{ attempt: 1, reason: 'last-attempt-lost' }],
      moved: 0,
    });
  });

  it('tells a row whose attempts were failures from one whose process was lost', async () => {
    await addRows(1);
    const [row] = await lease(1);
    await settles.fail(manager, row!, { state: 'pending', delayMs: 0 }, 'no');
    const { exhausted } = await store.lease(manager, randomUUID(), 1_000, [name({ maxAttempts: 1 })], 10);
    expect(exhausted).toMatchObject([{ reason: 'attempts-exhausted', error: 'no' }]);
  });

  it('touches no row of a name that this process does not know', async () => {
    await addRows(3, 'theirs');
    await addRows(1);
    const before = await rows(`name = 'theirs'`);
    expect(await lease(10)).toHaveLength(1);
    expect(await rows(`name = 'theirs'`)).toEqual(before);
  });

  it('takes no more of one name than that name may run', async () => {
    await addRows(5, 'narrow');
    await addRows(5);
    const names = [name({ name: 'narrow', limit: 2 }), name()];
    const { leased } = await store.lease(manager, randomUUID(), 30_000, names, 10);
    expect(leased.filter((row) => row.name === 'narrow')).toHaveLength(2);
    expect(leased).toHaveLength(7);
  });

  it.each([
    [[1, 1, 1], 20],
    [[2, 5, 9], 9],
    [[1, 4, 9], 6],
    [[3, 3, 12], 12],
  ])(
    'never gives a share more than its limits, and all that they allow: %j of %i',
    async (shareLimits, limit) => {
      const names = shareLimits.map((shareLimit, nth) =>
        name({ name: `name-${nth}`, limit: shareLimit, share: 'one', shareLimit }),
      );
      for (const one of names) await addRows(12, one.name);
      const { leased } = await store.lease(manager, randomUUID(), 30_000, names, limit);
      for (const most of shareLimits) {
        const narrow = names.filter((one) => one.shareLimit! <= most).map((one) => one.name);
        expect(leased.filter((row) => narrow.includes(row.name)).length).toBeLessThanOrEqual(most);
      }
      expect(leased).toHaveLength(Math.min(limit, Math.max(...shareLimits)));
    },
  );

  it('tells which names have due rows, those too of which it takes none', async () => {
    const names = Array.from({ length: 40 }, (_, nth) => name({ name: `name-${nth}`, limit: 2 }));
    const busy = names.slice(0, 20).map((one) => one.name);
    for (const one of busy) await addRows(3, one);
    const { leased, seen } = await store.lease(manager, randomUUID(), 30_000, names, 10);
    expect(leased).toHaveLength(10);
    expect([...seen].sort()).toEqual(busy.sort());
    expect((await store.lease(manager, randomUUID(), 30_000, [name()], 10)).seen.size).toBe(0);
  });
});

describe('the lane of rows with a lost attempt', () => {
  beforeEach(() => addRows(1, NAME, 'pending', 'handler'));

  it('a handler that was lost among others is not dead of that, and is when the losses in the lane use its attempts up', async () => {
    await lease(1, { maxAttempts: 1 });
    await endLeases();
    expect(await lease(1, { maxAttempts: 1 })).toMatchObject([
      { attempt: 2, tries: 1, alone: true, wasLost: false },
    ]);
    await endLeases();
    expect(await leaseAlone({ maxAttempts: 1 })).toMatchObject({
      leased: [],
      exhausted: [{ attempt: 2, reason: 'last-attempt-lost' }],
    });
    expect(await rows()).toMatchObject([{ state: 'dead', lost: 2 }]);
  });

  it('tells a row that was lost again in the lane from one that has just come there', async () => {
    await lease(1);
    await endLeases();
    expect(await lease(1)).toMatchObject([{ alone: true, wasLost: false }]);
    await endLeases();
    expect(await leaseAlone()).toMatchObject({ leased: [{ alone: true, wasLost: true, lost: 2 }] });
  });

  it('is worked off in the order in which leases ended: one that is lost again, and one that has come later, goes behind those that wait', async () => {
    await addRows(3, NAME, 'pending', 'handler');
    const endLease = ({ id }: LeasedRow) =>
      database.query(
        `UPDATE webhook_outbox SET lease_until = clock_timestamp(), due_at = least(due_at, clock_timestamp()) WHERE id = $1`,
        [id],
      );
    // Three that were in the hands of a process that died; one of them is lost each time that it runs.
    const [poison, second, third, late] = (await lease(4)) as [LeasedRow, LeasedRow, LeasedRow, LeasedRow];
    for (const row of [poison, second, third]) await endLease(row);
    expect(await lease(4)).toMatchObject([{ id: poison.id }]);
    await endLease(poison);
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: second.id }] });
    await endLease(late);
    expect(await store.lease(manager, randomUUID(), 30_000, [name()], 10)).toMatchObject({ moved: 1 });
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: third.id }] });
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: poison.id, wasLost: true }] });
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: late.id }] });
  });

  it('is not run twice: a renewed lease outlives the place in the line', async () => {
    await lease(1);
    await endLeases();
    const [row] = await lease(1);
    await store.renew(manager, [row!], 60_000);
    await database.query(`UPDATE webhook_outbox SET due_at = now()`);
    expect(await leaseAlone()).toMatchObject({ leased: [], exhausted: [] });
  });

  it('and the rows beside it go on at once when the instance that holds them is gone', async () => {
    await addRows(1);
    const owner = randomUUID();
    await lease(1, { owner });
    await endLeases();
    const [alone] = await lease(1, { owner });
    const [beside] = await lease(1, { owner });
    expect(beside).toMatchObject({ alone: false });
    await store.renew(manager, [alone!, beside!], 60_000);
    await database.query(
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, lock_key)
       VALUES ($1, 'gone', 1, 'v22', true, true, 0, $2, 385668)`,
      [owner, [NAME]],
    );
    const session = {
      query: <T>(sql: string, values?: readonly unknown[]) => manager.query<T[]>(sql, [...(values ?? [])]),
    };
    const takeovers = new TakeoverStore(database.dataSource);
    expect(await takeovers.take(session, { owner, key: '385668' })).toBe(2);
    expect(await takeovers.take(session, { owner, key: '385668' })).toBe(0);
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: alone!.id, wasLost: true }] });
    expect(await store.lease(manager, randomUUID(), 30_000, [name()], 10)).toMatchObject({ moved: 1 });
    expect(await leaseAlone()).toMatchObject({ leased: [{ id: beside!.id }] });
  });

  it('is left with the first end that is recorded, and the loss among others is forgiven', async () => {
    await lease(1);
    await endLeases();
    const [row] = await lease(1);
    expect(await settles.fail(manager, row!, { state: 'pending', delayMs: 0 }, 'no')).toBe(true);
    expect(await store.lease(manager, randomUUID(), 30_000, [name()], 10)).toMatchObject({
      leased: [{ attempt: 3, tries: 2, alone: false }],
    });
    expect(await rows('alone')).toEqual([]);
  });

  it('is not left by a release: the run has not begun', async () => {
    await lease(1);
    await endLeases();
    const [row] = await lease(1);
    expect(await store.release(manager, [row!])).toBe(1);
    expect(await leaseAlone()).toMatchObject({
      leased: [{ attempt: 3, tries: 1, alone: true, wasLost: false }],
    });
  });

  it('is left by a row that is done', async () => {
    await lease(1);
    await endLeases();
    const [row] = await lease(1);
    expect(await settles.settle(manager, row!, undefined)).toBe(true);
    expect(await rows('alone')).toEqual([]);
  });
});

describe('the history of a row', () => {
  const attempts = new AttemptStore();
  const history = async (id: string) =>
    (await attempts.of(manager, [id])).map(({ attempt, outcome, error, place, by }) =>
      [attempt, outcome, error, place, by].filter((part) => part !== null).join(' '),
    );
  const one = async (kind: 'handler' | 'effect' = 'effect') => {
    await addRows(1, NAME, 'pending', kind);
    return (await rows())[0]!.id;
  };
  const retry = { state: 'pending', delayMs: 0 } as const;

  it('writes nothing for what succeeds at once, and has it all the same', async () => {
    const id = await one();
    const [row] = await lease(1);
    expect(await history(id)).toEqual(['1 running']);
    await settles.settle(manager, row!, '"sent"');
    expect(await database.query(`SELECT * FROM webhook_attempt`)).toEqual([]);
    expect(await attempts.of(manager, [id])).toMatchObject([
      {
        attempt: 1,
        outcome: 'done',
        begunAt: expect.any(Date),
        endedAt: expect.any(Date),
        instance: row!.owner,
      },
    ]);
  });

  it('keeps every failure with its error and place, by whom it was run, after the success', async () => {
    const id = await one();
    const owner = randomUUID();
    await database.query(
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, build)
       VALUES ($1, 'box', 7, '22', true, true, 0, '{}', 'v42')`,
      [owner],
    );
    const [first] = await lease(1, { owner });
    await settles.fail(manager, first!, retry, 'no', false, false, 'src/mail.ts:7:1');
    expect(await rows()).toMatchObject([{ error: 'no', place: 'src/mail.ts:7:1' }]);
    const [second] = await lease(1);
    await settles.settle(manager, second!, undefined);
    expect(await history(id)).toEqual(['1 retry no src/mail.ts:7:1', '2 done']);
    expect(await attempts.of(manager, [id])).toMatchObject([
      { instance: owner, host: 'box:7', build: 'v42', begunAt: expect.any(Date) },
      { instance: second!.owner, host: null },
    ]);
    expect(await rows()).toMatchObject([{ error: null, place: null }]);
    await database.query(`DELETE FROM webhook_relay`);
  });

  it('keeps a loss, the death after it, the revival, and the attempts after that', async () => {
    const id = await one();
    await lease(1, { maxAttempts: 2 });
    await endLeases();
    const [second] = await lease(1, { maxAttempts: 2 });
    await settles.fail(manager, second!, { state: 'dead', reason: 'permanent-error' }, 'no');
    await new DecisionStore().revive(manager, [id], [], { by: 'ada', reason: 'mended' });
    const [third] = await lease(1);
    await store.release(manager, [third!], { running: true });
    const [fourth] = await lease(1);
    await settles.fail(manager, fourth!, { state: 'parked', reason: 'in-doubt' }, 'unknown');
    expect(await history(id)).toEqual([
      '1 lost',
      '2 dead no',
      '2 revived ada',
      '3 released',
      '4 parked unknown',
    ]);
  });

  it('keeps the lost attempt of a row that the lease makes dead, and of one that is lost in the lane', async () => {
    const id = await one();
    await lease(1, { maxAttempts: 2 });
    await endLeases();
    await lease(1, { maxAttempts: 2 });
    await endLeases();
    expect((await leaseAlone({ maxAttempts: 2 })).exhausted).toHaveLength(1);
    expect(await history(id)).toEqual(['1 lost', '2 lost']);
  });

  it('keeps the success that a replay overwrites, and loses its errors with an erasure', async () => {
    const id = await one('handler');
    const [first] = await lease(1);
    await settles.settle(manager, first!, undefined);
    expect(
      await new ReplayStore().replayRow(manager, id, false, 'refuse', { by: 'ada', reason: 'again' }),
    ).toBe(0);
    const [second] = await lease(1);
    await settles.fail(manager, second!, retry, 'name of a person');
    expect(await history(id)).toEqual(['1 done', '1 replayed ada', '2 retry name of a person']);
    await new ErasureStore().eraseData(manager, [id]);
    expect(await history(id)).toEqual(['1 done', '1 replayed ada', '2 retry']);
  });
});

describe('the fence', () => {
  let zombie: LeasedRow;
  let holder: LeasedRow;

  beforeEach(async () => {
    await addRows(1);
    [zombie] = (await lease(1)) as [LeasedRow];
    await endLeases();
    [holder] = (await lease(1)) as [LeasedRow];
  });

  it('lets nothing through that a process does whose lease has ended', async () => {
    const before = await rows();
    expect(await settles.settle(manager, zombie, '"late"')).toBe(false);
    expect(await settles.fail(manager, zombie, { state: 'pending', delayMs: 0 }, 'late')).toBe(false);
    expect(await settles.fail(manager, zombie, { state: 'dead', reason: 'permanent-error' }, 'late')).toBe(
      false,
    );
    expect(await settles.settleMany(manager, [{ lease: zombie, result: '"late"' }])).toEqual(new Set());
    expect(await settles.supersede(manager, zombie)).toBe(false);
    expect(await settles.refuseRerun(manager, zombie, [], 'late')).toBe(false);
    expect(await store.begin(manager, zombie)).toBe(false);
    await store.excuse(manager, zombie);
    expect(await store.release(manager, [zombie])).toBe(0);
    expect(await store.renew(manager, [zombie], 30_000)).toEqual(new Set());
    expect(await rows()).toEqual(before);
    expect(await settles.settle(manager, holder, '"mine"')).toBe(true);
    expect(await database.query(`SELECT result FROM webhook_outbox_data`)).toEqual([{ result: '"mine"' }]);
  });

  it('lets a settled row be, whoever settles it again', async () => {
    await settles.settle(manager, holder, '"mine"');
    const before = await rows();
    for (const lease of [holder, zombie]) {
      expect(await settles.settle(manager, lease, '"again"')).toBe(false);
      expect(await settles.fail(manager, lease, { state: 'pending', delayMs: 0 }, 'again')).toBe(false);
      expect(await settles.fail(manager, lease, { state: 'dead', reason: 'permanent-error' }, 'again')).toBe(
        false,
      );
      expect(await settles.settleMany(manager, [{ lease, result: '"again"' }])).toEqual(new Set());
      expect(await settles.supersede(manager, lease)).toBe(false);
      expect(await settles.refuseRerun(manager, lease, [], 'again')).toBe(false);
      expect(await store.begin(manager, lease)).toBe(false);
      await store.excuse(manager, lease);
      expect(await store.release(manager, [lease])).toBe(0);
      expect(await store.renew(manager, [lease], 30_000)).toEqual(new Set());
    }
    expect(await rows()).toEqual(before);
    expect(await database.query(`SELECT result FROM webhook_outbox_data`)).toEqual([{ result: '"mine"' }]);
  });

  it('refuses a second settle of one attempt: a failure that was recorded is not undone by a late success', async () => {
    expect(await settles.fail(manager, holder, { state: 'pending', delayMs: 0 }, 'no')).toBe(true);
    expect(await settles.settle(manager, holder, '"late"')).toBe(false);
    expect(await settles.fail(manager, holder, { state: 'dead', reason: 'permanent-error' }, 'late')).toBe(
      false,
    );
    expect(await rows()).toMatchObject([{ state: 'pending', leased_by: null, error: 'no' }]);
  });

  it('tells the attempts of one process apart', async () => {
    await endLeases();
    const [again] = (await leaseAlone({ owner: holder.owner })).leased;
    expect(again).toMatchObject({ owner: holder.owner, attempt: 3 });
    expect(await settles.settle(manager, holder, undefined)).toBe(false);
    expect(await settles.settle(manager, again!, undefined)).toBe(true);
  });

  it('holds in a batch as it does for one row: renewals and releases tell which are still ours', async () => {
    await addRows(3);
    const mine = await lease(10, { owner: randomUUID() });
    expect(await store.renew(manager, [zombie, ...mine], 30_000)).toEqual(new Set(mine.map((row) => row.id)));
    expect(await store.release(manager, [zombie, ...mine])).toBe(3);
    expect(await rows('leased_by IS NOT NULL')).toMatchObject([{ id: holder.id }]);
  });
});

describe('attempts', () => {
  it('never decrease: a release is excused, and the next lease is another attempt', async () => {
    await addRows(1);
    const [row] = await lease(1);
    await store.release(manager, [row!]);
    expect(await rows()).toMatchObject([{ attempt: 1, attempt_base: 1, leased_by: null }]);
    expect(await lease(1)).toMatchObject([{ attempt: 2, tries: 1, lost: 0 }]);
  });
});

describe('renewals', () => {
  it('in opposite orders at once never deadlock, and never wait for a row that is being settled', async () => {
    await addRows(40);
    const mine = await lease(40);
    const runner = database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      await settles.settle(runner.manager, mine[0]!, undefined);
      for (let round = 0; round < 20; round += 1) {
        const renewed = await Promise.all([
          store.renew(manager, mine, 30_000),
          store.renew(manager, mine.toReversed(), 30_000),
        ]);
        for (const ours of renewed) expect(ours.size).toBe(40);
      }
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  });
});

describe('the plan of the lease', () => {
  const ROWS = 300_000;
  const HOT = 100_000;

  it('walks webhook_outbox_due and reads no row that it does not take, at 0, 20 and 300,000 rows, whatever the statistics', async () => {
    await database.query(`ALTER TABLE webhook_outbox SET (autovacuum_enabled = off)`);
    // So small a table is read from end to end; what matters is that the index serves the statement at all.
    await analyze();
    expectIndexed(await explain('SET LOCAL enable_seqscan = off'), 0);
    await addRows(20);
    // What is in quarantine stands in front, out of its sight too.
    await database.query(`UPDATE webhook_outbox SET alone = true WHERE key::int <= 5`);
    expectIndexed(await explain('SET LOCAL enable_seqscan = off'));
    // With the statistics of an empty table.
    await addRows(ROWS / 2, NAME, 'done');
    await addRows(ROWS / 2);
    expectIndexed(await explain());
    // The backlog of a hot key is out of its sight.
    await addRows(HOT, NAME, 'pending', 'effect', 'hot');
    expectIndexed(await explain());
    // A generic plan: no value of a parameter is known.
    expectIndexed(await explain('SET LOCAL plan_cache_mode = force_generic_plan', true));
    await analyze();
    expectIndexed(await explain());
    // With the statistics of a table that was full of work, when nearly all of it is done; and the other way round.
    await database.query(
      `UPDATE webhook_outbox SET state = 'done', settled_at = now() WHERE state = 'pending' AND key > '2'`,
    );
    expectIndexed(await explain());
    await analyze();
    await addRows(1_000, 'theirs');
    await addRows(20_000);
    expectIndexed(await explain());
    // The other two leases, on the same table: none of them looks at what is merely due.
    const lane = [randomUUID(), 30_000, [NAME, 'other'], [20, 20], [false, false]];
    const event = [randomUUID(), 30_000, 'awardee', '', '7', [NAME], [20]];
    for (const statistics of ['stale', 'fresh']) {
      if (statistics === 'fresh') await analyze();
      for (const [sql, values, index] of [
        [LEASE_ALONE, lane, 'webhook_outbox_alone'],
        [LEASE_EVENT, event, 'webhook_outbox_pkey'],
      ] as const) {
        const read = reads(await explainOf(sql, values));
        expect(read.map((node) => node['Index Name'])).toContain(index);
        expect(read.map((node) => node['Node Type'])).not.toContain('Seq Scan');
        expect(read.map((node) => node['Index Name'])).not.toContain('webhook_outbox_due');
      }
    }
    // Just emptied, so that the statistics know of no row at all.
    await database.query(`DELETE FROM webhook_outbox`);
    await database.query(`VACUUM ANALYZE webhook_outbox`);
    await addRows(20_000);
    for (const generic of [false, true]) expectIndexed(await explain(ONE_PLAN.sql, generic));
    // What is leased stands in front of what is due, and is stepped over.
    await lease(50);
    const walked = reads(await explain(ONE_PLAN.sql)).filter(
      (node) => node['Index Name'] === 'webhook_outbox_due',
    );
    expect(walked.map((node) => (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops'])).toEqual([50]);
  }, 120_000);

  it('of the rows of an event is by their ids, on a full, an empty and a just emptied table', async () => {
    await database.query(`ALTER TABLE webhook_outbox SET (autovacuum_enabled = off)`);
    const claims = (from: number, to: number) =>
      database.query(
        `INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers)
         SELECT 'awardee', '', 'e' || i, ('01900000-' || lpad(to_hex(i / 3), 4, '0') || '-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid,
                't', 'delivery', 'x', 1, '{}' FROM generate_series($1::int, $2::int) i`,
        [from, to],
      );
    // Claims of one moment, three at a time: their rows' ids begin alike.
    const fill = () =>
      database.query(
        `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
         SELECT overlay(overlay(id::text PLACING '8' FROM 15) PLACING to_hex(10 + nth) FROM 20 FOR 1)::uuid, 'handler', 'n' || nth,
                source, tenant, event_id
           FROM webhook_claim CROSS JOIN generate_series(1, 2) nth`,
      );
    const READ = `SELECT pg_stat_get_xact_numscans(oid)::int AS walks, pg_stat_get_xact_tuples_fetched(oid)::int AS fetched
                    FROM pg_class WHERE oid = 'webhook_outbox'::regclass`;
    const looked = () =>
      manager.transaction(async (inside) => {
        const [before] = await inside.query<[{ walks: number; fetched: number }]>(READ);
        const [{ found }] = await inside.query<[{ found: number[] }]>(
          `SELECT array_agg(DISTINCT found) AS found FROM (
             SELECT cardinality(webhook_rows_of(source, tenant, event_id)) AS found FROM webhook_claim LIMIT 200) looked`,
        );
        const [after] = await inside.query<[{ walks: number; fetched: number }]>(READ);
        return { found, walks: after.walks - before.walks, fetched: after.fetched - before.fetched };
      });
    await claims(1, 300);
    expect(await looked()).toMatchObject({ found: [0], walks: 0 });
    await claims(301, 9_000);
    await fill();
    for (const statistics of ['stale', 'fresh']) {
      if (statistics === 'fresh') await database.query(`ANALYZE webhook_outbox, webhook_claim`);
      const { found, walks, fetched } = await looked();
      expect([found, walks]).toEqual([[2], 0]);
      expect(fetched).toBeLessThanOrEqual(200 * 6);
    }
    await database.query(`DELETE FROM webhook_outbox`);
    await database.query(`VACUUM ANALYZE webhook_outbox`);
    await fill();
    expect(await looked()).toMatchObject({ found: [2], walks: 0 });
    expect(
      await database.query(`SELECT cardinality(webhook_rows_of('awardee', 'other', 'e1')) AS rows`),
    ).toEqual([{ rows: 0 }]);
  }, 60_000);

  it.each([20, 500])(
    'reads neither claims nor payloads from end to end for %i rows, though there are few of them',
    async (limit) => {
      await database.query(`INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body)
      SELECT 'awardee', '', 'e' || n, gen_random_uuid(), 't', 'delivery', 'x', 1, '{}', decode(repeat('ab', 1500), 'hex')
        FROM generate_series(1, 1000) n`);
      await database.query(`INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
      SELECT gen_random_uuid(), 'handler', 'awardee/handle', source, tenant, event_id FROM webhook_claim`);
      await database.query(`WITH effect AS (
        INSERT INTO webhook_outbox (id, kind, name) SELECT gen_random_uuid(), 'effect', 'mail' FROM generate_series(1, 5000) RETURNING id)
      INSERT INTO webhook_outbox_data (outbox_id, payload) SELECT id, '{}' FROM effect`);
      for (const statistics of ['stale', 'fresh']) {
        if (statistics === 'fresh') await analyze();
        for (const name of ['awardee/handle', 'mail']) {
          const plan = await explainOf(leaseDue(limit), [
            randomUUID(),
            30_000,
            [name],
            [20],
            [limit],
            limit,
            [false],
            [name],
            [limit],
            ['-infinity'],
          ]);
          expect(plan[0]!['Actual Rows']).toBe(limit);
          expect(
            plan
              .filter(
                (node) => node['Node Type'] === 'Seq Scan' && node['Relation Name'] !== 'webhook_outbox',
              )
              .map((node) => node['Relation Name']),
          ).toEqual([]);
        }
      }
    },
  );

  async function explainOf(sql: string, values: readonly unknown[]): Promise<PlanNode[]> {
    const runner = database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      const [row] = (await runner.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, [...values])) as {
        'QUERY PLAN': { Plan: PlanNode }[];
      }[];
      return row!['QUERY PLAN'].flatMap((plan) => flat(plan.Plan));
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  }

  async function analyze(): Promise<void> {
    await database.query(`ANALYZE webhook_outbox, webhook_claim, webhook_outbox_data`);
  }

  /** The nodes of the plan as it was carried out; nothing of it stays. */
  async function explain(setting = 'SELECT 1', prepared = false): Promise<PlanNode[]> {
    const runner = database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      await runner.query(setting);
      const values = [
        randomUUID(),
        30_000,
        [NAME, 'other'],
        [20, 20],
        [10, 10],
        10,
        [false, false],
        [NAME, 'other'],
        [10, 10],
        ['-infinity', '-infinity'],
      ];
      const how = 'EXPLAIN (ANALYZE, FORMAT JSON)';
      if (prepared)
        await runner.query(
          `PREPARE lease (uuid, float8, text[], int[], int[], int, boolean[], text[], int[], timestamptz[]) AS ${leaseDue(10)}`,
        );
      const [row] = (await (prepared
        ? runner.query(
            `${how} EXECUTE lease ('${values[0] as string}', 30000, '{${NAME},other}', '{20,20}', '{10,10}', 10, '{f,f}', '{${NAME},other}', '{10,10}', '{-infinity,-infinity}')`,
          )
        : runner.query(`${how} ${leaseDue(10)}`, values))) as { 'QUERY PLAN': { Plan: PlanNode }[] }[];
      return row!['QUERY PLAN'].flatMap((plan) => flat(plan.Plan));
    } finally {
      if (prepared) await runner.query('DEALLOCATE lease');
      await runner.rollbackTransaction();
      await runner.release();
    }
  }

  function expectIndexed(found: readonly PlanNode[], rows = 10): void {
    const read = reads(found);
    expect(read.map((node) => node['Node Type'])).not.toContain('Seq Scan');
    const due = read.filter((node) => node['Index Name'] === 'webhook_outbox_due');
    expect(due).toHaveLength(1);
    expect(due[0]!['Rows Removed by Filter'] ?? 0).toBe(0);
    expect(Math.round(due[0]!['Actual Rows'] * due[0]!['Actual Loops'])).toBe(rows);
    // What is leased: exactly the limit.
    expect(found[0]!['Actual Rows']).toBe(rows);
  }
});

const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];

/** How webhook_outbox is read. */
const reads = (plan: readonly PlanNode[]) =>
  plan.filter((node) => node['Relation Name'] === 'webhook_outbox' && /Scan/.test(node['Node Type']));

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

function name(options: Partial<RunnableName> = {}): RunnableName {
  return { name: NAME, maxAttempts: 20, limit: 1_000, ...options };
}

async function lease(
  limit: number,
  options: { owner?: string; maxAttempts?: number; manager?: EntityManager } = {},
): Promise<LeasedRow[]> {
  const { owner = randomUUID(), maxAttempts = 20 } = options;
  const by = options.manager ?? manager;
  const { leased, moved } = await store.lease(by, owner, 30_000, [name({ maxAttempts })], limit);
  if (moved > 0) leased.push(...(await leaseAlone({ maxAttempts, owner })).leased);
  return leased;
}

function leaseAlone({
  maxAttempts = 20,
  owner = randomUUID(),
}: { maxAttempts?: number; owner?: string } = {}) {
  return store.leaseAlone(manager, owner, 30_000, [name({ maxAttempts })]);
}

/** Rows as if enqueued one after the other: keys are their numbers. */
async function addRows(
  count: number,
  name = NAME,
  state = 'pending',
  kind = 'effect',
  /** They wait for their turn of this key. */
  waitsFor: string | null = null,
): Promise<void> {
  await database.query(
    `INSERT INTO webhook_outbox (id, parent_id, kind, name, key, state, source, tenant, event_id, due_at, settled_at,
                                 order_name, order_key, waits)
     SELECT gen_random_uuid(), gen_random_uuid(), $4, $2, i, $3, 'awardee', '', i,
            now() - interval '1 hour' + i * interval '1 ms', CASE WHEN $3 <> 'pending' THEN now() END,
            CASE WHEN $5::text IS NOT NULL THEN $2 END, $5, $5::text IS NOT NULL
       FROM generate_series(1, $1) AS i`,
    [count, name, state, kind, waitsFor],
  );
}

async function endLeases(): Promise<void> {
  await database.query(
    `UPDATE webhook_outbox SET lease_until = now(), due_at = least(due_at, now()) WHERE leased_by IS NOT NULL`,
  );
}

function rows(where = 'true'): Promise<OutboxRow[]> {
  return database.query(`SELECT * FROM webhook_outbox WHERE ${where} ORDER BY created_at, id`);
}
