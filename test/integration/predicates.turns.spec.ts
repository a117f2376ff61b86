import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { RelayStore } from '../../src/storage/desk/relay.store.js';
import { TurnStore, type OrderKey } from '../../src/storage/turn.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// As in predicates.spec: the statements about turns and about pending rows are asked beside rows that differ in one column.

const store = new TurnStore();
const outbox = new OutboxStore();
const HOUR = 3_600_000;
const K: OrderKey = { name: 'mail', key: 'k' };
let database: TestDatabase;
let manager: EntityManager;

beforeAll(async () => {
  database = await createDatabase();
  ({ manager } = database.dataSource);
});
afterEach(() => database.query(`TRUNCATE webhook_outbox`));
afterAll(() => database?.drop());

const ago = (ms: number) => new Date(Date.now() - ms);
const FREE = { kind: 'effect', name: 'mail', state: 'pending', due_at: ago(HOUR) };
const LINE = { ...FREE, order_name: 'mail', order_key: 'k', waits: true };
const HELD = { ...LINE, waits: false };
const DEAD = { ...HELD, state: 'dead', reason: 'permanent-error', error: 'e', settled_at: ago(HOUR) };
const LEASED = { leased_by: randomUUID(), lease_until: ago(-HOUR), attempt: 1 };

async function add(columns: Readonly<Record<string, unknown>>): Promise<string> {
  const row: Record<string, unknown> = { id: randomUUID(), ...columns };
  const names = Object.keys(row);
  await database.query(
    `INSERT INTO webhook_outbox (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})`,
    Object.values(row),
  );
  return row['id'] as string;
}

/** Ids of the rows that have the turn now and had not. */
async function turned(work: () => Promise<unknown>): Promise<string[]> {
  const waiting = async () =>
    new Set(
      (await database.query<{ id: string }>(`SELECT id FROM webhook_outbox WHERE waits`)).map(({ id }) => id),
    );
  const before = await waiting();
  await work();
  const after = await waiting();
  return [...before].filter((id) => !after.has(id));
}

const give = (names = ['mail'], blocked: string[] = [], after?: OrderKey) =>
  manager.transaction((on) => store.give(on, names, blocked, after));

describe.each<[string, () => Promise<unknown>]>([
  ['given', () => give()],
  ['passed on', () => store.pass(manager, K)],
])('a turn that is %s', (_, send) => {
  it.each<[string, Record<string, unknown>]>([
    ['of another key', { ...LINE, order_key: 'l', name: 'print', order_name: 'print' }],
    ['of another name', { ...LINE, order_name: 'print' }],
    ['due later', { ...LINE, due_at: ago(-HOUR) }],
    ['that is done', { ...HELD, state: 'done', settled_at: ago(HOUR) }],
    ['that is dead', DEAD],
    ['that waited, and was called back', { ...LINE, state: 'cancelled', settled_at: ago(HOUR) }],
  ])('goes to a waiting row that is due, and to none %s', async (_what, decoy) => {
    await add({ ...decoy, ...((decoy['due_at'] as Date) < new Date() && { due_at: ago(3 * HOUR) }) });
    const right = await add({ ...LINE, due_at: ago(2 * HOUR) });
    await add(LINE);
    expect(await turned(send)).toEqual([right]);
    const [row] = await database.query(
      `SELECT due_at > now() - interval '1 minute' AS now FROM webhook_outbox WHERE id = $1`,
      [right],
    );
    expect(row).toEqual({ now: true });
  });

  it('goes to none that is due later', async () => {
    await add({ ...LINE, due_at: ago(-HOUR) });
    expect(await turned(send)).toEqual([]);
  });

  it('goes by the id where two were due at once', async () => {
    const due_at = ago(2 * HOUR);
    const ids = [await add({ ...LINE, due_at }), await add({ ...LINE, due_at })];
    expect(await turned(send)).toEqual([ids.toSorted()[0]]);
  });

  it('waits for nobody: a row that is locked stays, and no other of its key goes before it', async () => {
    const first = await add({ ...LINE, due_at: ago(2 * HOUR) });
    await add(LINE);
    const other = database.dataSource.createQueryRunner();
    await other.startTransaction();
    try {
      await other.query(`SELECT FROM webhook_outbox WHERE id = $1 FOR UPDATE`, [first]);
      expect(await turned(send)).toEqual([]);
    } finally {
      await other.rollbackTransaction();
      await other.release();
    }
    expect(await turned(send)).toEqual([first]);
  });
});

