import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../src/core/event.js';
import { parseFilter } from '../../src/operator/event.filter.js';
import { AlertStore } from '../../src/storage/desk/alert.store.js';
import { AttemptStore } from '../../src/storage/desk/attempt.store.js';
import { AuditStore } from '../../src/storage/desk/audit.store.js';
import { RejectionStore } from '../../src/storage/desk/rejection.store.js';
import { DEAD_WINDOW, DeadStore } from '../../src/storage/desk/dead.store.js';
import { DoctorStore } from '../../src/storage/desk/doctor.store.js';
import { ReplayStore } from '../../src/storage/desk/replay.store.js';
import { SearchStore } from '../../src/storage/desk/search.store.js';
import { StatStore } from '../../src/storage/desk/stat.store.js';
import { RelayStore } from '../../src/storage/desk/relay.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// As in predicates.spec: what the desk asks is asked beside events that differ in their source, their tenant or their id alone.

const search = new SearchStore();
const dead = new DeadStore();
const replays = new ReplayStore();
const audit = new AuditStore();
const stats = new StatStore();
const relays = new RelayStore();
const ann = { by: 'ann', reason: 'to see' };
let database: TestDatabase;
let manager: EntityManager;

beforeAll(async () => {
  database = await createDatabase();
  ({ manager } = database.dataSource);
});
afterAll(() => database?.drop());
afterEach(() =>
  database.query(
    `TRUNCATE webhook_claim, webhook_outbox, webhook_outbox_data, webhook_attempt, webhook_duplicate, webhook_conflict, webhook_audit,
              webhook_issue, webhook_relay, webhook_alert, webhook_replay, webhook_secret_use, webhook_lease, webhook_stat`,
  ),
);

/** In the order of their arrival. Types are their keys too. */
const ALL = ['ste', 'stz', 'sye', 'syz', 'xte', 'xtz', 'xye', 'xyz'];
const claimId = (nth: number) => `0199000${nth}-0000-7000-8000-000000000000`;
const rowId = (nth: number) => `0199000${nth}-0000-8000-8000-000000000000`;
const keyOf = (name: string): EventKey => ({ source: name[0]!, tenant: name[1]!, eventId: name[2]! });
const nameOf = ({ source, tenant, eventId }: EventKey) => `${source}${tenant}${eventId}`;

/** Each event came again as often as its place says, has one dead handler row, and one delivery with other bytes. */
beforeEach(() =>
  database.query(
    `WITH claims AS (
       INSERT INTO webhook_claim (source, tenant, event_id, id, received_at, owed, event_type, origin, verified_by, headers, body, body_sha256)
       SELECT left(k, 1), substr(k, 2, 1), right(k, 1), ('0199000' || nth - 1 || '-0000-7000-8000-000000000000')::uuid,
              now() - interval '1 hour' + nth * interval '1 s', 1, k, 'delivery', k, '{}', k::bytea, sha256(k::bytea)
         FROM unnest($1::text[]) WITH ORDINALITY AS k(k, nth)
       RETURNING *
     ), duplicates AS (
       INSERT INTO webhook_duplicate (source, tenant, event_id, count, last_at)
       SELECT source, tenant, event_id, substr(id::text, 8, 1)::int, now() FROM claims WHERE event_type <> 'ste'
     ), conflicts AS (
       INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, body, headers)
       SELECT source, tenant, event_id, 'other-bytes', sha256('other'), event_type::bytea, '{}' FROM claims
     ), rows AS (
       INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, reason, error, attempt)
       SELECT overlay(id::text PLACING '8' FROM 15)::uuid, 'handler', 'run', source, tenant, event_id, 'dead', received_at,
              'permanent-error', 'no', 1 FROM claims
       RETURNING id, source || tenant || event_id AS name
     )
     INSERT INTO webhook_outbox_data (outbox_id, payload, result) SELECT id, name::bytea, name FROM rows`,
    [ALL],
  ),
);

async function add(columns: Readonly<Record<string, unknown>>): Promise<string> {
  const row = { id: randomUUID(), kind: 'effect', name: 'mail', ...columns };
  const names = Object.keys(row);
  await database.query(
    `INSERT INTO webhook_outbox (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})`,
    Object.values(row),
  );
  return row.id;
}

