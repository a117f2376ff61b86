import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { Lease } from '../../src/storage/leased-rows.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { SettleStore } from '../../src/storage/settle.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// Each statement is asked beside rows that differ from the right one in one column: each of its conditions must tell them apart.

const outbox = new OutboxStore();
const settles = new SettleStore();
const OWNER = randomUUID();
const OTHER = randomUUID();
const HOUR = 3_600_000;
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

interface Columns {
  readonly id: string;
  readonly [column: string]: unknown;
}

const FREE = { kind: 'effect', name: 'mail', state: 'pending', due_at: ago(HOUR) };
const LEASED = { ...FREE, attempt: 2, leased_by: OWNER, lease_until: ago(-HOUR) };
const PARKED = { ...FREE, attempt: 2, state: 'parked', reason: 'in-doubt' };
const DONE = { ...FREE, attempt: 2, state: 'done', settled_at: ago(HOUR) };
const DEAD = { ...DONE, state: 'dead', reason: 'permanent-error', error: 'e' };

function ago(ms: number): Date {
  return new Date(Date.now() - ms);
}

async function add(columns: Readonly<Record<string, unknown>>): Promise<Columns> {
  const row = { id: randomUUID(), ...columns };
  const names = Object.keys(row);
  await database.query(
    `INSERT INTO webhook_outbox (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})`,
    Object.values(row),
  );
  return row;
}

const leaseOf = ({ id }: { readonly id: string }): Lease => ({ id, owner: OWNER, attempt: 2 });
const everything = () => database.query(`SELECT * FROM webhook_outbox ORDER BY id`);
const results = () =>
  database.query<{ id: string; result: string }>(
    `SELECT outbox_id AS id, result FROM webhook_outbox_data ORDER BY outbox_id`,
  );
/** Ids of the rows that `work` has changed. */
async function changed(work: () => Promise<unknown>): Promise<string[]> {
  const of = async () =>
    new Map((await everything()).map((row) => [row['id'] as string, JSON.stringify(row)]));
  const before = await of();
  await work();
  const after = await of();
  return [...after].filter(([id, row]) => before.get(id) !== row).map(([id]) => id);
}

const FENCED: readonly (readonly [string, (lease: Lease) => Promise<unknown>])[] = [
  ['a settle', (lease) => settles.settle(manager, lease, undefined)],
  ['a settle with a result', (lease) => settles.settle(manager, lease, '1')],
  ['a settle of many', (lease) => settles.settleMany(manager, [{ lease, result: '1' }])],
  ['a settle as superseded', (lease) => settles.supersede(manager, lease)],
  ['a failure', (lease) => settles.fail(manager, lease, { state: 'pending', delayMs: 1 }, 'e')],
  ['a refused rerun', (lease) => settles.refuseRerun(manager, lease, [], 'e')],
  ['the begin of a call', (lease) => outbox.begin(manager, lease)],
  ['an excuse', (lease) => outbox.excuse(manager, lease)],
  ['a release', (lease) => outbox.release(manager, [lease], { delayMs: 1 })],
  ['a renewal', (lease) => outbox.renew(manager, [lease], HOUR)],
];

describe.each(FENCED)('the fence of %s', (_, send) => {
  const row = { ...LEASED, kind: 'handler', event_id: 'e', rerun: { from: 'done', newEffects: 'refuse' } };

  it('lets the lease change its row, and no other', async () => {
    const { id } = await add(row);
    await add(row);
    expect(await changed(() => send(leaseOf({ id })))).toEqual([id]);
  });

  it.each<[string, (lease: Lease) => Lease]>([
    ['another attempt', (lease) => ({ ...lease, attempt: 1 })],
    ['another owner', (lease) => ({ ...lease, owner: OTHER })],
    ['another row', (lease) => ({ ...lease, id: randomUUID() })],
  ])('refuses %s', async (_what, wrong) => {
    const { id } = await add(row);
    expect(await changed(() => send(wrong(leaseOf({ id }))))).toEqual([]);
    expect(await results()).toEqual([]);
    expect(await database.query(`SELECT FROM webhook_attempt`)).toEqual([]);
  });
});

describe('a renewal', () => {
  it.each([
    ['its own', {}, true],
    ['one of another owner', { leased_by: OTHER }, false],
    ['another attempt', { attempt: 3 }, false],
    ['one that is settled', { ...DONE, leased_by: null, lease_until: null }, false],
  ])('tells %s', async (_, columns, isOurs) => {
    const row = await add({ ...LEASED, ...columns });
    await add(LEASED);
    expect([...(await outbox.renew(manager, [leaseOf(row)], HOUR))]).toEqual(isOurs ? [row.id] : []);
  });
});