describe('a turn', () => {
  it('is passed within one name and one key', async () => {
    await add({ ...LINE, order_key: 'l' });
    await add({ ...LINE, order_name: 'print' });
    expect(await store.pass(manager, K)).toBe(false);
    const right = await add(LINE);
    expect(await turned(() => store.pass(manager, K))).toEqual([right]);
  });

  it.each<[string, Record<string, unknown>, boolean]>([
    ['has the turn', HELD, true],
    ['of another key has the turn', { ...HELD, order_key: 'l' }, false],
    ['of another name has the turn', { ...HELD, order_name: 'print' }, false],
    ['is done', { ...HELD, state: 'done', settled_at: ago(HOUR) }, false],
    ['is dead, and does not hold its key', DEAD, false],
  ])('is given to no key of which a row %s', async (_, beside, isTaken) => {
    await add(beside);
    const row = await add(LINE);
    expect(await turned(give)).toEqual(isTaken ? [] : [row]);
  });

  it.each<[string, Record<string, unknown>, boolean]>([
    ['dead', DEAD, true],
    ['parked', { ...HELD, state: 'parked', reason: 'in-doubt' }, true],
    ['given up', { ...DEAD, reason: 'given-up' }, false],
    ['done', { ...HELD, state: 'done', settled_at: ago(HOUR) }, false],
    ['erased', { ...DEAD, state: 'erased' }, false],
    ['dead, of another key', { ...DEAD, order_key: 'l' }, false],
    ['dead, of another name', { ...DEAD, order_name: 'print' }, false],
  ])('of a name that is blocked is not given where a row is %s', async (_, beside, isHeld) => {
    for (let twice = 0; twice < 2; twice += 1) await add(beside);
    const row = await add(LINE);
    expect(await turned(() => give(['mail'], ['mail', 'print']))).toEqual(isHeld ? [] : [row]);
    expect(await turned(() => give(['mail'], ['print']))).toEqual(isHeld ? [row] : []);
  });

  it('is given to each key of the names that are asked for, after the cursor', async () => {
    const of = (order_name: string, order_key: string) => add({ ...LINE, order_name, order_key });
    const [a, b, c] = [await of('mail', 'a'), await of('mail', 'b'), await of('mail', 'c')];
    const [other, unknown] = [await of('print', 'a'), await of('unknown', 'a')];
    const after = { name: 'mail', key: 'a' };
    expect((await turned(() => give(['mail', 'print'], [], after))).toSorted()).toEqual(
      [b, c, other].toSorted(),
    );
    expect(await turned(() => give(['mail', 'print']))).toEqual([a]);
    expect(await turned(() => give(['unknown']))).toEqual([unknown]);
  });

  it('is given to 500 keys at a time, in their order, and the next look begins behind them', async () => {
    const keys = (count: number, key: string, waits: boolean, state = 'pending', name = 'mail') =>
      database.query(
        `INSERT INTO webhook_outbox (id, kind, name, order_name, order_key, waits, state, settled_at)
         SELECT gen_random_uuid(), 'effect', $5, $5, $2 || lpad(n::text, 4, '0'), $3, $4, CASE WHEN $4 <> 'pending' THEN now() END
           FROM generate_series(1, $1) n`,
        [count, key, waits, state, name],
      );
    // Keys of which no row waits are not looked at, before, between or behind the others.
    for (const key of ['a', 'c']) {
      await keys(500, key, false);
      await keys(500, `${key}${key}`, true, 'cancelled');
    }
    for (let twice = 0; twice < 2; twice += 1) {
      await keys(250, 'b', true);
      await keys(251, 'd', true, 'pending', 'print');
    }
    const next = { name: 'print', key: 'd0250' };
    expect(await give(['mail', 'print'])).toEqual({ given: 500, next });
    expect(await give(['mail', 'print'], [], next)).toEqual({ given: 1, next: undefined });
  });

  it('is given by one relay at a time', async () => {
    await manager.transaction(async (first) => {
      expect(await store.give(first, [], [])).toEqual({ given: 0, next: undefined });
      expect(await give()).toBeUndefined();
    });
  });
});