describe('events', () => {
  const found = async (filter: string, configured = ['s', 'x']) =>
    (await search.events(manager, parseFilter(filter), 50, configured)).events.map(nameOf);

  it('are listed newest first, each once, with their own duplicates', async () => {
    const { events } = await search.events(manager, parseFilter(''), 50, ['s', 'x']);
    expect(events.map((event) => [nameOf(event), event.duplicates])).toEqual(
      ALL.map((name, nth) => [name, nth]).toReversed(),
    );
  });

  it('are found by an id in every tenant of the sources that are configured', async () => {
    expect(await found('id:e')).toEqual(['xye', 'xte', 'sye', 'ste']);
    expect(await found('id:e', ['s'])).toEqual(['sye', 'ste']);
    expect(await found('id:none')).toEqual([]);
  });

  it('are found by an id within the times that are asked for', async () => {
    expect(await found('id:e after:2h before:30m')).toHaveLength(4);
    expect([await found('id:e after:30m'), await found('id:e before:2h')]).toEqual([[], []]);
  });

  it('have a next page only where there are more', async () => {
    const paths = ['data.customer', 'data.shop'];
    const asked = (filter: string) => parseFilter(filter, 'events', 'UTC', Date.now(), paths);
    const page = async (filter: string, limit: number, configured = ['s']) => {
      const { events, next } = await search.events(manager, asked(filter), limit, configured);
      return [events.map(nameOf), next !== undefined];
    };
    await database.query(
      `INSERT INTO webhook_payload_value (source, path, value, claim_id)
       SELECT source, path, value, id FROM webhook_claim, unnest($1::text[], ARRAY['one', 'other']) v(path, value)`,
      [paths],
    );
    for (const filter of ['source:s', 'data.customer:one']) {
      expect(await page(filter, 4)).toEqual([['syz', 'sye', 'stz', 'ste'], false]);
      expect(await page(filter, 3)).toEqual([['syz', 'sye', 'stz'], true]);
    }
    expect(await page('data.customer:one', 50, ['s', 'x'])).toEqual([ALL.toReversed(), false]);
    for (const none of ['data.customer:other', 'data.customer:one after:30m', 'data.customer:one -source:s'])
      expect(await page(none, 50)).toEqual([[], false]);
    await database.query('TRUNCATE webhook_payload_value');
  });

  it('are found by our id, and by the id of a row', async () => {
    expect(await found(`id:${claimId(2)}`)).toEqual(['sye']);
    expect(await found(`id:${rowId(5)}`)).toEqual(['xtz']);
  });

  it('are told with what is their own', async () => {
    for (const [nth, name] of ALL.entries()) {
      const detail = await search.detail(manager, claimId(nth));
      expect(detail).toMatchObject({ ...keyOf(name), duplicates: nth, verifiedBy: name, bytes: 3 });
      expect(await search.rows(manager, keyOf(name))).toMatchObject([{ id: rowId(nth), result: name }]);
      expect((await search.body(manager, claimId(nth)))?.body?.toString()).toBe(name);
      expect((await search.payload(manager, rowId(nth)))?.toString()).toBe(name);
    }
    expect(await search.detail(manager, randomUUID())).toBeUndefined();
  });

  it('have their rows in the order in which they were made', async () => {
    const later = await add({ id: rowId(0).replace(/0$/, '1'), source: 's', tenant: 't', event_id: 'e' });
    const first = await add({
      id: rowId(0).replace(/0$/, '2'),
      source: 's',
      tenant: 't',
      event_id: 'e',
      created_at: new Date(0),
    });
    expect((await search.rows(manager, keyOf('ste'))).map(({ id }) => id)).toEqual([first, rowId(0), later]);
  });

  it('have their conflicts, and the event whose bytes came under another id', async () => {
    const bytes = (sha256: string) => search.conflictBody(manager, claimId(0), sha256);
    const [own] = await search.conflicts(manager, keyOf('ste'));
    expect(own).toMatchObject({ kind: 'other-bytes', otherId: null, kept: true });
    expect((await bytes(own!.sha256))?.toString()).toBe('ste');
    expect(await bytes('00')).toBeUndefined();
    await database.query(
      `INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, first_at, body)
       SELECT 's', 't', 'e', 'suspected-replay', sha256(k::bytea), now() + interval '1 s', 'x' FROM unnest($1::text[]) k`,
      [ALL],
    );
    const all = await search.conflicts(manager, keyOf('ste'));
    expect(all).toHaveLength(9);
    expect(all[0]).toMatchObject({ kind: 'other-bytes' });
    // Of the same source and tenant, and not the event itself.
    expect(all.map(({ otherId }) => otherId).filter((id) => id !== null)).toEqual([claimId(1)]);
    const twin = all.find(({ otherId }) => otherId !== null)!;
    expect(await bytes(twin.sha256)).toBeUndefined();
  });

  it('are the last of each source', async () => {
    expect(await search.lastEvents(manager, ['s', 'x', 'none'])).toMatchObject([
      { source: 's', lastType: 'syz', lastVerifiedBy: 'syz' },
      { source: 'x', lastType: 'xyz' },
      { source: 'none', lastAt: null },
    ]);
  });

  it('and rows tell their source and tenant by our ids, and no others', async () => {
    const loose = await add({});
    const scopes = await search.scopes(manager, [claimId(0), rowId(6), loose]);
    expect([...scopes]).toEqual([
      [claimId(0), { source: 's', tenant: 't' }],
      [rowId(6), { source: 'x', tenant: 'y' }],
    ]);
  });
});