describe('results', () => {
  it('are kept of those that have one, with their rows', async () => {
    const [a, b] = [await add(LEASED), await add(LEASED)];
    await settles.settleMany(manager, [
      { lease: leaseOf(a), result: '"a"' },
      { lease: leaseOf(b), result: undefined },
    ]);
    expect(await results()).toEqual([{ id: a.id, result: '"a"' }]);
    const c = await add(LEASED);
    expect(await settles.settle(manager, leaseOf(c), undefined)).toBe(true);
    expect(await results()).toHaveLength(1);
  });

  it('are kept beside a row before its settle, and not of one that was erased', async () => {
    const [row, erased] = [await add(LEASED), await add({ ...DONE, state: 'erased' })];
    await settles.keepResult(manager, row.id, '1');
    await settles.keepResult(manager, row.id, '2');
    await settles.keepResult(manager, erased.id, '3');
    expect(await results()).toEqual([{ id: row.id, result: '2' }]);
  });

  it('wait for an erasure that is under way', async () => {
    const row = await add(LEASED);
    const erasing = database.dataSource.createQueryRunner();
    await erasing.startTransaction();
    try {
      await erasing.query(
        `UPDATE webhook_outbox SET state = 'erased', leased_by = NULL, settled_at = now() WHERE id = $1`,
        [row.id],
      );
      const keeping = settles.keepResult(manager, row.id, '1');
      await waitsForLock();
      await erasing.commitTransaction();
      await keeping;
    } finally {
      if (erasing.isTransactionActive) await erasing.rollbackTransaction();
      await erasing.release();
    }
    expect(await results()).toEqual([]);
  });
});

describe('a late end', () => {
  const kept = { ...LEASED, leased_by: null };
  const OPEN: readonly [string, Record<string, unknown>][] = [
    ['a parked row', PARKED],
    ['a row that waits for its next attempt', kept],
  ];
  const CLOSED: readonly [string, Record<string, unknown>][] = [
    ['a row that runs again', { ...LEASED, leased_by: OTHER }],
    ['a parked row of a later attempt', { ...PARKED, attempt: 3 }],
    ['a row that waits for the next attempt but one', { ...kept, attempt: 3 }],
    ['a row that is done', DONE],
    ['a dead row', DEAD],
    ['an erased row', { ...DONE, state: 'erased' }],
  ];
  const dead = { state: 'dead', reason: 'permanent-error' } as const;

  it.each(OPEN)('settles %s', async (_, columns) => {
    const row = await add(columns);
    await add(columns);
    expect(await changed(() => settles.settleLate(manager, leaseOf(row), '1'))).toEqual([row.id]);
    expect(await results()).toEqual([{ id: row.id, result: '1' }]);
    const other = await add(columns);
    expect(await settles.settleLate(manager, leaseOf(other), undefined)).toBe(true);
    expect(await results()).toHaveLength(1);
  });

  it.each(CLOSED)('does not settle %s', async (_, columns) => {
    const row = await add(columns);
    expect(await changed(() => settles.settleLate(manager, leaseOf(row), '1'))).toEqual([]);
    expect(await settles.settleLate(manager, leaseOf(row), '1')).toBe(false);
    expect(await results()).toEqual([]);
  });

  it.each([...OPEN, ...CLOSED])('resumes a parked row alone: %s', async (_, columns) => {
    const row = await add(columns);
    await add(columns);
    const isResumed = columns === PARKED;
    expect(await changed(() => settles.resumeLate(manager, leaseOf(row), '1'))).toEqual(
      isResumed ? [row.id] : [],
    );
  });

  it.each([...OPEN, ...CLOSED])('makes a waiting row dead alone: %s', async (_, columns) => {
    const row = await add(columns);
    await add(columns);
    const isDead = columns === kept;
    expect(await changed(() => settles.failLate(manager, leaseOf(row), dead, 'e'))).toEqual(
      isDead ? [row.id] : [],
    );
    expect(await database.query(`SELECT FROM webhook_attempt`)).toHaveLength(isDead ? 1 : 0);
  });
});

