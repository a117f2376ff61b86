import { Inbox, Outbox, Parked, Replays, Revivals } from '../../src/index.js';
import { until } from '../support/application.js';
import { awardee } from '../support/signing.js';
import { startInbox, type TestInbox } from './support/inbox.js';
import { line, LINKS, OrderedWork, orderedSources, RUN_LOG, type Ordered } from './support/ordered.work.js';
import { relayProcess, type RelayProcess } from './support/relay.processes.js';

const KEYS = 12;
const ROWS = 8;
const BATCHED = 60;
const who = { by: 'a test', reason: 'to see' };
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
/** The first three keys, each with these runs. */
const three = (seqs: readonly number[]) => ['k1', 'k2', 'k3'].map((key) => ({ key, seqs }));

// Neither of them runs anything: they receive, and a person works at them.
let inbox: TestInbox;
/** A build in which a handler and an effect have other names. */
let renamed: TestInbox;
let relays: RelayProcess[] = [];

const enqueue = (effect: string, payload: Ordered, delayMs = 0) =>
  inbox.app
    .get(Outbox)
    .enqueue(inbox.dataSource.manager, effect, payload, { delayMs, outsideTransaction: true });
/** Each key with what has succeeded, in the order of the log. */
const runsOf = (kind: string, after = '0') =>
  inbox.query<{ key: string; seqs: number[] }>(
    `SELECT key, array_agg(seq ORDER BY id) FILTER (WHERE ok) AS seqs FROM run_log
      WHERE kind = $1 AND id > $2 GROUP BY key ORDER BY key`,
    [kind, after],
  );
const lastRun = async () =>
  (await inbox.query<{ id: string }>(`SELECT coalesce(max(id), 0) AS id FROM run_log`))[0]!.id;
const noneOf = (where: string) => until(async () => (await inbox.rows(where)).length === 0, 60_000);
/** But for what waits behind a dead or a parked row. */
const nothingPending = () =>
  noneOf(
    `state = 'pending' AND name NOT IN ('awardee/blocking', 'awardee/broken', 'broken-effect', 'held', 'later')`,
  );
const dead = async (name: string) =>
  (await inbox.rows(`state = 'dead' AND name = '${name}'`)).map(({ id }) => id);

/** All are received before a relay looks at any, and while two look at them. */
async function deliver(from: number, to: number): Promise<void> {
  for (let seq = from; seq <= to; seq += 1) {
    for (let key = 1; key <= KEYS; key += 1) {
      await inbox.deliver(`${key}-${seq}`, 'ordered', { key: `k${key}`, seq } satisfies Ordered);
      if (key > 3) continue;
      for (const type of ['blocking', 'releasing', 'broken', 'chain'])
        await inbox.deliver(`${type}-${key}-${seq}`, type, { key: `k${key}`, seq } satisfies Ordered);
      await (seq % 2 ? inbox : renamed).deliver(`line-${key}-${seq}`, 'line', { key: `k${key}`, seq });
      // The newest is neither the first nor the last.
      const at = ((seq + 4) % ROWS) + 1;
      await inbox.deliver(`newest-${key}-${seq}`, 'newest', { key: `k${key}`, seq: at } satisfies Ordered);
      await enqueue('held', { key: `k${key}`, seq });
    }
    const events = numbers(3).map((nth) => ({ id: `${seq}-${4 - nth}`, key: 'k', seq: seq * 3 + nth }));
    const { headers, body } = awardee('', '', { events });
    await inbox.app.get(Inbox).receive('several', { headers, rawBody: body });
  }
}