describe('effects', () => {
  it('are listed newest first, without handlers, each with its own event', async () => {
    const ids = [];
    for (const [nth, name] of ALL.entries()) {
      const { source, tenant, eventId } = keyOf(name);
      ids.push(await add({ id: rowId(nth).replace(/0$/, 'e'), source, tenant, event_id: eventId }));
    }
    const list = async (filter: string, limit: number, before?: string) =>
      (await search.effects(manager, parseFilter(filter), limit, before)).effects.map(({ id }) => id);
    const { effects } = await search.effects(manager, parseFilter(''), 50);
    expect(effects.map(({ id, claimId: of }) => [id, of])).toEqual(
      ids.map((id, nth) => [id, claimId(nth)]).toReversed(),
    );
    for (const filter of ['', 'state:pending']) {
      expect(await list(filter, 2)).toEqual([ids[7], ids[6]]);
      expect(await list(filter, 2, ids[6])).toEqual([ids[5], ids[4]]);
    }
    expect(await list('state:dead', 50)).toEqual([]);
  });
});

describe('dead rows', () => {
  const groups = async () => (await dead.groups(manager, parseFilter(''), 50)).groups;
  const died = (ago: string, columns: Readonly<Record<string, unknown>> = {}) =>
    add({ state: 'dead', settled_at: new Date(ago), reason: 'permanent-error', ...columns });

  it('are grouped by their error, the newest group first, each with its own rows', async () => {
    const later = await died('2040-01-02', { error: 'later 2', place: 'a.ts:2:2', source: 's', tenant: '' });
    await died('2040-01-01', { error: 'later 1', place: 'a.ts:1:1' });
    const [first, second] = await groups();
    expect(first).toMatchObject({
      error: 'later 2',
      place: 'a.ts:2:2',
      count: 2,
      sources: ['s'],
      tenants: [],
    });
    expect(second).toMatchObject({ count: 8, sources: ['s', 'x'], tenants: ['t', 'y'] });
    const rows = await dead.rows(manager, second!.fingerprint, 50);
    expect(rows.map(({ claimId: of, id }) => [of, id])).toEqual(
      ALL.map((_, nth) => [claimId(nth), rowId(nth)]).toReversed(),
    );
    const [newest] = await dead.rows(manager, first!.fingerprint, 1);
    expect(newest).toMatchObject({ id: later, claimId: null });
    expect(await dead.rows(manager, first!.fingerprint, 50, newest)).toHaveLength(1);
    expect(await dead.group(manager, second!.fingerprint)).toMatchObject({ types: ALL, count: 8 });
    expect(await dead.group(manager, '0'.repeat(32))).toBeUndefined();
  });

  it('have the word of a person, which is of one group and open again after a later death', async () => {
    const [{ fingerprint } = { fingerprint: '' }] = await groups();
    await dead.setState(manager, '1'.repeat(32), 'acknowledged', 'kim', '');
    expect(await groups()).toMatchObject([{ state: 'open', actor: null }]);
    await dead.setState(manager, fingerprint, 'resolved', 'ann', 'mended');
    expect(await groups()).toMatchObject([{ state: 'resolved', reopened: false, actor: 'ann' }]);
    await database.query(
      `UPDATE webhook_outbox SET settled_at = now() + interval '1 s' WHERE id = '${rowId(0)}'`,
    );
    expect(await groups()).toMatchObject([{ state: 'open', reopened: true }]);
    await dead.setState(manager, fingerprint, 'acknowledged', 'ann', '');
    expect(await groups()).toMatchObject([{ state: 'acknowledged', reopened: false }]);
    await dead.setState(manager, fingerprint, 'open', 'ann', '');
    expect(await groups()).toMatchObject([{ state: 'open', actor: null }]);
    expect(await database.query(`SELECT actor FROM webhook_issue`)).toEqual([{ actor: 'kim' }]);
  });

  it('are counted by the hour in which they died', async () => {
    await database.query(
      `UPDATE webhook_outbox SET settled_at = now() - interval '330 minutes' WHERE id = '${rowId(0)}'`,
    );
    const [group] = await groups();
    expect([...group!.hours.entries()].filter(([, count]) => count > 0)).toEqual([
      [18, 1],
      [23, 7],
    ]);
  });

  it('are the newest ten thousand', async () => {
    await database.query(
      `INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
       SELECT gen_random_uuid(), 'effect', 'mail', 'dead', now(), 'permanent-error', 'many' FROM generate_series(1, $1::int - 1)`,
      [DEAD_WINDOW],
    );
    expect((await groups()).map(({ error, count }) => [error, count])).toEqual([
      ['many', DEAD_WINDOW - 1],
      ['no', 1],
    ]);
    expect(await dead.scopes(manager)).toEqual([{ source: 'x', tenant: 'y' }]);
    expect(await relays.counts(manager)).toMatchObject({ dead: 10_000, parked: 0 });
    await database.query(`UPDATE webhook_outbox SET state = 'parked', settled_at = NULL`);
    expect(await relays.counts(manager)).toMatchObject({ dead: 0, parked: 10_000 });
    await database.query(`UPDATE webhook_outbox SET state = 'handed', kind = 'effect'`);
    expect((await relays.backlog(manager)).handed).toMatchObject([{ name: 'mail' }, { name: 'run' }]);
  });
});

