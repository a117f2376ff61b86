import { randomUUID } from 'node:crypto';
import type { QueryRunner } from 'typeorm';
import { TakeoverStore, type LockSession } from '../../src/storage/postgres/takeover.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// As in predicates.spec: the statements by which instances take over are asked beside instances and rows that differ in one column.

const HOUR = 3_600_000;
const [US, DEAD, OTHER] = [randomUUID(), randomUUID(), randomUUID()] as const;
const KEY = '4611686018427387905';
const NAMES = ['mail', 'print'];
const dead = { owner: DEAD, key: KEY };
let database: TestDatabase;
let store: TakeoverStore;
let runner: QueryRunner;
let session: LockSession;

beforeAll(async () => {
  database = await createDatabase();
  store = new TakeoverStore(database.dataSource);
});
beforeEach(async () => {
  runner = database.dataSource.createQueryRunner();
  session = sessionOf(runner);
  for (const id of [US, DEAD, OTHER]) await instance(id);
});
afterEach(async () => {
  await runner.query('SELECT pg_advisory_unlock_all()');
  await runner.query('RESET ALL');
  await runner.release();
  await database.query(`TRUNCATE webhook_outbox, webhook_relay`);
});
afterAll(() => database?.drop());

const ago = (ms: number) => new Date(Date.now() - ms);
const sessionOf = (on: QueryRunner): LockSession => ({
  query: <T>(sql: string, values?: readonly unknown[]) => on.query(sql, [...(values ?? [])]) as Promise<T[]>,
});

function instance(id: string): Promise<unknown> {
  return database.query(
    `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources)
     VALUES ($1, 'h', 1, 'v22', true, true, 0, $2, '{}')`,
    [id, NAMES],
  );
}

async function held(columns: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const lease = { leased_by: DEAD, lease_until: ago(-HOUR), attempt: 1 };
  const row = { id: randomUUID(), kind: 'effect', name: 'mail', due_at: ago(HOUR), ...lease, ...columns };
  const names = Object.keys(row);
  await database.query(
    `INSERT INTO webhook_outbox (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})`,
    Object.values(row),
  );
  return row.id;
}

const locks = () =>
  database.query(
    `SELECT id AS owner, lock_key::text AS key FROM webhook_relay WHERE lock_key IS NOT NULL ORDER BY id`,
  );
const ended = async () =>
  (
    await database.query<{ id: string }>(
      `SELECT id FROM webhook_outbox WHERE lease_until <= now() AND leased_by IS NOT NULL AND lease_until > now() - interval '1 minute'`,
    )
  ).map(({ id }) => id);

/** Does `work` beside another session, which has sent this in a transaction. */
async function beside(sql: string, work: () => Promise<unknown>): Promise<void> {
  const other = database.dataSource.createQueryRunner();
  await other.startTransaction();
  try {
    await other.query(sql);
    await work();
  } finally {
    await other.rollbackTransaction();
    await other.release();
  }
}

describe('the lock of an instance', () => {
  it('is registered for the instance that gave a sign of life, and withdrawn by its key', async () => {
    expect(await store.register(session, { owner: randomUUID(), key: KEY })).toBe(false);
    expect(await store.register(session, dead)).toBe(true);
    expect(await locks()).toEqual([dead]);
    const { manager } = database.dataSource;
    await store.withdraw(manager, { ...dead, key: '7' });
    await store.withdraw(manager, { ...dead, owner: OTHER });
    expect(await locks()).toEqual([dead]);
    await store.register(session, { owner: OTHER, key: KEY });
    await store.withdraw(manager, dead);
    expect(await locks()).toEqual([{ owner: OTHER, key: KEY }]);
  });

  it('is seen as free when no session holds it, and never as free by its own', async () => {
    for (const [owner, key] of [
      [US, '1'],
      [DEAD, '2'],
      [OTHER, '3'],
    ] as const)
      await store.register(session, { owner, key });
    await instance(randomUUID());
    await beside(`SELECT pg_advisory_xact_lock(3)`, async () => {
      const seen = await store.listLocks(session, US);
      expect(seen.toSorted((a, b) => Number(a.key) - Number(b.key))).toEqual([
        { owner: US, key: '1', free: false },
        { owner: DEAD, key: '2', free: true },
        { owner: OTHER, key: '3', free: false },
      ]);
    });
  });

  it('is held by a session that the server gives up after two seconds of silence, and that waits for no row', async () => {
    await store.lock(session, dead);
    const settings = {
      tcp_keepalives_idle: '1',
      tcp_keepalives_interval: '1',
      tcp_keepalives_count: '2',
      tcp_user_timeout: '2000',
      lock_timeout: '200ms',
      default_transaction_isolation: 'read committed',
    };
    const shown: unknown[] = [];
    for (const name of Object.keys(settings))
      shown.push(...((await runner.query(`SHOW ${name}`)) as unknown[]));
    expect(Object.assign({}, ...shown)).toEqual(settings);
  });

  it('is seen as free by several instances at once: each of them only shares it for the time of its look', async () => {
    await store.register(session, dead);
    const other = database.dataSource.createQueryRunner();
    await other.startTransaction();
    try {
      const seenBy = async (on: QueryRunner) => {
        const locks = await store.listLocks(sessionOf(on), US);
        return locks.map(({ free }) => free);
      };
      expect(await seenBy(other)).toEqual([true]);
      expect(await seenBy(runner)).toEqual([true]);
    } finally {
      await other.rollbackTransaction();
      await other.release();
    }
  });

  it('is taken once', async () => {
    expect(await store.lock(session, dead)).toBe(true);
    const other = database.dataSource.createQueryRunner();
    try {
      expect(await store.lock(sessionOf(other), dead)).toBe(false);
    } finally {
      await other.query('RESET ALL');
      await other.release();
    }
  });
});