describe('an answer that was lost is looked up', () => {
  it.each([
    ['done', DONE, 'done'],
    ['superseded', { ...DONE, state: 'superseded', kind: 'handler', event_id: 'e' }, 'superseded'],
    ['dead', DEAD, undefined],
    ['done by another attempt', { ...DONE, attempt: 3 }, undefined],
    ['owed', { ...LEASED, leased_by: null }, undefined],
  ])('an end: %s', async (_, columns, end) => {
    await add(DONE);
    const row = await add(columns);
    expect(await settles.endOf(manager, leaseOf(row))).toBe(end);
    expect(await settles.endOf(manager, leaseOf({ id: randomUUID() }))).toBeUndefined();
  });

  it.each([
    ['this one', {}, true],
    ['of another attempt', { attempt: 3 }, false],
    ['of another reason', { reason: 'attempts-exhausted' }, false],
    ['without a reason', { reason: null }, false],
    ['of another error', { error: 'another' }, false],
    ['with another end', { ...PARKED, reason: 'permanent-error', error: 'e', settled_at: null }, false],
  ])('a failure: %s', async (_, columns, isFound) => {
    await add(DEAD);
    const row = await add({ ...DEAD, ...columns });
    const to = { state: 'dead', reason: 'permanent-error' } as const;
    expect(await settles.hasFailed(manager, leaseOf(row), to, 'e')).toBe(isFound);
    expect(await settles.hasFailed(manager, leaseOf({ id: randomUUID() }), to, 'e')).toBe(false);
  });

  it.each([
    ['that waits', { leased_by: null }, true],
    ['that was leased since', {}, false],
  ])('a failure to be repeated: %s', async (_, columns, isFound) => {
    const row = await add({ ...LEASED, error: 'e', ...columns });
    const to = { state: 'pending', delayMs: 1 } as const;
    expect(await settles.hasFailed(manager, leaseOf(row), to, 'e')).toBe(isFound);
  });

  it.each([
    ['this one', {}, true],
    ['of another attempt', { attempt: 3 }, false],
    ['that runs again', { ...LEASED }, false],
    ['of a row that was not refused', { rerun: { from: 'done' } }, false],
  ])('a refusal: %s', async (_, columns, isFound) => {
    await add({ ...DONE, rerun: { refused: [] } });
    const row = await add({
      ...DONE,
      rerun: { refused: [] },
      settled_at: 'leased_by' in columns ? null : ago(1),
      ...columns,
    });
    expect(await settles.isRefusedRerun(manager, leaseOf(row))).toBe(isFound);
    expect(await settles.isRefusedRerun(manager, leaseOf({ id: randomUUID() }))).toBe(false);
  });
});

