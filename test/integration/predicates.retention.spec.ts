import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../src/core/event.js';
import { outboxId } from '../../src/core/ids.js';
import { RetentionStore } from '../../src/storage/desk/retention.store.js';
import { LOCK_OLD_BODIES, LOCK_OLD_CLAIMS } from '../../src/storage/desk/retention.sql.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// As in predicates.spec: each statement that deletes or empties is asked beside claims and rows that differ in one column.

const store = new RetentionStore();
const HOUR = 3_600_000;
/** What is older goes. */
const AGE = 10 * HOUR;
const KEY: EventKey = { source: 's', tenant: 't', eventId: 'e' };
const BESIDE: readonly EventKey[] = [
  { ...KEY, source: 'x' },
  { ...KEY, tenant: 'x' },
  { ...KEY, eventId: 'x' },
];
const TABLES = [
  'outbox',
  'outbox_data',
  'attempt',
  'refire',
  'conflict',
  'duplicate',
  'replay',
  'payload_value',
];
let database: TestDatabase;
let manager: EntityManager;

beforeAll(async () => {
  database = await createDatabase();
  ({ manager } = database.dataSource);
});
afterEach(() =>
  database.query(
    `TRUNCATE webhook_claim, webhook_watermark, webhook_audit, ${TABLES.map((name) => `webhook_${name}`).join(', ')}`,
  ),
);
afterAll(() => database?.drop());

const ago = (ms: number) => new Date(Date.now() - ms);
const textOf = ({ source, tenant, eventId }: EventKey) => `${source}${tenant}${eventId}`;

async function insert(table: string, columns: Readonly<Record<string, unknown>>): Promise<void> {
  const names = Object.keys(columns);
  await database.query(
    `INSERT INTO webhook_${table} (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})`,
    Object.values(columns),
  );
}

