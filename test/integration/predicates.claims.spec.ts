import { hash } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../src/core/event.js';
import { outboxId, uuidV7 } from '../../src/core/ids.js';
import { ClaimStore, type NewClaim } from '../../src/storage/claim.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// As in predicates.spec: each statement about claims is asked beside claims and rows that differ from the right ones in one column.

const store = new ClaimStore();
const HOUR = 3_600_000;
const KEY: EventKey = { source: 's', tenant: 't', eventId: 'e' };
/** Each differs in one part of the key. */
const BESIDE: readonly EventKey[] = [
  { ...KEY, source: 'x' },
  { ...KEY, tenant: 'x' },
  { ...KEY, eventId: 'x' },
];
const ERASE = `UPDATE webhook_claim SET erased_at = now(), body = NULL`;
let database: TestDatabase;
let manager: EntityManager;

beforeAll(async () => {
  database = await createDatabase();
  ({ manager } = database.dataSource);
});
afterEach(() =>
  database.query(
    `TRUNCATE webhook_claim, webhook_outbox, webhook_outbox_data, webhook_conflict, webhook_payload_value`,
  ),
);
afterAll(() => database?.drop());

const sha = (text: string) => Buffer.from(hash('sha256', text, 'hex'), 'hex');
const textOf = ({ source, tenant, eventId }: EventKey) => `${source}${tenant}${eventId}`;

function fresh(key: Partial<EventKey> = {}, body = 'b', columns: Partial<NewClaim> = {}): NewClaim {
  return {
    ...KEY,
    ...key,
    id: uuidV7(),
    type: 'grant.made',
    origin: 'delivery',
    verifiedBy: 'test',
    headers: {},
    body: Buffer.from(body),
    rows: [],
    ...columns,
  };
}

/** Of an event whose id no signature covers. */
const unsigned = (key: Partial<EventKey>, body = 'b', columns: Partial<NewClaim> = {}) =>
  fresh(key, body, { bodySha256: sha(body), ...columns });

async function claimed(...claims: NewClaim[]): Promise<NewClaim[]> {
  await store.claim(manager, claims);
  return claims;
}

/** A claim with rows, each of which has these columns. */
async function withRows(key: EventKey, rows: Readonly<Record<string, Record<string, unknown>>>) {
  const claim = fresh(key);
  const names = Object.keys(rows);
  await claimed({ ...claim, rows: names.map((name) => ({ id: outboxId(claim.id, name), name })) });
  for (const [name, columns] of Object.entries(rows)) {
    const sets = Object.keys(columns).map((column, at) => `${column} = $${at + 2}`);
    if (sets.length > 0)
      await database.query(`UPDATE webhook_outbox SET ${sets.join(', ')} WHERE id = $1`, [
        outboxId(claim.id, name),
        ...Object.values(columns),
      ]);
  }
  return claim;
}

describe('known bytes under a new id', () => {
  const suspected = async (...claims: NewClaim[]) =>
    (await store.claim(manager, claims)).map(({ suspectedReplay }) => suspectedReplay);
  const conflicts = () =>
    database.query(`SELECT event_id, kind, deliveries FROM webhook_conflict ORDER BY event_id`);

  it('are suspected, though events of other sources, tenants and ids are known', async () => {
    await claimed(...BESIDE.map((key) => unsigned(key, 'another')));
    await claimed(unsigned({ eventId: 'first' }), unsigned({ eventId: 'second' }));
    await database.query('TRUNCATE webhook_conflict');
    expect(await suspected(unsigned({}))).toEqual([true]);
    expect(await conflicts()).toEqual([{ event_id: 'e', kind: 'suspected-replay', deliveries: 1 }]);
  });

  it('are those of the same source and tenant alone', async () => {
    await claimed(unsigned({ source: 'x', eventId: 'first' }), unsigned({ tenant: 'x', eventId: 'first' }));
    await claimed(unsigned({ eventId: 'first' }, 'another'));
    expect(await suspected(unsigned({}))).toEqual([false]);
    expect(await conflicts()).toEqual([]);
  });

  it('are suspected within one commit too: of each source and tenant all but the first', async () => {
    expect(
      await suspected(
        unsigned({ eventId: '1' }),
        unsigned({ eventId: '2' }),
        unsigned({ eventId: '3' }, 'another'),
        unsigned({ eventId: '4', source: 'x' }),
        unsigned({ eventId: '5', tenant: 'x' }),
      ),
    ).toEqual([false, true, false, false, false]);
    expect(await conflicts()).toMatchObject([{ event_id: '2' }]);
  });

  it('are refused where they are known, and where their source refuses them', async () => {
    await claimed(unsigned({ eventId: 'first' }));
    const refuse = { refuseKnownBytes: true };
    const answers = await store.claim(manager, [
      unsigned({ eventId: '1' }),
      unsigned({ eventId: '2' }, 'b', refuse),
      unsigned({ eventId: '3' }, 'another', refuse),
      unsigned({ eventId: 'first' }, 'b', refuse),
    ]);
    expect(answers.map(({ won, suspectedReplay }) => [won, suspectedReplay])).toEqual([
      [true, true],
      [false, true],
      [true, false],
      [false, false],
    ]);
  });
});

