import {
  Outbox,
  Parked,
  PermanentError,
  Replays,
  Revivals,
  StartupReconciler,
  type HandlerOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const byKey: HandlerOptions['key'] = ({ payload }: WebhookEvent) => (payload as { key: string }).key;
type Enqueue = (effect: string, payload: unknown, options: { key: string }) => Promise<unknown>;
const who = { by: 'a test', reason: 'to see' };

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

  it('what the reconciler has run again goes back to its place in the line', async () => {
    await start({
      businessRecord: { minAge: 0, missing: (events) => events.filter(({ eventId }) => eventId === 'a1') },
    });
    await deliver('a', 1);
    await inbox.relay.drain({ maxMs: 5_000 });
    await deliver('a', 2);
    expect((await inbox.app.get(StartupReconciler).reconcile()).records).toMatchObject({ reprocessed: 1 });
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(ran).toEqual(['a1', 'a1', 'a2']);
  });

  it.each([
    [
      'one after the other',
      async (keys: string[], enqueue: Enqueue) => {
        for (const key of keys) await enqueue('mail', key, { key });
      },
    ],
    [
      'at once',
      async (keys: string[], enqueue: Enqueue) => {
        await Promise.all(keys.map((key) => enqueue('mail', key, { key })));
      },
    ],
  ])('effects of one run are done in the order in which it enqueued them, %s', async (_, all) => {
    script.handle = (_event, { enqueue }) => all(['z', 'q', 'b', 'm', 'a', 'x'], enqueue);
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
    await outbox.enqueue(manager, 'mail', 'in an hour', { delayMs: 3_600_000, outsideTransaction: true });
    await outbox.enqueue(manager, 'mail', 'in a day', {
      runAt: new Date(Date.now() + 86_400_000),
      outsideTransaction: true,
    });
    await outbox.enqueue(manager, 'mail', 'now', { outsideTransaction: true });
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