describe('tenants behind a backlog', () => {
  const backlog = (rows: number, tenant: string, columns: Record<string, unknown> = {}) =>
    database.query(
      `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, due_at, leased_by, lease_until, waits, order_name, order_key)
       SELECT gen_random_uuid(), 'handler', $3, 's', $2, $2 || n, now() - $4 * interval '1 hour' + n * interval '1 ms', $5, $6, $7,
              $8, CASE WHEN $8::text IS NOT NULL THEN $2 || n END
         FROM generate_series(1, $1) n`,
      [
        rows,
        tenant,
        columns['name'] ?? 'h',
        columns['hours'] ?? 2,
        columns['leased_by'] ?? null,
        columns['lease_until'] ?? null,
        columns['waits'] ?? false,
        columns['waits'] === true ? 'h' : null,
      ],
    );
  const front = async (count: number) =>
    (
      await database.query<{ event_id: string }>(
        `SELECT event_id FROM webhook_outbox WHERE name = 'h' ORDER BY due_at LIMIT $1`,
        [count],
      )
    ).map(({ event_id }) => event_id);

  it('get 20 rows each before it, their first ones, in turns', async () => {
    await backlog(100, 'a');
    await backlog(21, 'b', { hours: 1 });
    await backlog(3, 'c', { hours: 1 });
    expect(await store.advanceTenants(manager, 'h')).toBe(23);
    const first = await front(24);
    expect([first.slice(0, 2), first.slice(2, 4), first.slice(4, 6)].map((two) => two.toSorted())).toEqual(
      [1, 2, 3].map((n) => [`b${n}`, `c${n}`]),
    );
    expect(first.slice(6)).toEqual([...Array.from({ length: 17 }, (_, at) => `b${at + 4}`), 'a1']);
  });

  it('stay where they are with a row among the first hundred', async () => {
    await backlog(99, 'a');
    await backlog(5, 'b', { hours: 1 });
    await backlog(5, 'c', { hours: 0.5 });
    expect(await store.advanceTenants(manager, 'h')).toBe(5);
    expect((await front(5)).toSorted()).toEqual(['c1', 'c2', 'c3', 'c4', 'c5']);
  });

  it.each<[string, Record<string, unknown>]>([
    ['done', { state: 'done', settled_at: ago(1) }],
    ['of another name', { name: 'other' }],
    ['in quarantine', { alone: true }],
    ['held by a process', LEASED],
  ])('see no backlog in rows that are %s', async (_, columns) => {
    await backlog(101, 'a');
    const sets = Object.keys(columns).map((column, at) => `${column} = $${at + 1}`);
    await database.query(`UPDATE webhook_outbox SET ${sets.join(', ')}`, Object.values(columns));
    await backlog(2, 'b', { hours: 1 });
    expect(await store.advanceTenants(manager, 'h')).toBe(0);
    await backlog(101, 'c', { hours: 3, waits: true });
    expect(await store.advanceTenants(manager, 'h')).toBe(0);
  });

  it('are searched in 20,000 rows', async () => {
    await backlog(20_000, 'a');
    await backlog(2, 'b', { hours: 1 });
    expect(await store.advanceTenants(manager, 'h')).toBe(0);
    await database.query(`DELETE FROM webhook_outbox WHERE event_id = 'a1'`);
    expect(await store.advanceTenants(manager, 'h')).toBe(1);
  });

  it('are so many that 1,000 rows do not suffice: each gets its first ones', async () => {
    await backlog(100, 'a');
    await database.query(
      `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, due_at)
       SELECT gen_random_uuid(), 'handler', 'h', 's', 'b' || n % 60, n / 60, now() - interval '1 hour' + n * interval '1 ms'
         FROM generate_series(0, 1199) n`,
    );
    expect(await store.advanceTenants(manager, 'h')).toBe(1_000);
    const first = (await front(1_000)).map(Number);
    expect([Math.max(...first), first.filter((nth) => nth === 0).length]).toEqual([16, 60]);
  });

  it.each<[string, Record<string, unknown>]>([
    ['of another name', { name: 'other' }],
    ['due later', { hours: -1 }],
    ['that a process has', LEASED],
    ['that wait for their turn', { waits: true }],
  ])('do not bring rows forward %s', async (_, columns) => {
    await backlog(101, 'a');
    await backlog(2, 'b', { hours: 1, ...columns });
    expect(await store.advanceTenants(manager, 'h')).toBe(0);
    await backlog(2, 'c', { hours: 1, leased_by: randomUUID(), lease_until: ago(1) });
    expect(await store.advanceTenants(manager, 'h')).toBe(2);
  });

  it('wait for nobody: a row that is locked stays', async () => {
    await backlog(101, 'a');
    await backlog(2, 'b', { hours: 1 });
    const other = database.dataSource.createQueryRunner();
    await other.startTransaction();
    try {
      await other.query(`SELECT FROM webhook_outbox WHERE event_id = 'b1' FOR UPDATE`);
      expect(await store.advanceTenants(manager, 'h')).toBe(1);
    } finally {
      await other.rollbackTransaction();
      await other.release();
    }
    expect(await front(1)).toEqual(['b2']);
  });
});