beforeAll(async () => {
  const webhooks = { sources: orderedSources() };
  inbox = await startInbox({ providers: [OrderedWork, line(false)], webhooks });
  renamed = await startInbox({
    providers: [OrderedWork, line(true)],
    webhooks,
    database: inbox.database,
  });
  await inbox.query(RUN_LOG);
  // A second look at the rule, by the database: never two leases of one name and key.
  await inbox.query(`CREATE TABLE two_leases (name text, order_key text)`);
  await inbox.query(`
    CREATE FUNCTION no_two_leases() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO two_leases SELECT order_name, order_key FROM webhook_outbox
       WHERE order_key IS NOT NULL AND leased_by IS NOT NULL GROUP BY order_name, order_key HAVING count(*) > 1;
      RETURN NULL;
    END $$`);
  await inbox.query(`
    CREATE TRIGGER no_two_leases AFTER UPDATE ON webhook_outbox FOR EACH STATEMENT EXECUTE FUNCTION no_two_leases()`);
  for (let nth = 1; nth <= BATCHED; nth += 1)
    await inbox.deliver(`batched-${nth}`, 'batched', { key: 'b', seq: nth } satisfies Ordered);
  await deliver(1, 2);
  relays = await Promise.all(['0', '1'].map((RENAMED) => relayProcess(inbox.database.url, { RENAMED })));
  await deliver(3, ROWS);
  await until(
    async () =>
      (await inbox.rows(`name = 'ordered-effect' AND state = 'done'`)).length === KEYS * ROWS &&
      (await dead('awardee/blocking')).length === 3 &&
      (await inbox.rows(`state = 'parked'`)).length === 3,
    90_000,
  );
  await nothingPending();
}, 180_000);

afterAll(async () => {
  await Promise.all(relays.map((relay) => relay.stop()));
  await renamed?.stop();
  await inbox?.stop();
}, 60_000);

afterEach(async () => {
  const overlaps = await inbox.query(
    `SELECT a.kind, a.key, a.seq, b.seq FROM run_log a JOIN run_log b ON b.kind = a.kind AND b.key = a.key AND b.id > a.id
      WHERE a.kind NOT IN ('newest', 'batched') AND b.started_at < a.ended_at`,
  );
  expect(overlaps).toEqual([]);
  expect(await inbox.query('SELECT * FROM two_leases')).toEqual([]);
});