describe('a commit of several claims', () => {
  it.each([
    ['signed ids', fresh, true],
    ['signed ids, and no values to search by', fresh, false],
    ['ids that no signature covers', unsigned, true],
    ['ids that no signature covers, and no values to search by', unsigned, false],
  ])('gives each its own rows and values: %s', async (_, make, areSearched) => {
    const of = (eventId: string): NewClaim => {
      const claim = make({ eventId }, eventId);
      const rows = [{ id: outboxId(claim.id, eventId), name: eventId }];
      return { ...claim, rows, ...(areSearched && { searchValues: [{ path: 'p', value: eventId }] }) };
    };
    await claimed(of('known'));
    const answers = await store.claim(manager, ['a', 'b', 'known'].map(of));
    expect(answers.map(({ won }) => won)).toEqual([true, true, false]);
    const found = await database.query(
      `SELECT c.event_id AS claim, o.name AS row, v.value FROM webhook_claim c JOIN webhook_outbox o USING (source, tenant, event_id)
         LEFT JOIN webhook_payload_value v ON v.claim_id = c.id ORDER BY 1`,
    );
    expect(found).toEqual(
      ['a', 'b', 'known'].map((one) => ({ claim: one, row: one, value: areSearched ? one : null })),
    );
  });

  it.each([
    ['one with a signed id', fresh, 1],
    ['two with signed ids', fresh, 2],
    ['one whose id no signature covers', unsigned, 1],
  ])('has what cannot run wait for no turn: %s', async (_, make, count) => {
    const orderKey = { name: 'h', key: 'k' };
    const claims = Array.from({ length: count }, (_one, nth) => make({ eventId: `${nth}` }, `${nth}`));
    const rowsOf = ({ id }: NewClaim) => [{ id: outboxId(id, 'h'), name: 'h', orderKey, unusable: 'no id' }];
    await claimed(...claims.map((claim) => ({ ...claim, rows: rowsOf(claim) })));
    const rows = await database.query(`SELECT state, waits, reason FROM webhook_outbox`);
    expect(rows).toEqual(claims.map(() => ({ state: 'dead', waits: false, reason: 'unusable-id' })));
    const free = make({ eventId: 'free' }, 'free');
    await claimed({ ...free, rows: [{ id: outboxId(free.id, 'h'), name: 'h', orderKey }] });
    expect(await database.query(`SELECT waits FROM webhook_outbox WHERE event_id = 'free'`)).toEqual([
      { waits: true },
    ]);
  });
});