describe('a takeover', () => {
  beforeEach(() => store.register(session, dead));

  it('ends the leases of the dead instance, in quarantine too, and forgets it when there are none', async () => {
    const rows = [
      await held(),
      await held({ name: 'print', due_at: ago(-HOUR) }),
      await held({ alone: true, name: 'gone' }),
    ];
    await held({ leased_by: OTHER });
    await held({ leased_by: OTHER, alone: true });
    expect(await store.take(session, dead)).toBe(3);
    expect((await ended()).toSorted()).toEqual(rows.toSorted());
    const due = await database.query(`SELECT FROM webhook_outbox WHERE due_at <= now() AND leased_by = $1`, [
      DEAD,
    ]);
    expect(due).toHaveLength(3);
    expect(await locks()).toEqual([dead]);
    expect(await store.take(session, dead)).toBe(0);
    expect(await locks()).toEqual([]);
  });

  it.each<[string, Record<string, unknown>]>([
    ['of another instance', { leased_by: OTHER }],
    ['of another instance, in quarantine', { leased_by: OTHER, alone: true }],
    ['that has ended already', { lease_until: ago(HOUR) }],
    ['that has ended already, in quarantine', { lease_until: ago(HOUR), alone: true }],
    ['of a name that it does not have', { name: 'unknown' }],
  ])('ends no lease %s, and forgets the dead instance', async (_, columns) => {
    await held(columns);
    await store.register(session, { owner: OTHER, key: '5' });
    expect(await store.take(session, dead)).toBe(0);
    expect(await ended()).toEqual([]);
    expect(await locks()).toEqual([{ owner: OTHER, key: '5' }]);
  });

  it.each([
    ['its lock is held', `SELECT pg_advisory_xact_lock(${KEY})`],
    ['its registration is being withdrawn', `UPDATE webhook_relay SET lock_key = NULL WHERE id = '${DEAD}'`],
  ])('takes nothing while %s', async (_, sql) => {
    await held();
    await beside(sql, async () => expect(await store.take(session, dead)).toBe(0));
    expect(await ended()).toEqual([]);
    expect(await locks()).toEqual([dead]);
  });

  it('takes nothing by another key or of another instance, and forgets none', async () => {
    await store.take(session, { ...dead, owner: OTHER });
    await store.take(session, { ...dead, key: '7' });
    expect(await locks()).toEqual([dead]);
    await held();
    expect(await store.take(session, { ...dead, key: '7' })).toBe(0);
    expect(await store.take(session, { ...dead, owner: OTHER })).toBe(0);
    expect(await ended()).toEqual([]);
  });

  it('passes a lease over that is being settled, and takes it at the next look', async () => {
    const [locked, free] = [await held(), await held()];
    await beside(`SELECT FROM webhook_outbox WHERE id = '${locked}' FOR UPDATE`, async () =>
      expect(await store.take(session, dead)).toBe(1),
    );
    expect(await ended()).toEqual([free]);
    expect(await store.take(session, dead)).toBe(1);
  });
});