describe('of many', () => {
  const doctor = new DoctorStore();
  const attempts = new AttemptStore();
  const filtered = (filter: string) => search.events(manager, parseFilter(filter), 500, ['m']);
  const dozens = (columns: string, of: number) =>
    `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
     SELECT ${columns}, 'delivery', '', '{}' FROM generate_series(1, ${of}) n`;
  const LISTS: readonly [string, number, string, () => Promise<readonly unknown[]>][] = [
    [
      'conflicts of an event',
      50,
      `INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
       SELECT 's', 't', 'e', 'other-bytes', n::text::bytea FROM generate_series(1, 60) n`,
      () => search.conflicts(manager, keyOf('ste')),
    ],
    [
      'events with one id',
      50,
      dozens(`'m', 'tenant ' || n, 'same', gen_random_uuid(), 0, ''`, 60),
      async () => (await filtered('id:same')).events,
    ],
    [
      'rows of an event',
      500,
      `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
       SELECT ('${rowId(0).slice(0, 24)}' || lpad(to_hex(n), 12, '0'))::uuid, 'effect', 'mail', 's', 't', 'e' FROM generate_series(1, 600) n`,
      () => search.rows(manager, keyOf('ste')),
    ],
    [
      'attempts of a row',
      1_000,
      `INSERT INTO webhook_attempt (outbox_id, attempt, outcome)
       SELECT '${rowId(0)}', n, 'retry' FROM generate_series(1, 1100) n`,
      () => attempts.of(manager, [rowId(0)]),
    ],
    [
      'types of a source',
      500,
      dozens(`'m', '', n::text, gen_random_uuid(), 0, n::text`, 600),
      () => doctor.arrivedTypes(manager, 'm'),
    ],
    [
      'secrets',
      2_000,
      `INSERT INTO webhook_secret_use (source, fingerprint, deliveries, first_at, last_at)
       SELECT 's', n::text, 1, now(), now() FROM generate_series(1, 2100) n`,
      () => stats.secretUses(manager, ['s']),
    ],
    [
      'jobs',
      100,
      `INSERT INTO webhook_lease (name, owner, until)
       SELECT n::text, gen_random_uuid(), now() + interval '1 hour' FROM generate_series(1, 110) n`,
      () => relays.leases(manager),
    ],
    [
      'pauses of a name',
      200,
      `INSERT INTO webhook_audit (actor, action, target, reason, outcome)
       SELECT 'ann', 'pause', 'effect mail', '', '{"changed": true}' FROM generate_series(1, 210) n`,
      () => audit.pauses(manager, ['effect mail'], new Date(0), new Date('2100-01-01')),
    ],
  ];
  it.each(LISTS)('%s, %i are read at most', async (_, most, fill, ask) => {
    await database.query(fill);
    expect(await ask()).toHaveLength(most);
  });

  it('rows of a dead group, the newest 500 tell types: the most frequent, 20 at most', async () => {
    await database.query(dozens(`'m', '', n::text, gen_random_uuid(), 0, 'type ' || n % 30`, 600));
    await database.query(
      `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, reason, error)
       SELECT gen_random_uuid(), 'handler', 'many', 'm', '', n, 'dead', now() + n * interval '1 s', 'permanent-error', 'many'
         FROM generate_series(1, 600) n`,
    );
    const { groups } = await dead.groups(manager, parseFilter('error:many'), 1);
    const { types } = (await dead.group(manager, groups[0]!.fingerprint))!;
    // Of 101 to 600, these types have 17 rows, and the others 16.
    const frequent = Array.from({ length: 30 }, (_, nth) => nth).filter((nth) => nth > 10 || nth === 0);
    expect(types).toEqual(frequent.map((nth) => `type ${nth}`).toSorted());
  });

  it('tenants of a source, 200 are searched for an id', async () => {
    await database.query(
      dozens(`'m', 'tenant ' || lpad(n::text, 3, '0'), n::text, gen_random_uuid(), 0, ''`, 201),
    );
    const found = async (id: string) => (await filtered(`id:${id}`)).events.length;
    expect([await found('1'), await found('200'), await found('201')]).toEqual([1, 1, 0]);
  });

  it('events of a source, the newest 10,000 tell its types', async () => {
    await database.query(dozens(`'m', '', n::text, gen_random_uuid(), 0, 'new'`, 10_000));
    await database.query(`UPDATE webhook_claim SET source = 'm', tenant = 'other' WHERE event_type = 'ste'`);
    expect(await doctor.arrivedTypes(manager, 'm')).toMatchObject([{ type: 'new', events: 10_000 }]);
  });
});