describe('a lease', () => {
  const name = { name: 'mail', maxAttempts: 5, limit: 10 };
  const waiting = { order_name: 'mail', order_key: 'k', waits: true };
  const event = { kind: 'handler', source: 's', tenant: 't', event_id: 'e' };
  const ended = { leased_by: OTHER, lease_until: ago(1_000), attempt: 1 };
  const live = { leased_by: OTHER, lease_until: ago(-HOUR), attempt: 1 };
  const DECOYS: readonly [string, Record<string, unknown>][] = [
    ['of another name', { ...FREE, name: 'print' }],
    ['due later', { ...FREE, due_at: ago(-HOUR) }],
    ['that waits for its turn', { ...FREE, ...waiting }],
    ['that another process holds', { ...FREE, ...live }],
    ['that is done', DONE],
    ['that is parked', PARKED],
  ];
  const lease = (limit = 10, of = {}) => outbox.lease(manager, OWNER, HOUR, [{ ...name, ...of }], limit);
  const alone = () => outbox.leaseAlone(manager, OWNER, HOUR, [name]);

  it.each([...DECOYS, ['in quarantine', { ...FREE, alone: true }] as const])(
    'takes no row %s',
    async (_, row) => {
      await add(row);
      const right = await add(FREE);
      expect(await changed(lease)).toEqual([right.id]);
    },
  );

  it.each([...DECOYS, ['that is not in quarantine', FREE] as const])(
    'of the quarantine takes no row %s',
    async (_, row) => {
      await add({
        ...row,
        due_at: (row['due_at'] as Date) > new Date() ? row['due_at'] : ago(2 * HOUR),
        alone: row !== FREE,
      });
      const right = await add({ ...FREE, alone: true });
      expect(await changed(alone)).toEqual([right.id]);
    },
  );

  it.each([...DECOYS, ['in quarantine', { ...FREE, alone: true }] as const])(
    'is not asked for by a row %s',
    async (_, row) => {
      await add(row);
      expect(await outbox.dueNames(manager, ['mail'])).toEqual(new Set());
      await add(FREE);
      expect(await outbox.dueNames(manager, ['mail', 'fax'])).toEqual(new Set(['mail']));
    },
  );

  it('begins where the lease before has ended, with the same due time', async () => {
    const since = ago(HOUR);
    await add({ ...FREE, due_at: ago(2 * HOUR) });
    const [same, later] = [await add({ ...FREE, due_at: since }), await add({ ...FREE, due_at: ago(1_000) })];
    const { leased } = await lease(10, { since: since.toISOString() });
    expect(leased.map(({ id }) => id).toSorted()).toEqual([same.id, later.id].toSorted());
  });

  it('takes the first rows by their due times, of the share and of all', async () => {
    const rows = [];
    for (const hours of [3, 2, 1]) rows.push((await add({ ...FREE, due_at: ago(hours * HOUR) })).id);
    expect(await changed(() => lease(10, { limit: 2, shareLimit: 1 }))).toEqual([rows[0]]);
    expect(await changed(() => lease(10, { limit: 1 }))).toEqual([rows[1]]);
    expect(await changed(() => lease(1))).toEqual([rows[2]]);
  });

  it('of the quarantine takes the first of its line', async () => {
    const later = await add({ ...FREE, alone: true, due_at: ago(HOUR) });
    const first = await add({ ...FREE, alone: true, due_at: ago(2 * HOUR) });
    expect(await changed(alone)).toEqual([first.id]);
    expect(await changed(alone)).toEqual([later.id]);
  });

  it.each([
    ['an effect that has used its attempts', { attempt: 5 }, 'dead'],
    ['an effect that has one left', { attempt: 4 }, 'pending'],
    ['an effect whose last attempt was lost', { ...ended, attempt: 5 }, 'dead'],
    ['a handler that has used its attempts', { ...event, attempt: 5 }, 'dead'],
    // The loss that brings a handler into quarantine is forgiven.
    ['a handler whose last attempt was lost', { ...event, ...ended, attempt: 5 }, 'pending'],
  ])('of %s', async (_, columns, state) => {
    const { id } = await add({ ...FREE, ...columns });
    await lease();
    expect(await everything()).toMatchObject([{ id, state }]);
  });

  it.each([
    ['an effect that has used its attempts', { attempt: 5 }, 'dead'],
    ['a handler that has none left, and did not lose the last', { ...event, attempt: 5 }, 'pending'],
    ['a handler that has lost its last one too', { ...event, ...ended, attempt: 5 }, 'dead'],
    ['a handler that has one left', { ...event, ...ended, attempt: 4 }, 'pending'],
  ])('of the quarantine: of %s', async (_, columns, state) => {
    const { id } = await add({ ...FREE, ...columns, alone: true });
    await alone();
    expect(await everything()).toMatchObject([{ id, state }]);
  });

  it.each([
    ['begun', { begun_at: ago(HOUR) }, 'parked'],
    ['not begun', {}, 'dead'],
  ])('of an exhausted effect that parks, %s', async (_, columns, state) => {
    for (const isAlone of [false, true]) {
      await add({ ...FREE, ...ended, ...columns, attempt: 5, alone: isAlone });
      await outbox.lease(manager, OWNER, HOUR, [{ ...name, parks: true }], 10);
      await outbox.leaseAlone(manager, OWNER, HOUR, [{ ...name, parks: true }]);
    }
    expect(await everything()).toMatchObject([{ state }, { state }]);
  });

  describe('for a redelivery', () => {
    const claim = randomUUID().replace(/^(.{14})./, '$17');
    const idOf = () => `${claim.slice(0, 14)}8${claim.slice(15, 18)}${randomUUID().slice(18)}`;
    const of = { ...FREE, ...event };
    const key = { source: 's', tenant: 't', eventId: 'e' };
    const leaseEvent = () => outbox.leaseEvent(manager, OWNER, HOUR, key, [{ name: 'mail', maxAttempts: 5 }]);
    beforeEach(() =>
      database.query(
        `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
         VALUES ('s', 't', 'e', $1, 1, 'x', 'delivery', '', '[]')`,
        [claim],
      ),
    );

    it.each<[string, Record<string, unknown>, number]>([
      ['an effect', { ...of, kind: 'effect' }, 0],
      ['done', { ...of, state: 'done', settled_at: ago(HOUR) }, 0],
      ['that waits for its turn', { ...of, ...waiting }, 1],
      ['that another process holds', { ...of, ...live }, 1],
      ['of another name', { ...of, name: 'print' }, 1],
    ])('takes no row %s', async (_, row, busy) => {
      await add({ ...row, id: idOf() });
      const right = await add({ ...of, id: idOf() });
      const late = await add({ ...of, id: idOf(), due_at: ago(-HOUR) });
      let answer: Awaited<ReturnType<typeof leaseEvent>> | undefined;
      const rows = await changed(async () => (answer = await leaseEvent()));
      expect(rows.toSorted()).toEqual([right.id, late.id].toSorted());
      expect(answer!.busy).toBe(busy);
      expect(answer!.leased.map((one) => one.event?.type)).toEqual(['x', 'x']);
    });
  });

  it('brings the bytes of an effect, and the body of its own event to a handler', async () => {
    await database.query(
      `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers, body)
       SELECT source, tenant, event_id, gen_random_uuid(), 1, source || tenant || event_id, 'delivery', '', '[]', 'b'
         FROM unnest(ARRAY['s', 'x']) source, unnest(ARRAY['t', 'y']) tenant, unnest(ARRAY['e', 'z']) event_id`,
    );
    const handler = await add({ ...FREE, ...event, created_at: ago(HOUR) });
    const effect = await add({ ...FREE, created_at: ago(2 * HOUR) });
    const beside = await add({ ...FREE, due_at: ago(-HOUR) });
    for (const { id } of [handler, effect, beside])
      await database.query(`INSERT INTO webhook_outbox_data (outbox_id, payload) VALUES ($1, $2)`, [id, id]);
    const { leased } = await lease();
    expect(leased.map(({ id, payload, event: of }) => [id, payload?.toString(), of?.type])).toEqual([
      [effect.id, effect.id, undefined],
      [handler.id, undefined, 'ste'],
    ]);
  });
});