describe('pending rows', () => {
  const relays = new RelayStore();
  const ALONE = { ...FREE, alone: true };
  const ended = { leased_by: randomUUID(), lease_until: ago(1_000), attempt: 1 };

  it('are counted in all their parts, to a limit', async () => {
    for (const row of [FREE, { ...FREE, ...LEASED }, ALONE, ALONE, LINE, LINE, LINE]) await add(row);
    for (const row of [DEAD, { ...HELD, state: 'done', settled_at: ago(1) }]) await add(row);
    const counts = [];
    for (const limit of [1, 6, 7, 8]) counts.push(await outbox.countPending(manager, limit));
    expect(counts).toEqual([1, 6, 7, 7]);
  });

  it('that are overdue are told by name, the longest first', async () => {
    for (const [name, hours] of [
      ['late', 2],
      ['later', 3],
      ['soon', -1],
    ] as const)
      for (const more of [0, 0.5]) await add({ ...FREE, name, due_at: ago((hours - more) * HOUR) });
    await add({ ...ALONE, name: 'quarantine', due_at: ago(4 * HOUR) });
    await add({ ...ALONE, name: 'quarantine', due_at: ago(HOUR) });
    await add({ ...FREE, ...ended, name: 'ended', due_at: ago(HOUR) });
    await add({ ...FREE, ...LEASED, name: 'held', due_at: ago(HOUR) });
    await add({ ...ALONE, ...LEASED, name: 'held', due_at: ago(5 * HOUR) });
    await add({ ...LINE, name: 'line' });
    await add({ ...DEAD, name: 'dead' });
    await add({ ...FREE, ...LEASED, name: 'late', due_at: ago(9 * HOUR) });
    const { overdue } = await relays.backlog(manager);
    expect(overdue.map(({ name, ageMs }) => [name, Math.round(ageMs / HOUR)])).toEqual([
      ['quarantine', 4],
      ['later', 3],
      ['late', 2],
      ['ended', 1],
    ]);
  });

  it('of names that no instance knows are counted where they have been due for a while', async () => {
    await database.query(
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources, seen_at)
       SELECT gen_random_uuid(), 'h', 1, 'v22', true, true, 0, ARRAY[name], '{}', now() - age * interval '1 hour'
         FROM (VALUES ('known', 0), ('silent', 2)) r(name, age)`,
    );
    const LEASED_NOW = { ...LEASED, lease_until: ago(-HOUR) };
    const due = { due_at: ago(3 * HOUR) };
    for (const name of ['known', 'a', 'z']) {
      await add({ ...FREE, ...due, name });
      await add({ ...ALONE, ...due, name });
      await add({ ...LINE, ...due, name, order_name: name });
    }
    await add({ ...FREE, ...due, name: 'silent' });
    for (const row of [FREE, ALONE, LINE]) {
      // Not due for so long, held by a process, or settled.
      await add({
        ...row,
        name: 'a',
        order_key: 'order_key' in row ? 'l' : undefined,
        due_at: ago(HOUR / 2),
      });
      if (row !== LINE) await add({ ...row, ...due, ...LEASED_NOW, name: 'a' });
    }
    await add({ ...DEAD, ...due, name: 'dead' });
    await add({ ...FREE, ...LEASED_NOW, ...due, name: 'held' });
    await add({ ...FREE, name: 'later', due_at: ago(-HOUR) });
    expect(await relays.unknownNames(manager, HOUR, HOUR)).toEqual([
      { name: 'a', rows: 3 },
      { name: 'silent', rows: 1 },
      { name: 'z', rows: 3 },
    ]);
    await database.query('TRUNCATE webhook_relay');
  });
});