describe('a replay', () => {
  it('makes a settled handler row pending, and no other', async () => {
    const settled = { settled_at: new Date(), event_id: 'e' };
    const run = (id: string) => replays.replayRow(manager, id, false, 'refuse', ann);
    const states = () =>
      database.query<{ n: number }>(`SELECT count(*)::int AS n FROM webhook_outbox WHERE state = 'dead'`);
    const NOT = [
      { kind: 'handler', event_id: 'e' },
      { kind: 'handler', event_id: 'e', state: 'parked' },
      { ...settled, kind: 'handler', state: 'erased' },
      { ...settled, kind: 'effect', state: 'dead' },
    ];
    for (const columns of NOT) expect(await run(await add(columns))).toBeUndefined();
    expect(await states()).toEqual([{ n: 9 }]);
    expect(await run(rowId(0))).toBe(0);
    expect(await states()).toEqual([{ n: 8 }]);
    for (const state of ['done', 'superseded'])
      expect(await run(await add({ ...settled, kind: 'handler', state }))).toBe(0);
  });

  it('takes events in the order of their arrival, each once, and unknown ones last', async () => {
    const asked = ['none', ...ALL.toReversed()].map(keyOf);
    expect((await replays.byArrival(manager, asked)).map(nameOf)).toEqual([...ALL, 'non']);
    expect((await replays.byArrival(manager, [keyOf('xyz')])).map(nameOf)).toEqual(['xyz']);
  });

  it('has the rows of its event', async () => {
    expect((await replays.rowsOf(manager, keyOf('sye'))).map(({ id }) => id)).toEqual([rowId(2)]);
  });

  it('knows which events it has taken, and the generation of an effect of a run', async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    await replays.take(manager, one, claimId(0), 'ann', 'to see');
    const taken = (replay: string, nth: number) => replays.isTaken(manager, replay, claimId(nth));
    expect([await taken(one, 0), await taken(one, 1), await taken(other, 0)]).toEqual([true, false, false]);
    const left = async (replay: string) => (await replays.select(manager, {}, 50, replay)).map(nameOf);
    expect([await left(one), await left(other)]).toEqual([ALL.slice(1), ALL]);
    await replays.refire(manager, rowId(0), 'mail', 2, one);
    const generation = (nth: number, effect: string) => replays.generationOf(manager, rowId(nth), [effect]);
    expect([await generation(0, 'mail'), await generation(0, 'print'), await generation(1, 'mail')]).toEqual([
      2, 0, 0,
    ]);
  });

  it('selects the events that fit, oldest first', async () => {
    const [at] = await database.query<{ at: Date }>(
      `SELECT received_at AS at FROM webhook_claim WHERE id = '${claimId(3)}'`,
    );
    // A Date has no microseconds.
    await database.query(`UPDATE webhook_claim SET received_at = $2 WHERE id = $1`, [claimId(3), at!.at]);
    const selected = async (criteria: object, limit = 50) =>
      (await replays.select(manager, criteria, limit)).map(nameOf);
    expect(await selected({})).toEqual(ALL);
    expect(await selected({}, 2)).toEqual(ALL.slice(0, 2));
    expect(await selected({ source: 's' })).toEqual(ALL.slice(0, 4));
    expect(await selected({ tenant: 't' })).toEqual(['ste', 'stz', 'xte', 'xtz']);
    expect(await selected({ type: 'x*z' })).toEqual(['xtz', 'xyz']);
    expect(await selected({ from: at!.at })).toEqual(ALL.slice(3));
    expect(await selected({ to: at!.at })).toEqual(ALL.slice(0, 3));
    expect([await selected({ state: 'dead' }), await selected({ state: 'skipped' })]).toEqual([ALL, []]);
  });
});