describe('two relays in two processes, which never run two rows of one key at once,', () => {
  it.each(['handler', 'effect'])(
    'run each key in the order of arrival, retries in between: %s',
    async (kind) => {
      const runs = await runsOf(kind);
      expect(runs).toHaveLength(KEYS);
      for (const { seqs } of runs) expect(seqs).toEqual(numbers(ROWS));
      // Not vacuous: some failed and were tried again while others of their key waited.
      expect(await inbox.query(`SELECT FROM run_log WHERE kind = $1 AND NOT ok`, [kind])).not.toEqual([]);
    },
  );

  it('run the events of one delivery in the order in which it names them', async () => {
    expect(await runsOf('several')).toEqual([{ key: 'k', seqs: numbers(ROWS * 3).map((seq) => seq + 3) }]);
  });

  it('do the effects of one run in the order in which it enqueued them', async () => {
    expect(await runsOf('link')).toEqual(three(numbers(ROWS * LINKS).map((seq) => seq + LINKS)));
  });

  it.each(['line', 'carry'])(
    'are of before and of after a renaming, and run what both have received as one line: %s',
    async (kind) => {
      expect(await runsOf(kind)).toEqual(three(numbers(ROWS)));
      const names = await inbox.query(`SELECT DISTINCT name FROM webhook_outbox WHERE name LIKE $1`, [
        `%${kind}`,
      ]);
      expect(names).toHaveLength(2);
    },
  );

  it('handle each event of a batched handler once, each of them in an order of its own', async () => {
    expect(
      await inbox.query(`SELECT FROM received_event WHERE event_type = 'batched' AND applied_count = 1`),
    ).toHaveLength(BATCHED);
    expect(await inbox.rows(`name = 'awardee/batched' AND state <> 'done'`)).toEqual([]);
  });

  it('R05 case 41 skipStale: whatever the order and whoever runs them, the newest is what stays', async () => {
    expect(
      await inbox.query(
        `SELECT event_id AS key, event_type FROM received_event WHERE source = 'newest' ORDER BY event_id`,
      ),
    ).toEqual(['k1', 'k2', 'k3'].map((key) => ({ key, event_type: String(ROWS) })));
    // Not vacuous: some were old when their turn came.
    expect(await inbox.rows(`state = 'superseded'`)).not.toEqual([]);
  });

  it("stop at a dead row of a key with onDead: 'block', and go on after it at a person's word", async () => {
    expect(await runsOf('blocking')).toEqual(three([1, 2]));
    await inbox.app.get(Revivals).giveUp(await dead('awardee/blocking'), who);
    await noneOf(`state = 'pending' AND name = 'awardee/blocking'`);
    expect(await runsOf('blocking')).toEqual(three([1, 2, 4, 5, 6, 7, 8]));
  });

  it("stop at a parked effect of a key with onDead: 'block', and go on with it at a person's word", async () => {
    expect(await runsOf('held')).toEqual(three([]).map(({ key }) => ({ key, seqs: null })));
    for (const { id } of await inbox.rows(`state = 'parked'`))
      expect(await inbox.app.get(Parked).decide(id, 'retry', who)).toBe(true);
    await noneOf(`state IN ('pending', 'parked') AND name = 'held'`);
    expect(await runsOf('held')).toEqual(three(numbers(ROWS)));
  });

  it('go on past a dead row of any other key, and what follows it keeps its order', async () => {
    expect(await runsOf('releasing')).toEqual(three([1, 2, 4, 5, 6, 7, 8]));
  });

  it.each([
    ['handlers', 'broken', 'awardee/broken'],
    ['and then their effects', 'broken-effect', 'broken-effect'],
  ])('run what is revived in its old place, before what has waited behind it: %s', async (_, kind, name) => {
    // The first of each key has died, and holds all others.
    const ids = await until(async () => (await dead(name)).length === 3 && dead(name));
    expect(await runsOf(kind)).toEqual(three([]).map(({ key }) => ({ key, seqs: null })));
    await inbox.query(`INSERT INTO mended VALUES ($1)`, [kind]);
    await inbox.app.get(Revivals).revive(ids, who);
    await noneOf(`state = 'pending' AND name = '${name}'`);
    expect(await runsOf(kind)).toEqual(three(numbers(ROWS)));
  });

  const eventsOf = (prefix: string) =>
    numbers(3 * ROWS).map((nth) => ({
      source: 'awardee',
      tenant: '',
      eventId: `${prefix}${(nth % 3) + 1}-${ROWS - Math.floor((nth - 1) / 3)}`,
    }));

  it('run replayed events in the order of their arrival, whose effects stay done', async () => {
    const last = await lastRun();
    expect(await inbox.app.get(Replays).run({ events: eventsOf('') }, who)).toMatchObject({
      replayed: 3 * ROWS,
    });
    await nothingPending();
    expect(await runsOf('handler', last)).toEqual(three(numbers(ROWS)));
    expect(await runsOf('effect', last)).toEqual([]);
  });

  it('do effects that a replay fires once more in the order of the first time', async () => {
    const last = await lastRun();
    expect(
      await inbox.app.get(Replays).run({ events: eventsOf('chain-') }, { ...who, refire: ['link'] }),
    ).toMatchObject({ replayed: 3 * ROWS });
    await nothingPending();
    expect(await runsOf('link', last)).toEqual(three(numbers(ROWS * LINKS).map((seq) => seq + LINKS)));
  });

  it('do not have an effect for later hold up one for now', async () => {
    await enqueue('later', { key: 'k1', seq: 1 }, 3_600_000);
    await enqueue('later', { key: 'k1', seq: 2 });
    await noneOf(`name = 'later' AND state = 'pending' AND due_at < now() + interval '30 minutes'`);
    expect(await runsOf('later')).toEqual([{ key: 'k1', seqs: [2] }]);
  });

  it('both take part', async () => {
    expect(await inbox.query('SELECT DISTINCT pid FROM run_log')).toHaveLength(2);
  });
});
