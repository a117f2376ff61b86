import { Injectable, type Type } from '@nestjs/common';
import {
  Inbox,
  OnWebhook,
  Outbox,
  Parked,
  PermanentError,
  Replays,
  Revivals,
  type HandlerOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { awardee } from '../support/signing.js';
import { awardeeSource, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';
import { relayProcess, RUN_LOG, type RelayProcess } from './support/relay.processes.js';

interface Ordered {
  readonly key: string;
  readonly seq: number;
}
const byKey: HandlerOptions['key'] = ({ payload }: WebhookEvent) => (payload as Ordered).key;
/** Of a type for which the relay processes have a handler of that name; only its name and key matter here. */
function receiverOf(type: string): Type {
  class Receiver {
    handle() {
      throw new Error('this process runs nothing');
    }
  }
  const key = type === 'newest' ? undefined : byKey;
  OnWebhook('awardee', type, { name: type, key })(
    Receiver.prototype,
    'handle',
    Object.getOwnPropertyDescriptor(Receiver.prototype, 'handle')!,
  );
  Injectable()(Receiver);
  return Receiver;
}

const who = { by: 'a test', reason: 'to see' };

describe('two relays in two processes', () => {
  const KEYS = 12;
  const ROWS = 8;
  let inbox: TestInbox;
  let relays: RelayProcess[] = [];

  beforeAll(async () => {
    const handlers = ['ordered', 'blocking', 'releasing', 'newest'];
    inbox = await startInbox({ providers: handlers.map(receiverOf) });
    await inbox.query(RUN_LOG);
    // A second look at the rule, by the database: never two leases of one name and key.
    await inbox.query(`CREATE TABLE two_leases (name text, order_key text)`);
    await inbox.query(`
      CREATE FUNCTION no_two_leases() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO two_leases SELECT name, order_key FROM webhook_outbox
         WHERE order_key IS NOT NULL AND leased_by IS NOT NULL GROUP BY name, order_key HAVING count(*) > 1;
        RETURN NULL;
      END $$`);
    await inbox.query(`
      CREATE TRIGGER no_two_leases AFTER UPDATE ON webhook_outbox FOR EACH STATEMENT EXECUTE FUNCTION no_two_leases()`);
    relays = await Promise.all([1, 2].map(() => relayProcess(inbox.database.url)));
    for (let seq = 1; seq <= ROWS; seq += 1) {
      for (let key = 1; key <= KEYS; key += 1) {
        await inbox.deliver(`${key}-${seq}`, 'ordered', { key: `k${key}`, seq } satisfies Ordered);
        if (key > 3) continue;
        for (const type of ['blocking', 'releasing'])
          await inbox.deliver(`${type}-${key}-${seq}`, type, { key: `k${key}`, seq } satisfies Ordered);
        // The newest is neither the first nor the last.
        const at = ((seq + 4) % ROWS) + 1;
        await inbox.deliver(`newest-${key}-${seq}`, 'newest', { key: `k${key}`, seq: at } satisfies Ordered);
      }
    }
    await until(
      async () =>
        (await inbox.rows(`kind = 'effect' AND state = 'done'`)).length === KEYS * ROWS &&
        (await inbox.rows(`state = 'pending' AND name <> 'awardee/blocking'`)).length === 0 &&
        (await inbox.rows(`state = 'dead' AND name = 'awardee/blocking'`)).length === 3,
      90_000,
    );
  }, 150_000);

  afterAll(async () => {
    await Promise.all(relays.map((relay) => relay.stop()));
    await inbox.stop();
  });

  it.each(['handler', 'effect'])('never run two rows of one key at once: %s', async (kind) => {
    const overlaps = await inbox.query(
      `SELECT a.key, a.seq, b.seq FROM run_log a JOIN run_log b ON b.kind = a.kind AND b.key = a.key AND b.id > a.id
        WHERE a.kind = $1 AND b.started_at < a.ended_at`,
      [kind],
    );
    expect(overlaps).toEqual([]);
    expect(await inbox.query('SELECT * FROM two_leases')).toEqual([]);
  });

  it.each(['handler', 'effect'])(
    'run each key in the order of arrival, retries in between: %s',
    async (kind) => {
      const runs = await inbox.query<{ key: string; seqs: number[]; tries: number }>(
        `SELECT key, array_agg(seq ORDER BY id) FILTER (WHERE ok) AS seqs, count(*)::int AS tries
         FROM run_log WHERE kind = $1 GROUP BY key`,
        [kind],
      );
      expect(runs).toHaveLength(KEYS);
      for (const { seqs } of runs)
        expect(seqs).toEqual(Array.from({ length: ROWS }, (_, index) => index + 1));
      // Not vacuous: some failed and were tried again while others of their key waited.
      expect(runs.reduce((sum, { tries }) => sum + tries, 0)).toBeGreaterThan(KEYS * ROWS);
    },
  );

  const runsOf = (kind: string) =>
    inbox.query<{ key: string; seqs: number[] }>(
      `SELECT key, array_agg(seq ORDER BY id) FILTER (WHERE ok) AS seqs FROM run_log WHERE kind = $1 GROUP BY key ORDER BY key`,
      [kind],
    );

  it("a dead row holds its key on both of them, with onDead: 'block', and a person's word lets it go on on both", async () => {
    expect(await runsOf('blocking')).toEqual(['k1', 'k2', 'k3'].map((key) => ({ key, seqs: [1, 2] })));
    const dead = await inbox.rows(`state = 'dead' AND name = 'awardee/blocking'`);
    await inbox.app.get(Revivals).giveUp(
      dead.map(({ id }) => id),
      who,
    );
    await until(async () => (await inbox.rows(`state = 'pending'`)).length === 0, 60_000);
    expect(await runsOf('blocking')).toEqual(
      ['k1', 'k2', 'k3'].map((key) => ({ key, seqs: [1, 2, 4, 5, 6, 7, 8] })),
    );
  });

  it('a dead row releases its key, and what follows it keeps its order', async () => {
    expect(await runsOf('releasing')).toEqual(
      ['k1', 'k2', 'k3'].map((key) => ({ key, seqs: [1, 2, 4, 5, 6, 7, 8] })),
    );
  });

  it('skipStale: whatever the order and whoever runs them, the newest is what stays', async () => {
    expect(
      await inbox.query(
        `SELECT event_id, event_type FROM received_event WHERE source = 'newest' ORDER BY event_id`,
      ),
    ).toEqual(['k1', 'k2', 'k3'].map((event_id) => ({ event_id, event_type: String(ROWS) })));
    // Not vacuous: some were old when their turn came.
    expect(await inbox.rows(`state = 'superseded'`)).not.toEqual([]);
  });

  it('replayed rows run on both of them in the order of their arrival, and their effects stay done', async () => {
    const [{ last }] = (await inbox.query<{ last: string }>(`SELECT max(id) AS last FROM run_log`)) as [
      { last: string },
    ];
    const events = Array.from({ length: 3 * ROWS }, (_, index) => ({
      source: 'awardee',
      tenant: '',
      eventId: `${(index % 3) + 1}-${ROWS - Math.floor(index / 3)}`,
    }));
    expect(await inbox.app.get(Replays).run({ events }, who)).toMatchObject({ replayed: 3 * ROWS });
    await until(async () => (await inbox.rows(`state = 'pending'`)).length === 0, 60_000);
    const seqs = Array.from({ length: ROWS }, (_, index) => index + 1);
    expect(
      await inbox.query(
        `SELECT kind, key, array_agg(seq ORDER BY id) FILTER (WHERE ok) AS seqs FROM run_log
          WHERE id > $1 GROUP BY kind, key ORDER BY key`,
        [last],
      ),
    ).toEqual(['k1', 'k2', 'k3'].map((key) => ({ kind: 'handler', key, seqs })));
    expect(await inbox.query('SELECT * FROM two_leases')).toEqual([]);
  });

  it('both took part', async () => {
    expect(await inbox.query('SELECT DISTINCT pid FROM run_log')).toHaveLength(2);
  });
});

describe('the order of a key', () => {
  let inbox: TestInbox;
  let script: Partial<Script>;
  let ran: string[];

  async function start(options: HandlerOptions = {}, effect = {}) {
    inbox = await startInbox({
      providers: [scripted(script, { handler: { key: byKey, ...options }, effect })],
    });
  }
  const deliver = (key: string, seq: number) => inbox.deliver(`${key}${seq}`, 'ordered', { key, seq });

  beforeEach(() => {
    ran = [];
    script = {
      handle: (event) => {
        ran.push(event.eventId);
      },
    };
  });
  afterEach(async () => inbox.stop());

  it('is kept by PostgreSQL itself: a second row of a key with the turn is refused', async () => {
    await start();
    await deliver('a', 1);
    await deliver('a', 2);
    await expect(inbox.query(`UPDATE webhook_outbox SET waits = false`)).rejects.toMatchObject({
      code: '23505',
    });
    await inbox.settle();
  });

  it('a key that is held up holds up no other', async () => {
    const latch = new Latch();
    script.handle = async (event) => {
      if (event.eventId === 'a1') await latch.wait();
      ran.push(event.eventId);
    };
    await start();
    for (const seq of [1, 2]) for (const key of ['a', 'b', 'c']) await deliver(key, seq);
    const held = inbox.relay.tick();
    await until(async () => {
      await inbox.relay.drain({ maxMs: 1 });
      return ran.length === 4;
    });
    expect(ran.toSorted()).toEqual(['b1', 'b2', 'c1', 'c2']);
    latch.open();
    await held;
    await inbox.settle();
    expect(ran.slice(4)).toEqual(['a1', 'a2']);
  });

  it('a settle passes the turn on in its own transaction', async () => {
    await start();
    await deliver('a', 1);
    await deliver('a', 2);
    await inbox.relay.tick();
    expect(await inbox.query(`SELECT event_id, state, waits FROM webhook_outbox ORDER BY id`)).toEqual([
      { event_id: 'a1', state: 'done', waits: false },
      { event_id: 'a2', state: 'pending', waits: false },
    ]);
    await inbox.settle();
  });

  it('a row that waits for its retry keeps the turn', async () => {
    script.handle = (event, { attempt }) => {
      if (event.eventId === 'a1' && attempt === 1) throw new Error('on purpose');
      ran.push(event.eventId);
    };
    await start({ retry: { base: '1h' } });
    await deliver('a', 1);
    await deliver('a', 2);
    await inbox.relay.drain({ maxMs: 1_000 });
    expect(ran).toEqual([]);
    await inbox.settle();
    expect(ran).toEqual(['a1', 'a2']);
  });

  it('a dead row releases its key, though nobody passed its turn on', async () => {
    script.handle = (event) => {
      if (event.eventId === 'a1') throw new PermanentError('on purpose');
      ran.push(event.eventId);
    };
    await start();
    await deliver('a', 1);
    await deliver('a', 2);
    await inbox.relay.tick();
    expect(await inbox.rows(`NOT waits AND state = 'pending'`)).toEqual([]);
    await inbox.relay.tick();
    expect(ran).toEqual(['a2']);
  });

  it("onDead: 'block': a dead row holds its key, and no other, until it is revived", async () => {
    let broken = true;
    script.handle = (event) => {
      if (broken && event.eventId === 'a1') throw new PermanentError('on purpose');
      ran.push(event.eventId);
    };
    await start({ onDead: 'block' });
    await deliver('a', 1);
    await deliver('a', 2);
    await deliver('b', 1);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['b1']);
    broken = false;
    const [dead] = await inbox.rows(`state = 'dead'`);
    expect(await inbox.app.get(Revivals).revive([dead!.id], who)).toEqual([dead!.id]);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['b1', 'a1', 'a2']);
  });

  it("onDead: 'block': a dead row that is given up holds its key no longer, and no redelivery revives it", async () => {
    script.handle = (event) => {
      if (event.eventId === 'a1') throw new PermanentError('on purpose');
      ran.push(event.eventId);
    };
    await start({ onDead: 'block' });
    await deliver('a', 1);
    await deliver('a', 2);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual([]);
    const [dead] = await inbox.rows(`state = 'dead'`);
    const revivals = inbox.app.get(Revivals);
    expect(await revivals.giveUp([dead!.id], who)).toEqual([dead!.id]);
    expect(await revivals.giveUp([dead!.id], who)).toEqual([]);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['a2']);
    await deliver('a', 1);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(await inbox.rows(`event_id = 'a1'`)).toMatchObject([
      { state: 'dead', reason: 'given-up', error: expect.stringContaining('on purpose'), attempt: 1 },
    ]);
    // A person may think better of it.
    script.handle = (event) => void ran.push(event.eventId);
    expect(await revivals.revive([dead!.id], who)).toEqual([dead!.id]);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['a2', 'a1']);
  });

  it("onDead: 'block': a parked effect holds its key until a person decides, that it is not to happen included", async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { key: 'a' });
    script.effect = (_payload, { attempt }) => {
      ran.push(`attempt ${attempt}`);
      if (ran.length === 1) throw new Error('no answer');
    };
    await start({ key: undefined }, { key: () => 'a', onDead: 'block', inDoubt: 'park' });
    await deliver('a', 1);
    await inbox.relay.drain({ maxMs: 5_000 });
    await deliver('a', 2);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['attempt 1']);
    const [parked] = await inbox.rows(`state = 'parked'`);
    expect(await inbox.app.get(Parked).decide(parked!.id, 'dead', who)).toBe(true);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['attempt 1', 'attempt 1']);
  });

  it('revived and redelivered rows go back to their place in the line', async () => {
    let broken = true;
    script.handle = (event) => {
      if (broken) throw new PermanentError('on purpose');
      ran.push(event.eventId);
    };
    await start();
    for (const seq of [1, 2]) await deliver('a', seq);
    await inbox.relay.drain({ maxMs: 5_000 });
    broken = false;
    await deliver('a', 3);
    // A redelivery revives the second, a person the first.
    await deliver('a', 2);
    await inbox.app.get(Revivals).revive(
      (await inbox.rows(`state = 'dead'`)).map(({ id }) => id),
      who,
    );
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['a1', 'a2', 'a3']);
  });

  it('replayed rows run in the order of their arrival, before what came later', async () => {
    await start();
    for (const seq of [1, 2, 3]) await deliver('a', seq);
    await inbox.relay.drain({ maxMs: 5_000 });
    ran = [];
    await deliver('a', 4);
    const events = ['a3', 'a1', 'a2'].map((eventId) => ({ source: 'awardee', tenant: '', eventId }));
    expect(await inbox.app.get(Replays).run({ events }, who)).toMatchObject({ replayed: 3, refused: [] });
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['a1', 'a2', 'a3', 'a4']);
  });

  it('events of one delivery run in the order in which it names them', async () => {
    script.handle = (event) => void ran.push(event.eventId);
    inbox = await startInbox({
      providers: [scripted(script, { handler: { key: () => 'all' }, effect: false })],
      webhooks: {
        sources: {
          awardee: awardeeSource({
            idHeader: undefined,
            typeHeader: undefined,
            idPath: 'id',
            typePath: 'type',
          }),
        },
      },
    });
    for (const id of ['z', 'm', 'a']) {
      const { headers, body } = awardee('', '', { id, type: 't' });
      await inbox.app.get(Inbox).receive('awardee', { headers, rawBody: body });
    }
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['z', 'm', 'a']);
  });

  it('effects of one run are done in the order in which it enqueued them', async () => {
    script.handle = async (_event, { enqueue }) => {
      for (const key of ['z', 'q', 'b', 'm', 'a', 'x']) await enqueue('mail', key, { key });
    };
    script.effect = (payload) => void ran.push(payload as string);
    await start({ key: undefined }, { key: () => 'one' });
    await deliver('a', 1);
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['z', 'q', 'b', 'm', 'a', 'x']);
  });

  it('an effect for later does not hold up one for now', async () => {
    script.effect = (payload) => void ran.push(payload as string);
    await start({}, { key: () => 'one' });
    const outbox = inbox.app.get(Outbox);
    const { manager } = inbox.dataSource;
    await outbox.enqueue(manager, 'mail', 'in an hour', { delayMs: 3_600_000 });
    await outbox.enqueue(manager, 'mail', 'in a day', { runAt: new Date(Date.now() + 86_400_000) });
    await outbox.enqueue(manager, 'mail', 'now');
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['now']);
  });

  it('a key that cannot be had costs the order, not the event', async () => {
    await start({
      key: () => {
        throw new Error('no such field');
      },
    });
    await deliver('a', 1);
    await inbox.relay.tick();
    expect(ran).toEqual(['a1']);
  });

  it('a waiting row that somebody has locked keeps neither other keys nor the settle before it waiting, and is not overtaken', async () => {
    await start();
    for (const seq of [1, 2, 3]) await deliver('a', seq);
    // The first of its key, at the start of a round.
    await locked(`event_id = 'a1'`, async () => {
      await deliver('b', 1);
      await inbox.relay.tick();
      expect(ran).toEqual(['b1']);
    });
    // The next of its key, when the one before is settled.
    await locked(`event_id = 'a2'`, async () => {
      await inbox.relay.tick();
      expect(ran).toEqual(['b1', 'a1']);
      await inbox.relay.tick();
      expect(ran).toEqual(['b1', 'a1']);
    });
    await inbox.settle();
    expect(ran).toEqual(['b1', 'a1', 'a2', 'a3']);
  });

  async function locked(where: string, work: () => Promise<void>): Promise<void> {
    const runner = inbox.database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      await runner.query(`SELECT FROM webhook_outbox WHERE ${where} FOR UPDATE`);
      await work();
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  }

  it('past 500 keys whose turn somebody has, the others still get theirs', async () => {
    await start();
    await inbox.query(`
      INSERT INTO webhook_outbox (id, kind, name, order_name, order_key, waits, source, tenant, event_id, due_at)
      SELECT gen_random_uuid(), 'handler', 'awardee/handle', 'awardee/handle', 'held ' || n % 1200, n > 1200, 'awardee', '', 'e' || n,
             CASE WHEN n > 1200 THEN now() ELSE now() + interval '1 hour' END
        FROM generate_series(1, 2400) n`);
    await deliver('z', 1);
    await inbox.relay.tick();
    expect(ran).toEqual(['z1']);
  });
});