describe('a redelivery', () => {
  const DEAD = { state: 'dead', reason: 'permanent-error', error: 'e', settled_at: new Date() };
  const redelivery = (key: EventKey, columns = {}) => ({
    ...key,
    bodySha256: sha('b'),
    revive: true,
    ...columns,
  });
  const pending = async () =>
    (
      await database.query<{ of: string; name: string }>(
        `SELECT source || tenant || event_id || ' ' || name AS of FROM webhook_outbox WHERE state = 'pending' ORDER BY 1`,
      )
    ).map((row) => row.of);

  it('revives dead handlers of its event, once, and none that a person gave up', async () => {
    for (const key of BESIDE) await withRows(key, { dead: DEAD });
    await withRows(KEY, {
      dead: DEAD,
      effect: { ...DEAD, kind: 'effect' },
      done: { ...DEAD, state: 'done', reason: null },
      revived: { ...DEAD, revived: true },
      'given up': { ...DEAD, reason: 'given-up' },
      unusable: { ...DEAD, reason: 'unusable-id' },
    });
    const unknown = redelivery({ ...KEY, eventId: 'unknown' });
    const answers = await store.recordDuplicates(manager, [
      redelivery(KEY),
      redelivery(BESIDE[0]!, { revive: false }),
      unknown,
    ]);
    expect(answers).toMatchObject([
      { revived: true, differs: false },
      { revived: false, differs: false },
      { revived: false, differs: false },
    ]);
    expect(await pending()).toEqual(['ste dead']);
    expect(await store.recordDuplicates(manager, [redelivery(KEY)])).toMatchObject([{ revived: false }]);
  });

  it('tells of each event whether it revived that one', async () => {
    for (const key of [KEY, ...BESIDE]) await withRows(key, key === KEY ? { dead: DEAD } : { done: {} });
    const answers = await store.recordDuplicates(
      manager,
      [KEY, ...BESIDE].map((key) => redelivery(key)),
    );
    expect(answers.map(({ revived }) => revived)).toEqual([true, false, false, false]);
  });

  it('leaves an erased event alone', async () => {
    await withRows(KEY, { dead: DEAD });
    await database.query(ERASE);
    const other = redelivery(KEY, { bodySha256: sha('other') });
    expect(await store.recordDuplicates(manager, [other])).toMatchObject([
      { revived: false, differs: false },
    ]);
    expect(await pending()).toEqual([]);
  });

  it('that waits for a person who gives the row up does not revive it', async () => {
    await withRows(KEY, { dead: DEAD });
    await beside(`UPDATE webhook_outbox SET reason = 'given-up'`, async (commit) => {
      const revived = store.recordDuplicates(manager, [redelivery(KEY)]);
      await waitsForLock();
      await commit();
      expect(await revived).toMatchObject([{ revived: false }]);
    });
    expect(await pending()).toEqual([]);
  });

  it.each<[string, Partial<NewClaim>, string, string, unknown]>([
    ['the same bytes', {}, '', 'b', { differs: false, first: undefined }],
    ['other bytes', {}, '', 'other', { differs: true, first: Buffer.from('b') }],
    ['an event that no delivery brought', { origin: 'backfill' }, '', 'other', { differs: false }],
    ['a body that is gone', {}, 'UPDATE webhook_claim SET body = NULL', 'other', { differs: false }],
  ])('differs by its bytes: %s', async (_, columns, change, body, answer) => {
    await claimed(fresh({}, 'b', columns));
    if (change !== '') await database.query(change);
    const one = redelivery(KEY, { bodySha256: sha(body), compare: 'content' });
    expect(await store.recordDuplicates(manager, [one])).toMatchObject([answer]);
    const byBytes = await store.recordDuplicates(manager, [{ ...one, compare: 'bytes' }]);
    expect(byBytes[0]!.first).toBeUndefined();
  });
});