/** An id of that age, as `uuidV7` makes them. */
function idOf(ageMs: number): string {
  const time = (Date.now() - ageMs).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** A claim with one handler row, and everything that may be about them. Its rows' columns may be others. */
async function event(
  { source, tenant, eventId }: EventKey,
  ageMs = 2 * AGE,
  row: Readonly<Record<string, unknown>> = {},
): Promise<{ id: string; row: string }> {
  const [id, key] = [idOf(ageMs), { source, tenant, event_id: eventId }];
  await insert('claim', {
    ...key,
    id,
    event_type: 'x',
    origin: 'delivery',
    verified_by: '',
    owed: 1,
    headers: '{"h":"1"}',
    body: Buffer.from('b'),
    received_at: ago(ageMs),
  });
  const outbox = {
    id: outboxId(id, 'h'),
    ...key,
    kind: 'handler',
    name: textOf({ source, tenant, eventId }),
  };
  await insert('outbox', { ...outbox, state: 'done', settled_at: ago(ageMs), attempt: 2, ...row });
  await insert('outbox_data', { outbox_id: outbox.id, payload: 'p', result: 'r' });
  await insert('attempt', { outbox_id: outbox.id, attempt: 1, outcome: 'retry' });
  await insert('refire', { outbox_id: outbox.id, effect: 'm', generation: 1, replay_id: randomUUID() });
  await insert('conflict', {
    ...key,
    kind: 'other-bytes',
    body_sha256: 'c',
    body: 'c',
    headers: '{}',
    last_at: ago(ageMs),
  });
  await insert('duplicate', { ...key, count: 1, last_at: ago(ageMs) });
  await insert('replay', { replay_id: randomUUID(), claim_id: id, replayed_by: 'ann', reason: '' });
  await insert('payload_value', { source, path: 'p', value: eventId, claim_id: id });
  return { id, row: outbox.id };
}

const claims = async (where = 'true') =>
  (
    await database.query<{ of: string }>(
      `SELECT source || tenant || event_id AS of FROM webhook_claim WHERE ${where} ORDER BY 1`,
    )
  ).map(({ of }) => of);
const counts = async () => {
  const all = TABLES.map(async (name) => (await database.query(`SELECT FROM webhook_${name}`)).length);
  return Promise.all(all);
};
/** The page's claims are those that are old, whatever their rows are: as if those had changed since. */
function found(lock: string): EntityManager {
  const query = async (sql: string, values?: unknown[]) =>
    sql === lock
      ? database.query(
          `SELECT source, tenant, event_id, id, received_at::text AS at FROM webhook_claim ORDER BY 1, 2, 3`,
        )
      : database.query(sql, values);
  return { commit: query } as unknown as EntityManager;
}
const SETTLED = { state: 'done', settled_at: ago(2 * AGE) };

describe.each([
  ['deleted', 'deleteClaims', LOCK_OLD_CLAIMS, 'true'],
  ['emptied', 'emptyBodies', LOCK_OLD_BODIES, `body IS NOT NULL AND headers <> '{}'`],
] as const)('claims are %s', (what, method, lock, left) => {
  const prune = (on = manager, limit = 100, cursor?: string) => store[method](on, 's', AGE, limit, cursor);
  const young = ago(AGE / 2);

  it.each<[string, Record<string, unknown>, boolean]>([
    ['done', {}, true],
    ['pending', { state: 'pending', settled_at: null }, false],
    ['parked', { state: 'parked', settled_at: null }, false],
    ['handed over', { state: 'handed', settled_at: null, kind: 'effect' }, false],
    ['dead for long', { state: 'dead' }, what === 'deleted'],
    ['dead since lately', { state: 'dead', settled_at: young }, false],
    ['done lately, at its first run', { settled_at: young }, true],
    ['done lately, when it was run again', { settled_at: young, attempt_base: 1 }, false],
    ['done long ago, when it was run again', { attempt_base: 1 }, true],
    [
      'erased lately, when it was to run again',
      { state: 'erased', settled_at: young, attempt_base: 1 },
      true,
    ],
  ])('by their rows: %s', async (_, row, goes) => {
    await event(KEY, 2 * AGE, row);
    expect(await prune()).toMatchObject({ count: goes ? 1 : 0, looked: goes ? 1 : 0 });
    expect(await claims(left)).toEqual(goes ? [] : ['ste']);
  });

  it.each<[string, Record<string, unknown>, boolean]>([
    ['done', {}, true],
    ['pending', { state: 'pending', settled_at: null }, false],
    ['parked', { state: 'parked', settled_at: null }, false],
    ['handed over', { state: 'handed', settled_at: null, kind: 'effect' }, false],
    ['dead lately', { state: 'dead', settled_at: young }, false],
    ['dead for long', { state: 'dead' }, what === 'deleted'],
    ['run again lately', { settled_at: young, attempt_base: 1 }, false],
    ['erased lately', { state: 'erased', settled_at: young, attempt_base: 1 }, true],
  ])('by their rows as they are behind the lock: %s', async (_, row, goes) => {
    await event(KEY, 2 * AGE, row);
    for (const key of BESIDE) await event(key);
    expect(await prune(found(lock))).toMatchObject({ count: goes ? 4 : 3, looked: 4 });
    expect(await claims(left)).toEqual(goes ? [] : ['ste']);
    expect(await counts()).toEqual(
      what === 'deleted' ? TABLES.map(() => (goes ? 0 : 1)) : [4, 4, 4, 4, 4, 4, 4, goes ? 0 : 1],
    );
  });

  it('with what is about them, and nothing of others', async () => {
    for (const key of BESIDE) await event(key, AGE / 2);
    await event(KEY);
    expect(await prune()).toMatchObject({ count: 1, looked: 1 });
    expect(await claims(left)).toEqual(BESIDE.map(textOf).toSorted());
    expect(await counts()).toEqual(what === 'deleted' ? TABLES.map(() => 3) : [4, 4, 4, 4, 4, 4, 4, 3]);
    const kept = await database.query(
      `SELECT FROM webhook_conflict WHERE body IS NOT NULL AND headers IS NOT NULL`,
    );
    expect(kept).toHaveLength(3);
    const rows = await database.query<{ name: string }>(
      `SELECT name FROM webhook_outbox WHERE name <> 'ste'`,
    );
    expect(rows).toHaveLength(3);
  });

  it('of one source, though those of others are as old', async () => {
    await event(BESIDE[0]!);
    expect(await prune()).toMatchObject({ count: 0, looked: 0 });
    expect(await claims(left)).toEqual(['xte']);
  });

  it('though rows of others are beside theirs, by their ids', async () => {
    const { id } = await event(KEY);
    for (const [nth, { source, tenant, eventId }] of BESIDE.entries())
      await insert('outbox', {
        id: outboxId(id, `${nth}`),
        source,
        tenant,
        event_id: eventId,
        kind: 'handler',
        name: 'beside',
      });
    expect(await prune()).toMatchObject({ count: 1, looked: 1 });
    const beside = await database.query(`SELECT FROM webhook_outbox WHERE name = 'beside'`);
    expect(beside).toHaveLength(3);
  });

  it('from the oldest on, page by page', async () => {
    const ages: readonly [string, number][] = [
      ['b', 4],
      ['c', 3],
      ['a', 5],
    ];
    for (const [eventId, ages_] of ages) await event({ ...KEY, eventId }, ages_ * AGE);
    const first = await prune(manager, 2);
    expect(first).toMatchObject({ count: 2, looked: 2 });
    expect(await claims(left)).toEqual(['stc']);
    await event({ ...KEY, eventId: 'older' }, 6 * AGE);
    expect(await prune(manager, 2, first.last)).toMatchObject({ count: 1, looked: 1 });
    expect(await claims(left)).toEqual(['stolder']);
  });

  it('unless somebody has locked the claim, or one of its rows', async () => {
    const [claim, row] = [await event(KEY), await event({ ...KEY, eventId: 'row' })];
    await event({ ...KEY, eventId: 'free' });
    await beside(
      [
        `SELECT FROM webhook_claim WHERE id = '${claim.id}' FOR UPDATE`,
        `SELECT FROM webhook_outbox WHERE id = '${row.row}' FOR UPDATE`,
      ],
      async () => expect(await prune()).toMatchObject({ count: 1, looked: 2 }),
    );
    expect(await claims(left)).toEqual(['ste', 'strow']);
  });
});

describe('payloads of effects', () => {
  const empty = (limit = 100, cursor?: string) => store.emptyEffects(manager, 's', AGE, limit, cursor);
  const effect = async (ageMs: number, row: Record<string, unknown> = {}) => {
    const id = idOf(ageMs).replace(/^(.{14})7/, '$18');
    await insert('outbox', { id, kind: 'effect', name: 'm', source: 's', attempt: 2, ...SETTLED, ...row });
    await insert('outbox_data', { outbox_id: id, payload: 'p', result: 'r' });
    return id;
  };
  const whole = async () =>
    (
      await database.query<{ id: string }>(
        `SELECT outbox_id AS id FROM webhook_outbox_data WHERE payload IS NOT NULL AND result IS NOT NULL`,
      )
    ).map(({ id }) => id);

  it.each<[string, Record<string, unknown>, boolean]>([
    ['done', {}, true],
    ['erased', { state: 'erased' }, true],
    ['cancelled', { state: 'cancelled' }, true],
    ['dead', { state: 'dead' }, false],
    ['pending', { state: 'pending', settled_at: null }, false],
    ['of another source', { source: 'x' }, false],
    ['of a handler', { kind: 'handler', event_id: 'e' }, false],
    ['run again lately', { settled_at: ago(HOUR), attempt_base: 1 }, false],
  ])('are emptied by their rows: %s', async (_, row, goes) => {
    const id = await effect(2 * AGE, row);
    const young = await effect(AGE / 2);
    expect(await empty()).toEqual({ count: goes ? 1 : 0, looked: 1, last: id });
    expect((await whole()).toSorted()).toEqual((goes ? [young] : [id, young]).toSorted());
    expect(await empty()).toMatchObject({ count: 0, looked: goes ? 0 : 1 });
  });

  it('are emptied in the order of their arrival, page by page', async () => {
    const [b, c, a] = [await effect(4 * AGE), await effect(3 * AGE), await effect(5 * AGE)];
    expect(await empty(2)).toEqual({ count: 2, looked: 2, last: b });
    expect(await whole()).toEqual([c]);
    await database.query(`UPDATE webhook_outbox_data SET payload = 'p', result = 'r'`);
    expect(await empty(2, b)).toEqual({ count: 1, looked: 1, last: c });
    expect((await whole()).toSorted()).toEqual([a, b].toSorted());
  });

  it('stay while their row is locked', async () => {
    const [id] = [await effect(2 * AGE), await effect(2 * AGE)];
    await beside([`SELECT FROM webhook_outbox WHERE id = '${id}' FOR UPDATE`], async () =>
      expect(await empty()).toMatchObject({ count: 1, looked: 2 }),
    );
    expect(await whole()).toEqual([id]);
  });

  it('of no event are deleted with their row, the oldest first', async () => {
    const loose = { source: null };
    const [b, a, young] = [
      await effect(0, { ...loose, settled_at: ago(2 * AGE) }),
      await effect(0, { ...loose, settled_at: ago(3 * AGE) }),
      await effect(0, { ...loose, settled_at: ago(AGE / 2) }),
    ];
    const owned = await effect(0, { event_id: 'e' });
    for (const id of [a, b, young, owned])
      await insert('attempt', { outbox_id: id, attempt: 1, outcome: 'retry' });
    await beside([`SELECT FROM webhook_outbox WHERE id = '${a}' FOR UPDATE`], async () => {
      expect(await store.deleteEffects(manager, AGE, 1)).toBe(1);
    });
    expect((await whole()).toSorted()).toEqual([a, young, owned].toSorted());
    const c = await effect(0, { ...loose, settled_at: ago(1.5 * AGE) });
    expect(await store.deleteEffects(manager, AGE, 1)).toBe(1);
    expect((await whole()).toSorted()).toEqual([c, young, owned].toSorted());
    expect((await database.query(`SELECT FROM webhook_attempt`)).length).toBe(2);
    expect(await store.deleteEffects(manager, AGE, 9)).toBe(1);
    expect(await store.deleteEffects(manager, AGE, 9)).toBe(0);
  });
});

describe('what is about no claim', () => {
  it('goes: conflicts', async () => {
    const conflict = ({ source, tenant, eventId }: EventKey, ageMs: number) =>
      insert('conflict', {
        source,
        tenant,
        event_id: eventId,
        kind: 'other-bytes',
        body_sha256: 'c',
        last_at: ago(ageMs),
      });
    for (const key of BESIDE) await event(key);
    await conflict(KEY, 2 * AGE);
    await conflict({ ...KEY, eventId: 'young' }, AGE / 2);
    await conflict({ ...KEY, eventId: 'locked' }, 2 * AGE);
    await beside([`SELECT FROM webhook_conflict WHERE event_id = 'locked' FOR UPDATE`], async () =>
      expect(await store.deleteConflicts(manager, AGE, 9)).toBe(1),
    );
    const left = await database.query<{ of: string }>(
      `SELECT source || tenant || event_id AS of FROM webhook_conflict ORDER BY 1`,
    );
    expect(left.map(({ of }) => of)).toEqual(['stlocked', 'stx', 'styoung', 'sxe', 'xte']);
    await conflict(KEY, 2 * AGE);
    expect(await store.deleteConflicts(manager, AGE, 1)).toBe(1);
  });

  it('goes: counts of duplicates, page by page', async () => {
    const duplicate = ({ source, tenant, eventId }: EventKey, ageMs: number) =>
      insert('duplicate', { source, tenant, event_id: eventId, count: 1, last_at: ago(ageMs) });
    for (const key of BESIDE) await event(key);
    await duplicate(KEY, 2 * AGE);
    await duplicate({ ...KEY, eventId: 'f' }, AGE / 2);
    const last = { source: 's', tenant: 't', event_id: 'f' };
    expect(await store.deleteDuplicates(manager, AGE, 2)).toEqual({ count: 1, looked: 2, last });
    await duplicate(KEY, 2 * AGE);
    expect(await store.deleteDuplicates(manager, AGE, 9, last)).toMatchObject({ count: 0, looked: 3 });
    expect(await store.deleteDuplicates(manager, AGE, 9)).toMatchObject({ count: 1, looked: 5 });
  });
});

describe('marks', () => {
  const mark = (part: Readonly<Record<string, string | undefined>>, ageMs: number) => {
    const { key = 'k', ...columns } = part;
    const all = { handler: 'h', source: 's', tenant: 't', ...columns };
    return insert('watermark', { ...all, key_sha256: Buffer.alloc(32, key), at: ago(ageMs) });
  };
  const left = async () =>
    (
      await database.query<{ of: string }>(
        `SELECT handler || source || tenant || chr(get_byte(key_sha256, 0)) AS of FROM webhook_watermark ORDER BY 1`,
      )
    ).map(({ of }) => of);
  const ages = new Map([
    ['s', AGE],
    ['z', 4 * AGE],
  ]);
  const KEPT = { ageMs: 6 * AGE, kept: ['x'] };

  it('of a source that is known no more go by the age of such sources', async () => {
    for (const source of ['x', 'y']) await mark({ source }, 7 * AGE);
    await mark({ source: 'y', key: 'l' }, 5 * AGE);
    expect(await store.deleteWatermarks(manager, ages, KEPT, 9)).toMatchObject({ count: 1, looked: 3 });
    expect(await left()).toEqual(['hxtk', 'hytl']);
  });

  it('go by the age of their source, and none beside them', async () => {
    for (const part of [{ handler: 'i' }, { source: 'x' }, { tenant: 'x' }, { key: 'x' }])
      await mark(part, 'source' in part ? 9 * AGE : AGE / 2);
    await mark({ source: 'z' }, 2 * AGE);
    await mark({}, 2 * AGE);
    await mark({ key: 'l' }, 2 * AGE);
    await beside(
      [`SELECT FROM webhook_watermark WHERE key_sha256 = '\\x${'6c'.repeat(32)}' FOR UPDATE`],
      async () =>
        expect(await store.deleteWatermarks(manager, ages, KEPT, 99)).toMatchObject({ count: 1, looked: 7 }),
    );
    expect(await left()).toEqual(['hstl', 'hstx', 'hsxk', 'hxtk', 'hztk', 'istk']);
  });

  it.each(['handler', 'source', 'tenant', 'key'])(
    'of an earlier page stay, though their %s alone differs',
    async (column) => {
      await mark({ [column]: 'a' }, 2 * AGE);
      await mark({}, AGE / 2);
      const { last } = await store.deleteWatermarks(manager, new Map(), KEPT, 1);
      const both = new Map([...ages, ['a', AGE]]);
      expect(await store.deleteWatermarks(manager, both, KEPT, 9, last)).toMatchObject({
        count: 0,
        looked: 1,
      });
      expect(await left()).toHaveLength(2);
    },
  );

  it('are read page by page, in the order of their keys', async () => {
    for (const key of ['c', 'a', 'b']) await mark({ key }, 2 * AGE);
    const first = await store.deleteWatermarks(manager, ages, KEPT, 2);
    const last = { handler: 'h', source: 's', tenant: 't', key: Buffer.alloc(32, 'b') };
    expect(first).toEqual({ count: 2, looked: 2, last });
    expect(await left()).toEqual(['hstc']);
    await mark({ key: 'b' }, 2 * AGE);
    expect(await store.deleteWatermarks(manager, ages, KEPT, 2, first.last)).toMatchObject({
      count: 1,
      looked: 1,
    });
    expect(await left()).toEqual(['hstb']);
  });
});

describe('stored sources', () => {
  it('are listed once each, and those that have brought nothing for a while', async () => {
    for (const [source, ageMs] of [
      ['b', 2 * AGE],
      ['a', 2 * AGE],
      ['c', AGE / 2],
      ['c', 3 * AGE],
      ['d', 2 * AGE],
    ] as const)
      await event({ ...KEY, source, eventId: `${ageMs}` }, ageMs);
    expect(await store.storedSources(manager)).toEqual(['a', 'b', 'c', 'd']);
    expect(await store.storedSources(manager, AGE)).toEqual(['a', 'b', 'd']);
  });
});

describe('the audit', () => {
  it('loses its oldest entries', async () => {
    for (const hours of [5, 4, 3, 0])
      await insert('audit', {
        at: ago(hours * AGE),
        actor: 'ann',
        action: 'a',
        target: `${hours}`,
        reason: '',
      });
    const left = async () =>
      (await database.query<{ target: string }>(`SELECT target FROM webhook_audit ORDER BY id`)).map(
        (a) => a.target,
      );
    expect(await store.deleteAudit(manager, AGE, 2)).toBe(2);
    expect(await left()).toEqual(['3', '0']);
    expect(await store.deleteAudit(manager, AGE, 9)).toBe(1);
    expect(await left()).toEqual(['0']);
  });
});

/** Does `work` while another transaction has done this and not committed it. */
async function beside(statements: readonly string[], work: () => Promise<unknown>): Promise<void> {
  const other = database.dataSource.createQueryRunner();
  await other.startTransaction();
  try {
    for (const sql of statements) await other.query(sql);
    await work();
  } finally {
    await other.rollbackTransaction();
    await other.release();
  }
}