describe('rows that a lease has made dead or parked', () => {
  const at = ago(60_000);
  const dead = { ...DEAD, reason: 'last-attempt-lost', settled_at: at, lease_until: at };
  const parked = { ...PARKED, lease_until: at };
  const NOT: readonly [string, Record<string, unknown>][] = [
    ['of another name', { ...dead, name: 'print' }],
    ['dead for too long', { ...dead, settled_at: ago(HOUR), lease_until: ago(HOUR) }],
    ['dead by a settle before the end of its lease', { ...dead, lease_until: ago(-HOUR) }],
    ['dead for another reason', { ...dead, reason: 'permanent-error' }],
    ['revived and done', { ...dead, state: 'done' }],
    ['parked for too long', { ...parked, lease_until: ago(HOUR) }],
    ['parked by a settle', { ...parked, lease_until: ago(-HOUR) }],
    ['parked by a person', { ...parked, reason: 'held' }],
    ['resumed', { ...parked, state: 'pending' }],
  ];
  const since = async (settled: readonly string[] = []) =>
    (await outbox.exhaustedSince(manager, ['mail'], HOUR / 2, settled)).map(({ id }) => id);

  it('are found in the order of their ends', async () => {
    const first = await add({ ...parked, lease_until: ago(180_000) });
    const last = await add({ ...dead, settled_at: ago(60_000), lease_until: ago(60_000) });
    const second = await add({ ...dead, settled_at: ago(120_000), lease_until: ago(120_000) });
    expect(await since()).toEqual([first.id, second.id, last.id]);
  });

  it.each(NOT)('are none: %s', async (_, row) => {
    await add(row);
    expect(await since()).toEqual([]);
  });

  it('are those of a settle that is asked for by its id', async () => {
    const { id } = await add({ ...dead, reason: 'permanent-error', lease_until: ago(-HOUR) });
    await add({ ...DEAD, settled_at: at });
    expect(await since([id])).toEqual([id]);
  });

  it('are counted while they are dead, to a limit', async () => {
    for (const row of [DEAD, DEAD, DEAD, DONE, PARKED, FREE]) await add(row);
    expect([await outbox.countDead(manager, 10), await outbox.countDead(manager, 2)]).toEqual([3, 2]);
  });
});

async function waitsForLock(): Promise<void> {
  for (;;) {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    if (waiting.length > 0) return;
  }
}