describe('a delivery of other bytes', () => {
  const contradicting = (key: EventKey, body: string) => ({
    ...key,
    headers: { h: body },
    body: Buffer.from(body),
    bodySha256: sha(body),
  });
  const recorded = () =>
    database.query<{ of: string; deliveries: number; body: string | null; headers: unknown }>(
      `SELECT source || tenant || event_id AS of, deliveries, convert_from(body, 'UTF8') AS body, headers FROM webhook_conflict
        ORDER BY 1, 3`,
    );

  it('is kept where its event has a body, up to five of each event', async () => {
    const full = { ...KEY, eventId: 'full' };
    await claimed(fresh(), fresh({ eventId: 'full' }));
    for (const key of [{ ...full, source: 'x' }, { ...full, tenant: 'x' }, full])
      await database.query(
        `INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, body)
         SELECT $1, $2, $3, 'other-bytes', n::text::bytea, 'b' FROM generate_series(1, 5) n`,
        [key.source, key.tenant, key.eventId],
      );
    // Without a body it takes nobody's place.
    await database.query(
      `INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
       SELECT 's', 't', 'e', 'other-bytes', n::text::bytea FROM generate_series(1, 5) n`,
    );
    await store.recordConflicts(manager, [contradicting(KEY, '1'), contradicting(KEY, '2')]);
    await store.recordConflicts(manager, [contradicting(full, '6')]);
    await store.recordConflicts(manager, [contradicting(KEY, '2'), contradicting(KEY, '2')]);
    const rows = await recorded();
    expect(rows.filter(({ of, body }) => of === 'ste' && body !== null)).toEqual([
      { of: 'ste', deliveries: 1, body: '1', headers: { h: '1' } },
      { of: 'ste', deliveries: 3, body: '2', headers: { h: '2' } },
    ]);
    expect(rows.filter(({ of }) => of === 'stfull').map(({ body }) => body)).toEqual([
      ...Array.from({ length: 5 }, () => 'b'),
      null,
    ]);
    await database.query(
      `DELETE FROM webhook_conflict WHERE event_id = 'full' AND source = 's' AND tenant = 't' AND body_sha256 IN ('1', $1)`,
      [sha('6')],
    );
    await store.recordConflicts(manager, [contradicting(full, '6')]);
    expect((await recorded()).filter(({ of, body }) => of === 'stfull' && body === '6')).toHaveLength(1);
  });

  it('is kept of its own event alone: others have no body, or are not there', async () => {
    await claimed(...BESIDE.map((key) => fresh(key)));
    const all = [KEY, ...BESIDE].map((key) => contradicting(key, '1'));
    await store.recordConflicts(manager, all);
    expect((await recorded()).map(({ of, body }) => [of, body])).toEqual([
      ['ste', null],
      ['stx', '1'],
      ['sxe', '1'],
      ['xte', '1'],
    ]);
    await database.query('TRUNCATE webhook_conflict');
    await claimed(fresh());
    await database.query(`UPDATE webhook_claim SET body = NULL WHERE source = 's'`);
    await store.recordConflicts(manager, [contradicting(KEY, '2'), contradicting(BESIDE[0]!, '2')]);
    expect(await recorded()).toEqual([
      { of: 'ste', deliveries: 1, body: null, headers: null },
      { of: 'xte', deliveries: 1, body: '2', headers: { h: '2' } },
    ]);
  });

  it('locks its own event, and no other', async () => {
    // The others first: PostgreSQL reads and locks no further than to the right one.
    await claimed(...BESIDE.map((key) => fresh(key)), fresh());
    await manager.transaction(async (on) => {
      await store.recordConflicts(on, [contradicting(KEY, '1')]);
      expect(await unlocked()).toEqual(BESIDE.map(textOf).toSorted());
    });
  });

  it('does not wait for an erasure, and is recorded without its body then', async () => {
    await claimed(fresh());
    await beside(`SELECT FROM webhook_claim FOR UPDATE`, async () =>
      store.recordConflicts(manager, [contradicting(KEY, '1')]),
    );
    expect(await recorded()).toEqual([{ of: 'ste', deliveries: 1, body: null, headers: null }]);
  });
});

describe('a row that is added to a claim', () => {
  const row = (claimId: string) => ({ id: outboxId(claimId, 'late'), name: 'late' });
  const names = () => database.query(`SELECT event_id, name FROM webhook_outbox ORDER BY event_id, name`);

  it('is of that claim, once', async () => {
    await claimed(...BESIDE.map((key) => fresh(key)));
    const [claim] = await claimed(fresh());
    expect(await store.addRow(manager, claim!.id, row(claim!.id))).toBe(true);
    expect(await store.addRow(manager, claim!.id, row(claim!.id))).toBe(false);
    const rows = await database.query(`SELECT source, tenant, event_id AS "eventId" FROM webhook_outbox`);
    expect(rows).toEqual([KEY]);
  });

  it.each<[string, Parameters<typeof withRows>[1], string, boolean]>([
    ['nothing', {}, '', true],
    ['what its first receiver knew', { one: {} }, '', false],
    ['nothing at first, and a row by now', { one: {} }, 'owed = 0', false],
    ['what is gone', {}, 'owed = 1', false],
  ])('only where nothing is owed: %s', async (_, rows, change, isAdded) => {
    const { id } = await withRows(KEY, rows);
    if (change !== '') await database.query(`UPDATE webhook_claim SET ${change}`);
    expect(await store.addRow(manager, id, row(id), true)).toBe(isAdded);
    expect(await store.addRow(manager, id, row(id))).toBe(!isAdded);
  });

  it.each([false, true])(
    'waits for an erasure, and is not added then (only where nothing is owed: %s)',
    async (only) => {
      const [claim] = await claimed(fresh());
      await beside(ERASE, async (commit) => {
        const adding = store.addRow(manager, claim!.id, row(claim!.id), only);
        await waitsForLock();
        await commit();
        expect(await adding).toBe(false);
      });
      expect(await names()).toEqual([]);
    },
  );
});