describe('attempts', () => {
  it('are those of the rows that are asked for, with their instances, in the order of their ends', async () => {
    const instance = randomUUID();
    for (const [id, host] of [
      [instance, 'ours'],
      [randomUUID(), 'other'],
    ])
      await database.query(
        `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names) VALUES ($1, $2, 7, 'v22', true, true, 0, '{}')`,
        [id, host],
      );
    const lease = {
      leased_by: instance,
      ran_by: instance,
      lease_until: new Date('2040-01-01'),
      leased_at: new Date(),
    };
    const [running, waiting] = [await add({ ...lease, attempt: 3 }), await add({ attempt: 1 })];
    const [done, other] = [
      await add({ state: 'done', settled_at: new Date(), attempt: 2 }),
      await add({ state: 'done', settled_at: new Date() }),
    ];
    for (const [id, attempt, outcome] of [
      [running, 2, 'lost'],
      [running, 1, 'retry'],
      [done, 1, 'decided'],
      [other, 1, 'retry'],
    ])
      await database.query(
        `INSERT INTO webhook_attempt (outbox_id, attempt, ended_at, outcome) VALUES ($1, $2::int, now() - interval '1 hour' + $2 * interval '1 s', $3)`,
        [id, attempt, outcome],
      );
    const of = async (...ids: string[]) =>
      (await new AttemptStore().of(manager, ids)).map(({ attempt, outcome, host }) => [
        attempt,
        outcome,
        host,
      ]);
    expect(await of(running)).toEqual([
      [1, 'retry', null],
      [2, 'lost', null],
      [3, 'running', 'ours:7'],
    ]);
    expect(await of(waiting)).toEqual([]);
    expect(await of(done)).toEqual([
      [1, 'decided', null],
      [2, 'done', null],
    ]);
    // A decision to try again is no end, and a late result may come after it. A decision that it is done is that row's end.
    await database.query(`UPDATE webhook_outbox SET attempt = 1 WHERE id = $1`, [done]);
    await database.query(`UPDATE webhook_attempt SET reason = 'retry' WHERE outbox_id = $1`, [done]);
    expect(await of(done)).toEqual([
      [1, 'decided', null],
      [1, 'done', null],
    ]);
    await database.query(`UPDATE webhook_attempt SET reason = 'done' WHERE outbox_id = $1`, [done]);
    expect(await of(done)).toEqual([[1, 'decided', null]]);
    await database.query(`UPDATE webhook_outbox SET state = 'erased' WHERE id = $1`, [done]);
    expect(await of(done)).toEqual([
      [1, 'decided', null],
      [1, 'erased', null],
    ]);
  });
});

describe('the audit', () => {
  const deed = (columns: Readonly<Record<string, unknown>> = {}) =>
    audit.begin(manager, { action: 'revive', target: 'a', actor: 'ann', reason: 'to see', ...columns });

  it('is listed newest first, page by page, also of more rows than one page reads', async () => {
    const first = await deed({ target: 'first' });
    await database.query(
      `INSERT INTO webhook_audit (actor, action, target, reason) SELECT 'ann', 'revive', 'a', '' FROM generate_series(1, 49999)`,
    );
    const last = await deed({ target: 'last' });
    const rows = (filter: string, before?: string) =>
      audit.list(manager, parseFilter(filter, 'audit'), 2, before);
    expect((await rows('')).map(({ id }) => id)).toEqual([last, String(Number(last) - 1)]);
    expect(await rows('target:last')).toMatchObject([{ id: last }]);
    const pause = await deed({ action: 'pause', target: 'effect mail' });
    await audit.end(manager, pause, { changed: true });
    expect(await audit.pauses(manager, ['effect mail'], new Date(0), new Date('2100-01-01'))).toHaveLength(1);
    await database.query(`DELETE FROM webhook_audit WHERE id = $1`, [pause]);
    // The page before its row reads one row further back.
    expect(await rows('target:first')).toEqual([]);
    expect(await rows('target:first', last)).toMatchObject([{ id: first }]);
    expect(await rows('target:last', last)).toEqual([]);
  });

  it('notes an outcome on its own row', async () => {
    const ids = [await deed(), await deed()];
    await audit.end(manager, ids[0]!, { revived: 1 });
    const rows = await audit.list(manager, parseFilter('', 'audit'), 50);
    expect(rows.map(({ id, outcome }) => [id, outcome])).toEqual([
      [ids[1], null],
      [ids[0], { revived: 1 }],
    ]);
  });

  it('tells the last deed on each row, which reached it', async () => {
    const [one, two] = [randomUUID(), randomUUID()];
    const ended = async (columns: Readonly<Record<string, unknown>>, outcome: object) =>
      audit.end(manager, await deed(columns), { ...outcome });
    await ended({ actor: 'ann', detail: { ids: [one, two] } }, { revived: 2 });
    await ended({ actor: 'bob', action: 'park', target: one }, { parked: 1 });
    await ended({ actor: 'eve', target: one }, { failed: 'no database' });
    await ended({ actor: 'eve', target: one }, { decided: false });
    await ended({ actor: 'eve', target: one }, { cancelled: false });
    await ended({ actor: 'eve', target: one }, { parked: 0 });
    await ended({ actor: 'eve', target: one }, { others: [{ outboxId: one, why: 'it is done' }] });
    await deed({ actor: 'eve', target: one });
    const deeds = await audit.lastDeeds(manager, [one, two, randomUUID()]);
    expect(deeds.get(one)).toMatchObject({ actor: 'bob', action: 'park' });
    expect(deeds.get(two)).toMatchObject({ actor: 'ann', action: 'revive' });
    expect(deeds.size).toBe(2);
    await database.query(
      `INSERT INTO webhook_audit (actor, action, target, reason) SELECT 'kim', 'pause', 'x', '' FROM generate_series(1, 500)`,
    );
    expect(await audit.lastDeeds(manager, [one, two])).toEqual(new Map());
  });

  it('tells the pauses of a time, and those that held as it began', async () => {
    const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute));
    const act = async (minute: number, action: string, target = 'effect mail', changed = true) => {
      const id = await deed({ action, target, reason: `${minute}` });
      await audit.end(manager, id, { changed });
      await database.query(`UPDATE webhook_audit SET at = $2 WHERE id = $1`, [id, at(minute)]);
    };
    for (const [minute, action] of [
      [1, 'pause'],
      [2, 'resume'],
      [3, 'pause'],
      [5, 'resume'],
      [6, 'pause'],
      [7, 'resume'],
      [9, 'pause'],
    ] as const)
      await act(minute, action);
    await act(6, 'pause', 'effect print');
    await act(6, 'pause', 'effect mail', false);
    await act(6, 'revive');
    const told = async (from: number, until: number) =>
      (await audit.pauses(manager, ['effect mail'], at(from), at(until))).map(
        ({ why, action }) => `${why} ${action}`,
      );
    expect(await told(4, 8)).toEqual(['3 pause', '5 resume', '6 pause', '7 resume']);
    expect(await told(5, 6)).toEqual(['3 pause', '5 resume', '6 pause']);
    expect(await told(8, 8)).toEqual([]);
  });
});

