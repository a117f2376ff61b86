import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { OnEffect, OnWebhook, type EffectContext, type WebhookEvent } from '../../src/index.js';
import { Tally } from '../../src/core/telemetry/tally.js';
import { HandlerRegistry } from '../../src/handlers/handler.registry.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { TurnStore } from '../../src/storage/turn.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { transactionHeld } from '../support/open-transactions.js';
import {
  clear,
  awardeeSource,
  record,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';

const RESULTS = `SELECT d.result, o.attempt FROM webhook_outbox o JOIN webhook_outbox_data d ON d.outbox_id = o.id
  WHERE o.kind = 'effect'`;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let database: TestDatabase;
let script: Partial<Script>;
let inboxes: TestInbox[];

beforeAll(async () => {
  database = await createDatabase();
});
beforeEach(() => {
  script = { handle: record };
  inboxes = [];
});
afterEach(async () => {
  for (const inbox of inboxes) await inbox.stop();
  await clear(database);
});
afterAll(() => database?.drop());

/** An application with the script's handler and effect, unless told otherwise; stopped after the test. */
async function start(setup: InboxSetup = {}): Promise<TestInbox> {
  const inbox = await startInbox({ database, providers: [scripted(script)], ...setup });
  inboxes.push(inbox);
  return inbox;
}

describe('R03 R19 R36 R37 from a claim to a side effect', () => {
  it('a handler’s writes, what it enqueues and its completion commit together; the effect runs after that under its outbox id', async () => {
    const seen: { key: string; payload: unknown; committed: boolean }[] = [];
    script.handle = async (event, context) => {
      await record(event, context);
      await context.enqueue('mail', { amount: 5 });
      return 'granted';
    };
    script.effect = async (payload, { key }) => {
      const committed = (await database.query(`SELECT FROM received_event`)).length === 1;
      seen.push({ key, payload, committed });
      return { sent: true };
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    expect(seen).toEqual([]);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    const [handler, effect] = await inbox.rows();
    expect(effect).toMatchObject({ kind: 'effect', parent_id: handler!.id, event_id: 'd-1', state: 'done' });
    expect(seen).toEqual([{ key: effect!.id, payload: { amount: 5 }, committed: true }]);
    expect(
      await database.query(`SELECT result FROM webhook_outbox_data WHERE outbox_id = $1`, [effect!.id]),
    ).toEqual([{ result: '{"sent":true}' }]);
  });

  it('R18 R27 the event shows its state, its result summary and its times', async () => {
    script.handle = () => 'granted';
    const inbox = await start();
    await inbox.deliver('d-1');
    expect(await database.query(`SELECT state, processed_at FROM webhook_event`)).toEqual([
      { state: 'pending', processed_at: null },
    ]);
    await inbox.relay.tick();
    expect(
      await database.query(`SELECT state, outcome, processed_at >= received_at AS later FROM webhook_event`),
    ).toEqual([{ state: 'processed', outcome: 'awardee/handle: granted', later: true }]);
  });

  it('no transaction is open while an effect calls the outside world', async () => {
    let held: boolean | undefined;
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', {}));
    script.effect = async () => {
      held = await transactionHeld(database);
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(held).toBe(false);
  });

  it('case 11 each attempt of an effect sees the bytes that were enqueued, under the same key', async () => {
    const seen: { key: string; payload: unknown; attempt: number }[] = [];
    let template = 'first';
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', { template, at: new Date(0) }));
    script.effect = (payload, { key, attempt }) => {
      seen.push({ key, payload, attempt });
      template = 'changed';
      if (attempt < 3) throw new Error('the answer was dropped');
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    await inbox.settle();
    const payload = { template: 'first', at: '1970-01-01T00:00:00.000Z' };
    expect(seen.map((one) => ({ ...one, key: '' }))).toEqual(
      [1, 2, 3].map((attempt) => ({ key: '', payload, attempt })),
    );
    expect(new Set(seen.map((one) => one.key)).size).toBe(1);
  });

  it('R20 the answer comes before the handler ends, and a failing handler changes no answer', async () => {
    let ended = false;
    script.handle = async () => {
      await pause(100);
      ended = true;
      throw new Error('no');
    };
    const inbox = await start({ loop: true });
    expect(await inbox.deliver('d-1')).toMatchObject({ status: 200 });
    expect(ended).toBe(false);
    await until(async () => (await inbox.rows())[0]?.error === 'no');
    expect(await inbox.deliver('d-1')).toMatchObject({ status: 200, body: { status: 'duplicate' } });
  });
});

describe('several relays', () => {
  it('R37 two on one outbox run each row once', async () => {
    const runs = new Map<string, number>();
    script.handle = async (event, context) => {
      runs.set(event.eventId, (runs.get(event.eventId) ?? 0) + 1);
      await record(event, context);
    };
    const [one, other] = [await start({ loop: true }), await start({ loop: true })];
    await Promise.all(
      Array.from({ length: 100 }, (_, index) => (index % 2 ? one : other).deliver(`d-${index}`)),
    );
    await until(async () => (await one.rows(`state = 'done'`)).length === 100);
    expect([...runs.values()].every((count) => count === 1)).toBe(true);
    expect(await one.rows('attempt > 1')).toEqual([]);
  });

  it('a process that knows fewer handlers never touches the others’ rows', async () => {
    @Injectable()
    class Newer {
      @OnWebhook('awardee', '*', { name: 'newer' })
      handle() {
        return 'new';
      }
    }
    const newer = await start({ providers: [Newer, scripted(script)] });
    const older = await start();
    await newer.deliver('d-1');
    await older.deliver('d-2');
    const theirs = await older.rows(`name = 'awardee/newer'`);
    expect(theirs).toHaveLength(1);
    await older.relay.drain({ maxMs: 5_000 });
    await older.deliver('d-1');
    expect(await older.rows(`name = 'awardee/newer'`)).toEqual(theirs);
    expect(await older.rows(`name = 'awardee/handle'`)).toMatchObject([{ state: 'done' }, { state: 'done' }]);
    await newer.relay.drain({ maxMs: 5_000 });
    expect(await newer.rows(`state <> 'done'`)).toEqual([]);
  });

  it('under retries: provider a redelivery to a process that does not know a handler is answered 503, not ok', async () => {
    @Injectable()
    class Newer {
      @OnWebhook('awardee', '*', { name: 'newer' })
      handle() {
        throw new Error('not yet');
      }
    }
    const webhooks = { sources: { awardee: awardeeSource({ retries: 'provider' }) } };
    const newer = await start({ webhooks, providers: [Newer, scripted(script)] });
    const older = await start({ webhooks });
    expect(await newer.deliver('d-1')).toMatchObject({ status: 500 });
    expect(await older.deliver('d-1')).toMatchObject({ status: 503 });
  });

  it('one handler’s backlog does not keep another’s row waiting', async () => {
    const order: string[] = [];
    @Injectable()
    class Two {
      @OnWebhook('awardee', 'busy', { name: 'a-busy' })
      busy() {
        order.push('busy');
      }
      @OnWebhook('awardee', 'quiet', { name: 'b-quiet' })
      quiet() {
        order.push('quiet');
      }
    }
    const inbox = await start({ providers: [Two], webhooks: { relay: { handlers: 2 } } });
    for (let index = 0; index < 30; index += 1) await inbox.deliver(`d-${index}`, 'busy');
    await inbox.deliver('q', 'quiet');
    for (let round = 0; round < 4; round += 1) await inbox.relay.tick();
    expect(order).toContain('quiet');
  });
});

describe('a renamed handler and a renamed effect', () => {
  it('keep their ids through `was`: rows of before run under the new name, and a done effect is not done again', async () => {
    const sent: string[] = [];
    let fail = true;
    class Base {
      async handled(event: WebhookEvent, context: Parameters<NonNullable<Script['handle']>>[1]) {
        await record(event, context);
        await context.enqueue(this.effectName, {});
        if (fail) throw new Error('once');
      }
      effectName = 'mail';
      sent(_: unknown, { key }: EffectContext) {
        sent.push(key);
      }
    }
    @Injectable()
    class Before extends Base {
      @OnWebhook('awardee', '*', { name: 'old-handler' })
      override handled(...args: Parameters<Base['handled']>) {
        return super.handled(...args);
      }
      @OnEffect('old-mail')
      override sent(...args: Parameters<Base['sent']>) {
        super.sent(...args);
      }
      override effectName = 'old-mail';
    }
    @Injectable()
    class After extends Base {
      @OnWebhook('awardee', '*', { name: 'new-handler', was: ['old-handler'] })
      override handled(...args: Parameters<Base['handled']>) {
        return super.handled(...args);
      }
      @OnEffect('new-mail', { was: ['old-mail'] })
      override sent(...args: Parameters<Base['sent']>) {
        super.sent(...args);
      }
      override effectName = 'new-mail';
    }
    const before = await start({ providers: [Before] });
    await before.deliver('d-1');
    fail = false;
    await before.relay.tick();
    await before.relay.tick();
    expect(sent).toHaveLength(1);
    const rows = await before.rows();
    await before.deliver('d-2');

    const after = await start({ providers: [After] });
    // A person has the settled event run again.
    await database.query(
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, attempt_base = attempt WHERE kind = 'handler'`,
    );
    await after.settle();
    expect((await after.rows(`event_id = 'd-1'`)).map((row) => row.id)).toEqual(rows.map((row) => row.id));
    expect(sent).toHaveLength(2);
    expect(new Set(sent).size).toBe(2);
    // A delivery of today has the new name; one of before, delivered again, stays the one it was.
    await after.deliver('d-3');
    expect((await after.rows(`event_id = 'd-3'`)).map((row) => row.name)).toEqual(['awardee/new-handler']);
    expect(await after.deliver('d-2')).toMatchObject({ body: { status: 'duplicate' } });
    expect(await after.rows(`event_id = 'd-2' AND kind = 'handler'`)).toHaveLength(1);
  });
});

describe('long work', () => {
  it('case 9 a batch whose tail outlives its lease is renewed: two relays, and each effect is done once', async () => {
    const calls = new Map<string, number>();
    script.handle = async (_, { enqueue }) => {
      for (let index = 0; index < 10; index += 1) await enqueue('mail', {}, { key: String(index) });
    };
    script.effect = async (_, { key }) => {
      calls.set(key, (calls.get(key) ?? 0) + 1);
      await pause(3_000);
    };
    const relay = { lease: '2s', pollInterval: '50ms', effects: 10 };
    const one = await start({ loop: true, webhooks: { relay } });
    await start({ loop: true, webhooks: { relay } });
    await one.deliver('d-1');
    await until(async () => (await one.rows(`state = 'done'`)).length === 11, 20_000);
    expect([...calls.values()]).toEqual(Array.from({ length: 10 }, () => 1));
    expect(await one.rows('attempt > 1 OR lost > 0')).toEqual([]);
  });

  it.each([
    ['before anyone else has the row: it settles it', false],
    ['after another process has taken it: it changes nothing', true],
  ])(
    'case 33 without renewals the signal fires before the lease ends, and the end comes %s',
    async (_, taken) => {
      // Long enough for a machine that is busy with other things.
      const relay = { lease: '3s' };
      let aborted = 0;
      let leaseEnds = 0;
      let goOn: () => void = () => undefined;
      script.handle = async (_event, { enqueue }) => void (await enqueue('mail', {}));
      script.effect = async (_payload, { signal, attempt }) => {
        if (attempt > 1) return 'second';
        leaseEnds = performance.now() + 3_000;
        signal.addEventListener('abort', () => (aborted = performance.now()));
        await new Promise<void>((resolve) => (goOn = resolve));
        return 'first';
      };
      // The handler has the default lease: it is the effect's that is to end.
      const other = await start();
      await other.deliver('d-1');
      expect(await other.relay.tick()).toMatchObject({ done: 1 });
      const inbox = await start({ webhooks: { relay } });
      inbox.app.get(OutboxStore).renew = () => Promise.reject(new Error('no database'));
      const run = inbox.relay.tick();
      const renewals = setInterval(() => void inbox.work.renew(), 300);
      try {
        expect(await run).toMatchObject({ leased: 1, done: 0 });
      } finally {
        clearInterval(renewals);
      }
      expect(aborted).toBeGreaterThan(0);
      expect(aborted).toBeLessThan(leaseEnds);
      if (taken) {
        await inbox.makeDue();
        expect(await other.relay.tick()).toMatchObject({ done: 1 });
      }
      goOn();
      await until(async () => (await inbox.rows(`kind = 'effect' AND state = 'done'`)).length === 1);
      await pause(20);
      await other.settle();
      expect(await database.query(RESULTS)).toEqual([
        { result: taken ? '"second"' : '"first"', attempt: taken ? 2 : 1 },
      ]);
    },
  );

  it('a run whose lease another process took is aborted at the next renewal, rolls back and settles nothing', async () => {
    let started: () => void = () => undefined;
    const running = new Promise<void>((resolve) => (started = resolve));
    script.handle = async (event, context) => {
      await record(event, context);
      started();
      await new Promise(() => undefined);
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    const tick = inbox.relay.tick();
    await running;
    await database.query(`UPDATE webhook_outbox SET leased_by = gen_random_uuid(), attempt = attempt + 1`);
    const before = await inbox.rows();
    await inbox.work.renew();
    expect(await tick).toMatchObject({ leased: 1, lost: 1 });
    const lost = { source: 'awardee', metric: 'lost', value: 1 };
    expect(inbox.app.get(Tally).drain().metrics).toContainEqual(lost);
    expect(await inbox.rows()).toEqual(before);
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
  });

  it('a handler that ends after its lease was taken commits nothing', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      await database.query(`UPDATE webhook_outbox SET leased_by = gen_random_uuid(), attempt = attempt + 1`);
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, lost: 1 });
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
  });

  it('an earlier run of the same row, in the same process, does not take the later one off the books', async () => {
    const goOn: (() => void)[] = [];
    script.handle = async () => {
      await new Promise<void>((resolve) => goOn.push(resolve));
    };
    const inbox = await start();
    await inbox.deliver('d-1');
    const first = inbox.relay.tick();
    await until(() => goOn.length === 1);
    await database.query(`UPDATE webhook_outbox SET lease_until = now()`);
    const second = inbox.relay.tick();
    await until(() => goOn.length === 2);
    goOn[0]!();
    expect(await first).toMatchObject({ lost: 1 });
    expect(inbox.work.running).toBe(1);
    goOn[1]!();
    expect(await second).toMatchObject({ done: 1 });
    expect(inbox.work.running).toBe(0);
  });
});

describe('rounds', () => {
  it('an effect that a handler enqueues waits for the next tick, however late the statements of this one are answered', async () => {
    script.handle = async (_event, { enqueue }) => void (await enqueue('mail', {}));
    const inbox = await start();
    const store = inbox.app.get(OutboxStore);
    const lease = store.lease.bind(store);
    store.lease = async (...args) => {
      // As long as a busy machine may take.
      await until(() => inbox.work.running === 0, 300).catch(() => undefined);
      return lease(...args);
    };
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
  });

  it('case 34 never overlap, however often the relay is woken and however long a round takes', async () => {
    let now = 0;
    let most = 0;
    let rounds = 0;
    const inbox = await start({ loop: true, webhooks: { relay: { pollInterval: '10ms' } } });
    const store = inbox.app.get(OutboxStore);
    const lease = store.lease.bind(store);
    store.lease = async (...args) => {
      now += 1;
      rounds += 1;
      most = Math.max(most, now);
      await pause(35);
      now -= 1;
      return lease(...args);
    };
    await Promise.all(Array.from({ length: 20 }, (_, index) => inbox.deliver(`d-${index}`)));
    await until(() => rounds >= 12);
    expect(most).toBe(1);
  });

  it('a round that fails is followed by another, after the poll interval', async () => {
    const inbox = await start({ loop: true, webhooks: { relay: { pollInterval: '20ms' } } });
    const store = inbox.app.get(OutboxStore);
    const lease = store.lease.bind(store);
    let failures = 3;
    store.lease = async (...args) => {
      failures -= 1;
      if (failures >= 0) throw new Error('no database');
      return lease(...args);
    };
    await inbox.deliver('d-1');
    await until(async () => (await inbox.rows())[0]?.state === 'done');
    expect(failures).toBeLessThan(0);
  });

  describe('a round in which a later look fails', () => {
    const gate = () => {
      const ran: string[] = [];
      const latch = new Latch();
      script.handle = async ({ eventId }) => {
        ran.push(eventId);
        if (ran.length === 1) await latch.wait();
      };
      return { ran, latch };
    };
    /** The handlers' look comes first, the effects' last. */
    const failEffects = (inbox: TestInbox) => {
      const store = inbox.app.get(OutboxStore);
      const lease = store.lease.bind(store);
      let failures = 0;
      store.lease = async (...args) => {
        if (!args[3].some(({ name }) => inbox.app.get(HandlerRegistry).effects().has(name)))
          return lease(...args);
        failures += 1;
        throw new Error('no database');
      };
      return { count: () => failures, stop: () => void (store.lease = lease) };
    };

    it('still waits for what it has started, by tick', async () => {
      const { ran, latch } = gate();
      const inbox = await start();
      await inbox.deliver('d-1');
      const failing = failEffects(inbox);
      const ticking = inbox.relay.tick();
      let over = false;
      void ticking.catch(() => (over = true));
      await until(() => failing.count() === 1 && ran.length === 1);
      await pause(20);
      expect(over).toBe(false);
      latch.open();
      await expect(ticking).rejects.toThrow('no database');
      expect(await inbox.rows()).toMatchObject([{ state: 'done' }]);
    });

    it('still has the place of what it has started filled again, in the loop', async () => {
      const { ran, latch } = gate();
      const inbox = await start({
        loop: true,
        providers: [scripted(script, { handler: { concurrency: 1 } })],
        webhooks: { relay: { pollInterval: '1h', handOff: false } },
      });
      const failing = failEffects(inbox);
      await inbox.deliver('d-1');
      await until(() => ran.length === 1 && failing.count() > 0);
      const before = failing.count();
      await inbox.deliver('d-2');
      await until(() => failing.count() > before);
      failing.stop();
      latch.open();
      await until(async () => (await inbox.rows(`state = 'done'`)).length === 2);
    });
  });

  it('a wake that comes during a round that fails is not lost', async () => {
    const inbox = await start({
      loop: true,
      webhooks: { relay: { pollInterval: '1h', handOff: false, listen: false } },
    });
    await until(() => inbox.leaser.wasEmpty('awardee/handle'));
    const store = inbox.app.get(OutboxStore);
    const lease = store.lease.bind(store);
    const failing = new Latch();
    store.lease = async () => {
      await failing.wait();
      store.lease = lease;
      throw new Error('no database');
    };
    await inbox.deliver('d-1');
    await until(() => failing.arrived === 1);
    await inbox.deliver('d-2');
    failing.open();
    await until(async () => (await inbox.rows(`state = 'done'`)).length === 2);
  });

  it('a look for turns that fails is made again by the next round', async () => {
    const inbox = await start({
      loop: true,
      providers: [
        scripted(script, { handler: { key: () => 'one' } }),
        scripted(script, { sources: ['other'], effect: false }),
      ],
      webhooks: {
        sources: { awardee: awardeeSource(), other: awardeeSource() },
        relay: { pollInterval: '1h', handOff: false, listen: false },
      },
    });
    await until(() => inbox.leaser.wasEmpty('other/handle'));
    const store = inbox.app.get(TurnStore);
    const give = store.give.bind(store);
    let failures = 0;
    store.give = async () => {
      store.give = give;
      failures += 1;
      throw new Error('no database');
    };
    await inbox.deliver('d-1');
    await until(() => failures === 1);
    await inbox.deliverTo('other', 'd-2');
    await until(async () => (await inbox.rows(`state = 'done'`)).length === 2);
  });

  it('a commit of this process wakes the relay: nothing waits for the poll', async () => {
    const sent: number[] = [];
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', {}));
    script.effect = () => void sent.push(1);
    const inbox = await start({ loop: true, webhooks: { relay: { pollInterval: '1h' } } });
    await inbox.deliver('d-1');
    await until(() => sent.length === 1);
  });

  it('what another process has committed is found by the poll', async () => {
    const inbox = await start({ loop: true, webhooks: { relay: { pollInterval: '50ms' } } });
    const receiver = await start({ webhooks: { relay: false } });
    await receiver.deliver('d-1');
    await until(async () => (await inbox.rows())[0]?.state === 'done');
  });
});

describe('case 23 the database’s clock alone decides', () => {
  const RealDate = Date;
  afterEach(() => {
    globalThis.Date = RealDate;
  });

  it.each([10, -10])(
    'a process whose clock is %i minutes off runs what is due, and nothing else',
    async (minutes) => {
      const inbox = await start();
      script.handle = async (event) => {
        if (event.eventId === 'later') throw new Error('later');
      };
      const now = () => RealDate.now() + minutes * 60_000;
      globalThis.Date = class extends RealDate {
        constructor(...args: [] | [number]) {
          super(args.length === 0 ? now() : args[0]);
        }
        static override now = now;
      } as DateConstructor;

      await inbox.deliver('live');
      // Another process holds a lease that ends in a minute.
      await database.query(
        `UPDATE webhook_outbox SET leased_by = gen_random_uuid(), attempt = 1, lease_until = now() + interval '1 minute'`,
      );
      expect(await inbox.relay.tick()).toMatchObject({ leased: 0 });
      // A retry is due in some seconds of the database's clock, and not before.
      await inbox.deliver('later');
      expect(await inbox.relay.tick()).toMatchObject({ leased: 1, retried: 1 });
      await database.query(
        `UPDATE webhook_outbox SET due_at = due_at + interval '1 minute' WHERE event_id = 'later'`,
      );
      expect(await inbox.relay.tick()).toMatchObject({ leased: 0 });
      const [later] = await database.query<{ ms: number }>(
        `SELECT extract(epoch FROM due_at - now())::float8 * 1000 AS ms FROM webhook_outbox WHERE event_id = 'later'`,
      );
      expect(later!.ms).toBeGreaterThan(0);
      expect(later!.ms).toBeLessThan(61_100);
      // What is due runs at once.
      await inbox.deliver('now');
      expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    },
  );

  it('no statement of the storage is given a time of this process, and neither is a lease', async () => {
    const places: string[] = [];
    const root = join(import.meta.dirname, '../../src');
    for (const file of await readdir(root, { recursive: true })) {
      if (!/^(?:storage|outbox)\b.*\.ts$/.test(file)) continue;
      const text = await readFile(join(root, file), 'utf8');
      if (/\bnew Date\(\)|\bDate\.now\b/.test(text)) places.push(file);
    }
    expect(places).toEqual([]);
  });
});

describe('a handler’s row whose claim is gone', () => {
  it('is dead, with the reason, and keeps nobody else from running', async () => {
    const ran: string[] = [];
    script.handle = ({ eventId }) => void ran.push(eventId);
    const inbox = await start();
    await inbox.deliver('orphan');
    // As after a restore of that table from an older backup.
    await inbox.query(`DELETE FROM webhook_claim`);
    await inbox.deliver('whole');
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
    expect(ran).toEqual(['whole']);
    expect(await inbox.rows(`event_id = 'orphan'`)).toMatchObject([
      {
        state: 'dead',
        reason: 'unreadable-body',
        attempt: 1,
        error: expect.stringContaining('claim is gone'),
      },
    ]);
    expect(await inbox.rows(`event_id = 'whole'`)).toMatchObject([{ state: 'done', attempt: 1 }]);
    expect(inbox.alerts).toMatchObject([{ kind: 'dead-letter', reason: 'unreadable-body' }]);
  });
});

describe('concurrency', () => {
  it('is the handler’s own, the relay’s, and leaves connections to the claims', async () => {
    let running = 0;
    let most = 0;
    const busy = async () => {
      running += 1;
      most = Math.max(most, running);
      await pause(200);
      running -= 1;
    };
    script.handle = busy;
    for (const [setup, limit] of [
      [{ providers: [scripted(script, { handler: { concurrency: 2 } })] }, 2],
      [{ webhooks: { relay: { handlers: 3 } } }, 3],
      [{ poolSize: 7 }, 4],
    ] satisfies [InboxSetup, number][]) {
      most = 0;
      const inbox = await start({ loop: true, ...setup });
      await Promise.all(Array.from({ length: 12 }, (_, index) => inbox.deliver(`${limit}-${index}`)));
      await until(async () => (await inbox.rows(`state <> 'done'`)).length === 0);
      expect(most).toBe(limit);
      await expectNoLeak(poolOf(inbox.dataSource));
      await inbox.stop();
      inboxes.pop();
    }
  });
});
