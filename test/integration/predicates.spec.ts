import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { DecisionStore } from '../../src/storage/desk/decision.store.js';
import { EffectStore } from '../../src/storage/effect.store.js';
import { ErasureStore } from '../../src/storage/desk/erasure.store.js';
import { NamedLeaseStore } from '../../src/storage/named-lease.store.js';
import type { Lease } from '../../src/storage/leased-rows.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { PauseStore } from '../../src/storage/pause.store.js';
import { SettleStore } from '../../src/storage/settle.store.js';
import { WatermarkStore } from '../../src/storage/watermark.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// Each statement is asked beside rows that differ from the right one in one column: each of its conditions must tell them apart.

const outbox = new OutboxStore();
const settles = new SettleStore();
const decisions = new DecisionStore();
const effects = new EffectStore();
const marks = new WatermarkStore();
const pauses = new PauseStore();
const jobs = new NamedLeaseStore();
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

describe.each(FENCED.filter(([what]) => what !== 'a renewal'))('%s', (_, send) => {
  it('waits for a transaction that takes the lease away, and is refused then', async () => {
    const { id } = await add({ ...LEASED, kind: 'handler', event_id: 'e', rerun: { from: 'done' } });
    const taking = database.dataSource.createQueryRunner();
    await taking.startTransaction();
    try {
      await taking.query(`UPDATE webhook_outbox SET leased_by = $2, attempt = 3 WHERE id = $1`, [id, OTHER]);
      const sent = send(leaseOf({ id }));
      await waitsForLock();
      await taking.commitTransaction();
      await sent;
    } finally {
      if (taking.isTransactionActive) await taking.rollbackTransaction();
      await taking.release();
    }
    expect(await everything()).toMatchObject([
      { state: 'pending', leased_by: OTHER, attempt: 3, attempt_base: 0, begun_at: null },
    ]);
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

  it('takes no more rows of several names than it may in all', async () => {
    for (const one of ['mail', 'print']) await add({ ...FREE, name: one });
    const names = [name, { ...name, name: 'print' }];
    expect(await changed(() => outbox.lease(manager, OWNER, HOUR, names, 1))).toHaveLength(1);
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

describe('a decision of a person', () => {
  const ann = { by: 'ann', reason: 'to see' };
  const ROWS: Readonly<Record<string, Record<string, unknown>>> = {
    free: FREE,
    begun: { ...FREE, begun_at: ago(HOUR) },
    leased: LEASED,
    handler: { ...FREE, kind: 'handler', event_id: 'e' },
    route: { ...FREE, kind: 'handler', event_id: 'e', name: 'route' },
    'effect of a route’s name': { ...FREE, name: 'route' },
    parked: PARKED,
    dead: DEAD,
    'given up': { ...DEAD, reason: 'given-up' },
    done: DONE,
    erased: { ...DONE, state: 'erased' },
  };
  let ids: Map<string, string>;
  beforeEach(async () => {
    ids = new Map();
    for (const [name, columns] of Object.entries(ROWS)) ids.set(name, (await add(columns)).id);
  });
  /** Names of the rows that `work` has changed. */
  const decided = async (work: (all: string[]) => Promise<unknown>) => {
    const rows = await changed(() => work([...ids.values()]));
    return [...ids].filter(([, id]) => rows.includes(id)).map(([name]) => name);
  };
  /** As `decided`, of one row at a time. */
  const oneByOne = async (work: (id: string) => Promise<unknown>) => {
    const names: string[] = [];
    for (const [name, id] of ids) {
      const rows = await decided(() => work(id));
      expect([[], [name]]).toContainEqual(rows);
      names.push(...rows);
    }
    return names;
  };

  it('revives what is dead', async () => {
    expect(await decided((all) => decisions.revive(manager, all, [], ann))).toEqual(['dead', 'given up']);
  });

  it('revives what it names, and has handlers of routes alone wait for their redelivery', async () => {
    const of = { ...DEAD, event_id: 'e' };
    const [handler, route, effect] = [
      await add({ ...of, kind: 'handler' }),
      await add({ ...of, kind: 'handler', name: 'route' }),
      await add({ ...of, name: 'route' }),
    ];
    const asked = [handler.id, route.id, effect.id];
    const revived = await changed(() => decisions.revive(manager, asked, [{ name: 'route', ms: HOUR }], ann));
    expect(revived.toSorted()).toEqual(asked.toSorted());
    const waiting = await database.query(
      `SELECT id FROM webhook_outbox WHERE due_at > now() AND state = 'pending'`,
    );
    expect(waiting).toEqual([{ id: route.id }]);
  });

  it('revives what another person has revived meanwhile no second time', async () => {
    const reviving = database.dataSource.createQueryRunner();
    await reviving.startTransaction();
    try {
      await decisions.revive(reviving.manager, [ids.get('dead')!], [], ann);
      const second = decisions.revive(manager, [ids.get('dead')!], [], ann);
      await waitsForLock();
      await reviving.commitTransaction();
      expect(await second).toEqual([]);
    } finally {
      if (reviving.isTransactionActive) await reviving.rollbackTransaction();
      await reviving.release();
    }
  });

  it('gives up what is dead, once', async () => {
    const all = [...ids.values()];
    expect(await decisions.giveUp(manager, all, ann)).toMatchObject([{ outbox: ids.get('dead') }]);
    expect(await decisions.giveUp(manager, all, ann)).toEqual([]);
    const other = await add(DEAD);
    await add(DEAD);
    expect(await changed(() => decisions.giveUp(manager, [other.id], ann))).toEqual([other.id]);
  });

  it('parks what waits, and no row of a route', async () => {
    expect(await oneByOne((id) => decisions.park(manager, [id], ['route'], ann))).toEqual([
      'free',
      'begun',
      'handler',
      'effect of a route’s name',
    ]);
  });

  it('decides what is parked', async () => {
    expect(await oneByOne((id) => decisions.decide(manager, id, 'retry', ann))).toEqual(['parked']);
    const ordered = await add({ ...PARKED, order_name: 'mail', order_key: 'k' });
    await decisions.decide(manager, ordered.id, 'done', ann);
    expect(
      await database.query(`SELECT state, waits FROM webhook_outbox WHERE id = $1`, [ordered.id]),
    ).toEqual([{ state: 'done', waits: false }]);
  });

  it('calls back effects that wait and have not begun', async () => {
    expect(await oneByOne((id) => effects.cancel(manager, id))).toEqual(['free', 'effect of a route’s name']);
    expect(await effects.cancel(manager, randomUUID())).toBeUndefined();
    expect(await effects.cancel(manager, ids.get('handler')!)).toBeUndefined();
    expect(await effects.cancel(manager, ids.get('done')!)).toMatchObject({
      state: 'done',
      isCancelled: false,
    });
  });

  it('tells the turn of a row that was called back, and none of one that waited for it', async () => {
    const of = { ...FREE, order_name: 'mail', order_key: 'k' };
    const [first, second] = [await add(of), await add({ ...of, waits: true })];
    expect(await effects.cancel(manager, second.id)).toMatchObject({ isCancelled: true, turn: undefined });
    expect(await effects.cancel(manager, first.id)).toMatchObject({ turn: { name: 'mail', key: 'k' } });
  });

  it('is previewed and followed of the rows that it names', async () => {
    const dead = ids.get('dead')!;
    await add({ ...DONE, name: 'of dead', parent_id: dead });
    await add({ ...FREE, name: 'of dead', parent_id: dead });
    await add({ ...DONE, name: 'of done', parent_id: ids.get('done') });
    expect(await decisions.previewRevive(manager, [dead, ids.get('done')!])).toEqual([
      { name: 'mail', runs: true, rows: 1 },
      { name: 'of dead', runs: false, rows: 1 },
    ]);
    const failed = await add({ ...FREE, error: 'once' });
    const asked = [dead, ids.get('given up')!, ids.get('done')!, failed.id];
    expect(await decisions.progress(manager, asked)).toMatchObject([
      { state: 'dead', rows: 2, error: 'e' },
      { state: 'done', rows: 1, fingerprints: [], error: null },
      { state: 'pending', rows: 1, fingerprints: [], error: null },
    ]);
    expect([...(await decisions.states(manager, [dead])).keys()]).toEqual([dead]);
  });
});

describe('an effect that is enqueued', () => {
  const fresh = (columns = {}) => ({
    id: randomUUID(),
    name: 'mail',
    firstName: 'mail',
    key: '',
    payload: Buffer.from('1'),
    ...columns,
  });

  it('is found by its key, outside of any run alone', async () => {
    await add({ ...FREE, kind: 'handler', event_id: 'e', order_name: 'mail', key: 'k' });
    const row = fresh({ key: 'k' });
    await effects.enqueue(manager, [
      fresh(),
      fresh({ key: 'k', parentId: randomUUID() }),
      fresh({ key: 'k', parentId: randomUUID(), orderKey: 'o' }),
      fresh({ key: 'other' }),
      fresh({ key: 'k', firstName: 'print' }),
      row,
    ]);
    expect(await effects.idOfKey(manager, ['mail'], 'k')).toBe(row.id);
    expect(await effects.idOfKey(manager, ['mail'], 'none')).toBeUndefined();
    await add({ ...FREE, order_name: 'mail', order_key: 'o' });
    expect(await effects.idOfKey(manager, ['mail'], '')).toBeUndefined();
    expect(await effects.findPresent(manager, [row.id, randomUUID()])).toEqual(new Set([row.id]));
    const named = await database.query(
      `SELECT count(*)::int AS n FROM webhook_outbox WHERE order_name IS NULL AND kind = 'effect'`,
    );
    expect(named).toEqual([{ n: 2 }]);
  });

  it('has its payload compared, and another one noted on it alone', async () => {
    const [row, beside] = [fresh(), fresh()];
    await effects.enqueue(manager, [beside, row]);
    expect(await effects.findExisting(manager, [row.id], Buffer.from('1'))).toEqual({
      id: row.id,
      otherPayload: false,
    });
    const noted = () =>
      database.query<{ id: string }>(
        `SELECT outbox_id AS id FROM webhook_outbox_data WHERE other_payload_sha256 IS NOT NULL`,
      );
    expect(await noted()).toEqual([]);
    expect(await effects.findExisting(manager, [row.id], Buffer.from('2'))).toEqual({
      id: row.id,
      otherPayload: true,
    });
    expect(await noted()).toEqual([{ id: row.id }]);
    expect(await effects.findExisting(manager, [randomUUID()], Buffer.from('1'))).toBeUndefined();
  });
});

describe('a mark, a pause and a job', () => {
  const mark = { handler: 'h', source: 's', tenant: 't', key: 'k' };

  it('a mark is raised by the same time or a later one, and not beyond a day ahead', async () => {
    const at = ago(HOUR);
    const raise = (time: Date) => marks.raise(manager, mark, time);
    expect([
      await raise(at),
      await raise(at),
      await raise(ago(2 * HOUR)),
      await raise(ago(-25 * HOUR)),
    ]).toEqual(['newest', 'newest', 'stale', 'future']);
    expect([await raise(ago(HOUR / 2)), await raise(ago(-23 * HOUR)), await raise(ago(0))]).toEqual([
      'newest',
      'newest',
      'stale',
    ]);
    await database.query('TRUNCATE webhook_watermark');
  });

  it('a pause is ended under its kind and its names', async () => {
    for (const [kind, name] of [
      ['source', 'b'],
      ['source', 'a'],
      ['effect', 'a'],
    ] as const)
      expect(await pauses.pause(manager, kind, name, 'ann', 'to see')).toBe(true);
    const listed = async () => (await pauses.list(manager)).map(({ kind, name }) => `${kind} ${name}`);
    expect(await listed()).toEqual(['effect a', 'source a', 'source b']);
    expect(await pauses.resume(manager, 'source', ['a', 'c'])).toBe(true);
    expect(await listed()).toEqual(['effect a', 'source b']);
    expect(await pauses.resume(manager, 'handler', ['a', 'b'])).toBe(false);
    await database.query('TRUNCATE webhook_pause');
  });

  it('a job is of one owner until it ends or is given back by that one', async () => {
    const take = (name: string, owner: string, ms = HOUR) => jobs.take(manager, name, owner, ms);
    expect([await take('one', OWNER), await take('one', OTHER), await take('one', OWNER, 0)]).toEqual([
      true,
      false,
      true,
    ]);
    expect([await take('one', OTHER), await take('two', OTHER), await take('one', OWNER)]).toEqual([
      true,
      true,
      false,
    ]);
    await jobs.giveBack(manager, 'one', OWNER);
    expect(await take('one', OWNER)).toBe(false);
    await jobs.giveBack(manager, 'one', OTHER);
    expect([await take('two', OWNER), await take('one', OWNER)]).toEqual([false, true]);
    await database.query('TRUNCATE webhook_lease');
  });
});

describe('an erasure', () => {
  const store = new ErasureStore();
  const key = { source: 's', tenant: 't', eventId: 'e' };
  const claims = () =>
    database.query<{ of: string; erased: boolean; body: string | null }>(
      `SELECT source || tenant || event_id AS of, erased_at IS NOT NULL AS erased, body FROM webhook_claim`,
    );
  beforeEach(() =>
    database.query(`
      WITH claims AS (
        INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers, body, body_sha256)
        SELECT source, tenant, event_id, ('0199000' || row_number() OVER () - 1 || '-0000-7000-8000-000000000000')::uuid, 1, 'x', 'delivery', '', '[]', 'b', 'b'
          FROM unnest(ARRAY['s', 'x']) source, unnest(ARRAY['t', 'y']) tenant, unnest(ARRAY['e', 'z']) event_id
        RETURNING *
      ), conflicts AS (
        INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, body, headers)
        SELECT source, tenant, event_id, 'other-bytes', 'c', 'c', '[]' FROM claims
      ), payload_values AS (
        INSERT INTO webhook_payload_value (source, path, value, claim_id) SELECT source, 'p', 'v', id FROM claims
      ), rows AS (
        INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
        SELECT overlay(id::text PLACING '8' FROM 15)::uuid, 'handler', source || tenant || event_id, source, tenant, event_id FROM claims
        RETURNING id
      ), data AS (
        INSERT INTO webhook_outbox_data (outbox_id, payload, result) SELECT id, 'p', 'r' FROM rows
      )
      INSERT INTO webhook_attempt (outbox_id, attempt, outcome, error) SELECT id, 1, 'retry', 'e' FROM rows`),
  );
  afterEach(() => database.query('TRUNCATE webhook_conflict, webhook_payload_value'));

  it('is of one event: its claim, its conflicts and its values', async () => {
    await store.eraseClaim(manager, key, 'ann', 'asked');
    const whole = (await claims()).filter(({ erased, body }) => !erased && body !== null).map(({ of }) => of);
    expect(whole.toSorted()).toEqual(['stz', 'sye', 'syz', 'xte', 'xtz', 'xye', 'xyz']);
    const [{ conflicts } = {}] = await database.query(
      `SELECT array_agg(source || tenant || event_id) AS conflicts FROM webhook_conflict WHERE body IS NULL AND headers IS NULL`,
    );
    expect(conflicts).toEqual(['ste']);
    const [{ kept } = {}] = await database.query(`SELECT count(*)::int AS kept FROM webhook_payload_value`);
    expect(kept).toBe(7);
  });

  it('finds its claim and rows, and erases what it names', async () => {
    await store.eraseClaim(manager, { source: 'x', tenant: 'y', eventId: 'z' }, 'ann', 'asked');
    const erased = async (source: string, tenant: string, eventId: string) =>
      store.lockClaim(manager, { source, tenant, eventId });
    expect([await erased('x', 'y', 'z'), await erased('s', 't', 'e')]).toEqual([true, false]);
    for (const [source, tenant, eventId] of [
      ['s', 'y', 'z'],
      ['x', 't', 'z'],
      ['x', 'y', 'e'],
    ] as const)
      expect(await erased(source, tenant, eventId)).toBe(false);
    expect(await erased('s', 't', 'none')).toBeUndefined();
    const rows = await store.lockRows(manager, key);
    expect(rows).toMatchObject([{ name: 'ste', state: 'pending' }]);
    const ids = rows.map((row) => row.id);
    expect(await changed(() => store.eraseRows(manager, ids))).toEqual(ids);
    await store.eraseData(manager, ids);
    const left = await database.query(
      `SELECT count(payload)::int AS data, (SELECT count(error)::int FROM webhook_attempt) AS errors FROM webhook_outbox_data`,
    );
    expect(left).toEqual([{ data: 7, errors: 7 }]);
  });

  it.each([
    ['its claim', (on: EntityManager) => store.lockClaim(on, key), 'webhook_claim'],
    ['its rows', (on: EntityManager) => store.lockRows(on, key), 'webhook_outbox'],
  ])('locks %s', async (_, lock, table) => {
    await manager.transaction(async (on) => {
      await lock(on);
      const free = await database.query(
        `SELECT FROM ${table} WHERE source = 's' AND tenant = 't' AND event_id = 'e' FOR UPDATE SKIP LOCKED`,
      );
      expect(free).toEqual([]);
    });
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