describe('figures', () => {
  it('tell uses of the secrets of the sources that are asked for, the last use of each first', async () => {
    await database.query(
      `INSERT INTO webhook_secret_use (source, fingerprint, deliveries, first_at, last_at)
       SELECT s, f, 1, now(), '2026-01-01'::timestamptz + nth * interval '1 s'
         FROM unnest(ARRAY['s', 'x', 'a', 's', 'a'], ARRAY['old', 'x', 'one', 'new', 'two']) WITH ORDINALITY AS u(s, f, nth)`,
    );
    const uses = await stats.secretUses(manager, ['s', 'a']);
    expect(uses.map(({ source, fingerprint }) => `${source} ${fingerprint}`)).toEqual([
      'a two',
      'a one',
      's new',
      's old',
    ]);
  });

  it('tell of each type how many events of a source had it, the most frequent first', async () => {
    await database.query(
      `UPDATE webhook_claim SET event_type = 'b' WHERE event_type IN ('sye', 'syz', 'xte')`,
    );
    const types = await new DoctorStore().arrivedTypes(manager, 's');
    expect(types.map(({ type, events }) => [type, events])).toEqual([
      ['b', 2],
      ['ste', 1],
      ['stz', 1],
    ]);
  });

  it('are of all sources or of some, in order of time, and not older than asked', async () => {
    await database.query(
      `INSERT INTO webhook_stat (minute, source, metric, value)
       SELECT now() - m * interval '1 minute', s, 'claimed', m FROM unnest(ARRAY[1, 3, 90]) m, unnest(ARRAY['', 's', 'x']) s`,
    );
    const series = async (sources?: readonly string[]) =>
      (await stats.series(manager, 3_600_000, 60_000, sources)).map(({ source, value }) => [source, value]);
    expect(await series()).toEqual([
      ['', 3],
      ['', 1],
    ]);
    expect(await series(['s'])).toEqual([
      ['s', 3],
      ['s', 1],
    ]);
  });
});