describe('recent claims', () => {
  it('are of a source and a window, from a place on, in the order of arrival', async () => {
    const ages: readonly [string, number][] = [
      ['c', 1],
      ['b', 2],
      ['a', 2],
      ['old', 30],
    ];
    for (const [eventId] of ages)
      await withRows({ ...KEY, eventId }, { [eventId]: {}, of: { kind: 'effect' } });
    await withRows({ ...KEY, eventId: 'erased' }, {});
    await withRows({ ...KEY, source: 'x' }, {});
    await database.query(`${ERASE} WHERE event_id = 'erased'`);
    for (const [eventId, hours] of ages)
      await database.query(
        `UPDATE webhook_claim SET received_at = date_trunc('hour', now()) - $2 * interval '1 hour' WHERE event_id = $1`,
        [eventId, hours],
      );
    const list = (...more: [number, ...unknown[]]) =>
      store.listRecent(manager, 's', 20 * HOUR, ...(more as [number]));
    const all = await list(10);
    expect(all.map(({ event_id, names }) => [event_id, names])).toEqual([
      ['b', ['b']],
      ['a', ['a']],
      ['c', ['c']],
    ]);
    expect((await list(1)).map(({ event_id }) => event_id)).toEqual(['b']);
    for (const [nth, after] of all.entries()) expect(await list(10, after)).toEqual(all.slice(nth + 1));
  });
});

describe('a claim by its key', () => {
  it.each<[string, Record<string, unknown>, string]>([
    ['a pending handler', {}, 'pending'],
    ['a pending effect', { kind: 'effect' }, 'settled'],
    ['a handler that is done', { state: 'done', settled_at: new Date() }, 'settled'],
  ])('is settled or not: %s', async (_, columns, progress) => {
    for (const key of BESIDE) await withRows(key, { one: progress === 'pending' ? { kind: 'effect' } : {} });
    expect(await store.findProgress(manager, KEY)).toBe('unknown');
    await withRows(KEY, { one: columns });
    expect(await store.findProgress(manager, KEY)).toBe(progress);
  });

  it('is found and loaded, and none beside it', async () => {
    await claimed(...BESIDE.map((key) => fresh(key)));
    expect([await store.find(manager, KEY), await store.load(manager, KEY)]).toEqual([undefined, undefined]);
    const [claim] = await claimed(fresh());
    expect([await store.find(manager, KEY), await store.load(manager, KEY)]).toMatchObject([
      { id: claim!.id },
      { id: claim!.id },
    ]);
    await manager.transaction(async (on) => {
      await store.load(on, KEY, true);
      expect(await unlocked()).toEqual(BESIDE.map(textOf).toSorted());
    });
  });

  it('is handled inline by one transaction at a time', async () => {
    await manager.transaction(async (first) => {
      expect(await store.lockInline(first, KEY)).toBe(true);
      await manager.transaction(async (second) => {
        expect(await store.lockInline(second, KEY)).toBe(false);
        expect(await store.lockInline(second, BESIDE[0]!)).toBe(true);
      });
    });
  });
});

/** Claims that no transaction has locked. */
async function unlocked(): Promise<string[]> {
  const rows = await database.query<{ of: string }>(
    `SELECT source || tenant || event_id AS of FROM webhook_claim FOR UPDATE SKIP LOCKED`,
  );
  return rows.map(({ of }) => of).toSorted();
}

/** Does `work` while another transaction has done this and not committed it. */
async function beside(sql: string, work: (commit: () => Promise<void>) => Promise<unknown>): Promise<void> {
  const other = database.dataSource.createQueryRunner();
  await other.startTransaction();
  try {
    await other.query(sql);
    await work(() => other.commitTransaction());
  } finally {
    if (other.isTransactionActive) await other.rollbackTransaction();
    await other.release();
  }
}

async function waitsForLock(): Promise<void> {
  for (;;) {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    if (waiting.length > 0) return;
  }
}