describe('rejected requests', () => {
  const store = new RejectionStore();
  const HOUR = 3_600_000;
  const id = (nth: number) => `01990000-0000-7000-8000-${String(nth).padStart(12, '0')}`;
  const reject = (nth: number, source = 's', ageMs = 0, body: string | undefined = 'body') =>
    store.add(
      manager,
      {
        id: id(nth),
        at: new Date(Date.now() - ageMs),
        source,
        reason: 'wrong-signature',
        detail: '',
        diagnosis: '',
        explanation: '',
        bytes: 4,
        contentType: '',
        headerNames: [],
        method: 'POST',
      },
      body === undefined ? undefined : { url: '/', headers: [], body: Buffer.from(body) },
    );
  const listed = async (filter = '', limit = 50, before?: string) =>
    (await store.list(manager, parseFilter(filter, 'rejections'), limit, before)).map((one) =>
      Number(one.id.slice(-4)),
    );
  const kept = async (source: string, limit = 50, after?: string) =>
    (await store.kept(manager, source, limit, after)).map((one) => Number(one.id.slice(-4)));
  afterEach(() => database.query('TRUNCATE webhook_rejection'));

  it('are listed newest first, page by page; those kept of a source oldest first, until they are taken', async () => {
    for (const nth of [1, 2, 3]) await reject(nth);
    await reject(4, 'x');
    await database.query(`UPDATE webhook_rejection SET body = NULL WHERE id = $1`, [id(2)]);
    expect([
      await listed(),
      await listed('source:s'),
      await listed('', 2),
      await listed('', 50, id(3)),
    ]).toEqual([
      [4, 3, 2, 1],
      [3, 2, 1],
      [4, 3],
      [2, 1],
    ]);
    expect([await kept('s'), await kept('s', 1), await kept('s', 50, id(1)), await kept('x')]).toEqual([
      [1, 3],
      [1],
      [3],
      [4],
    ]);
    await store.taken(manager, id(1), 'ok');
    await database.query(`UPDATE webhook_rejection SET taken_at = now() WHERE id = $1`, [id(3)]);
    expect([await kept('s'), await kept('x')]).toEqual([[], [4]]);
  });

  it('lose their bytes after a while, or beyond a sum, and go after a week, or beyond a number', async () => {
    await reject(1, 's', 8 * 24 * HOUR);
    await reject(2, 's', 2 * HOUR);
    for (const nth of [3, 4, 5]) await reject(nth);
    await store.prune(manager, HOUR, 4, 8);
    expect([await listed(), await kept('s')]).toEqual([
      [5, 4, 3, 2],
      [4, 5],
    ]);
    await store.prune(manager, HOUR, 3, 7);
    expect([await listed(), await kept('s')]).toEqual([[5, 4, 3], [5]]);
  });
});

describe('the oldest snapshot', () => {
  const doctor = new DoctorStore();
  /** Opens a transaction of this database, and tells its process. */
  const within = <T>(
    level: 'REPEATABLE READ' | 'READ COMMITTED',
    work: (on: EntityManager, pid: number) => Promise<T>,
  ) => manager.transaction(level, async (on) => work(on, await doctor.backend(on)));

  // Tried again, since autovacuum has one for a moment.
  it('is of another transaction in this database, and of two the older one', async () => {
    const other = await createDatabase();
    try {
      await until(() =>
        other.dataSource.transaction('REPEATABLE READ', async (elsewhere) => {
          await elsewhere.query('SELECT 1');
          return within('REPEATABLE READ', (own) =>
            within('REPEATABLE READ', (_first, pid) =>
              within('REPEATABLE READ', async () => (await doctor.oldestSnapshot(own))?.pid === pid),
            ),
          );
        }),
      );
    } finally {
      await other.drop();
    }
  });

  it('is not of a transaction that has none between its statements', async () => {
    await until(() =>
      within('READ COMMITTED', () =>
        within('REPEATABLE READ', async (_past, pid) => (await doctor.oldestSnapshot(manager))?.pid === pid),
      ),
    );
  });
});

describe('instances', () => {
  it('are the two hundred that were seen last', async () => {
    await database.query(
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, seen_at)
       SELECT gen_random_uuid(), 'h', nth, 'v22', true, true, 0, '{}', now() - nth * interval '1 s' FROM generate_series(1, 201) nth`,
    );
    const seen = await relays.list(manager);
    expect(seen.map(({ pid }) => pid)).toEqual(Array.from({ length: 200 }, (_, nth) => nth + 1));
    await relays.leave(manager, seen[0]!.id);
    expect((await relays.list(manager)).map(({ pid }) => pid)).toEqual(
      Array.from({ length: 200 }, (_, nth) => nth + 2),
    );
  });

  it('hold jobs, by their names, until these end', async () => {
    await database.query(
      `INSERT INTO webhook_lease (name, owner, until)
       SELECT name, gen_random_uuid(), now() + hours * interval '1 hour'
         FROM unnest(ARRAY['b', 'a', 'ended'], ARRAY[1, 1, -1]) AS l(name, hours)`,
    );
    expect((await relays.leases(manager)).map(({ name }) => name)).toEqual(['a', 'b']);
  });
});

describe('alerts', () => {
  const alerts = new AlertStore();
  const alert = (subject: string) => ({ at: new Date(), kind: 'backlog', subject, facts: {} });
  const subjects = async (limit = 50) => (await alerts.list(manager, limit)).map(({ subject }) => subject);

  it('are listed newest first, and pruned to the newest; a round without any adds none', async () => {
    await alerts.add(manager, []);
    expect(await subjects()).toEqual([]);
    await alerts.add(manager, ['1', '2', '3'].map(alert));
    expect([await subjects(), await subjects(2)]).toEqual([
      ['3', '2', '1'],
      ['3', '2'],
    ]);
    await alerts.prune(manager, 2);
    expect(await subjects()).toEqual(['3', '2']);
  });
});
