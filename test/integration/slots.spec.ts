import { Injectable, type Type } from '@nestjs/common';
import { OnEffect, OnWebhook, Outbox, Pauses, type WebhooksOptions } from '../../src/index.js';
import { HandlerSlots } from '../../src/outbox/slots/handler-slots.js';
import { PauseStore } from '../../src/storage/pause.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { awardeeSource, scripted, startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';

const who = { by: 'a test', reason: 'to see' };
let database: TestDatabase;
let inboxes: TestInbox[];
let latch: Latch;
/** Names of what runs, in the order in which it began. */
let began: string[];

beforeEach(async () => {
  database = await createDatabase();
  inboxes = [];
  latch = new Latch();
  began = [];
});
afterEach(async () => {
  latch.open();
  for (const inbox of inboxes) {
    await until(() => inbox.work.running === 0);
    await inbox.stop();
  }
  await database.drop();
});

const sources = (slow: Parameters<typeof awardeeSource>[0] = {}): WebhooksOptions['sources'] => ({
  slow: awardeeSource({ ...slow, name: 'slow' }),
  quick: awardeeSource({ name: 'quick' }),
});

/** Handlers of two sources, of which one has several that never end by themselves, and two effects of the same kind. */
function twoSources(slowHandlers: number, concurrency?: number): Type[] {
  const slow = Array.from({ length: slowHandlers }, (_, index) => {
    @Injectable()
    class Slow {
      @OnWebhook('slow', '*', { name: `slow-${index}` })
      async handle() {
        began.push('slow');
        await latch.wait();
      }
    }
    return Slow;
  });
  @Injectable()
  class Others {
    @OnWebhook('quick', '*', { name: 'quick' })
    quick() {
      began.push('quick');
    }

    @OnEffect('slow-effect', { concurrency })
    async slowEffect() {
      began.push('slow-effect');
      await latch.wait();
    }

    @OnEffect('quick-effect')
    quickEffect() {
      began.push('quick-effect');
    }
  }
  return [...slow, Others];
}

async function start(setup: InboxSetup): Promise<TestInbox> {
  const inbox = await startInbox({ database, ...setup });
  inboxes.push(inbox);
  return inbox;
}
const count = (name: string) => began.filter((one) => one === name).length;

/** Starts what there is room for, until there is no more; what hangs goes on. */
async function fill(inbox: TestInbox): Promise<void> {
  while (await inbox.startRound());
}

it.each([1, 4])('a flooded source, with %i slow handlers, leaves a slot to another', async (handlers) => {
  const inbox = await start({ providers: twoSources(handlers), webhooks: { sources: sources() } });
  for (let index = 0; index < 20; index += 1) await inbox.deliverTo('slow', `s-${index}`);
  await fill(inbox);
  await until(() => count('slow') === 6);
  await inbox.deliverTo('quick', 'q-1');
  await fill(inbox);
  await until(() => count('quick') === 1);
});

it('with slots for all, a flooded source does not go first for having come first', async () => {
  const inbox = await start({ providers: twoSources(4), webhooks: { sources: sources() } });
  for (let index = 0; index < 20; index += 1) await inbox.deliverTo('slow', `s-${index}`);
  await inbox.deliverTo('quick', 'q-1');
  await inbox.startRound();
  await until(() => count('quick') === 1);
});

describe('a quick handler, whose rows are leased ahead', () => {
  const LEASED = 'leased_by IS NOT NULL';

  /** As if its runs had been short until now, and then hang: 6 of 7 slots taken, and 14 rows, two for each slot, waiting for one. */
  async function flood(): Promise<TestInbox> {
    const inbox = await start({ providers: twoSources(1), webhooks: { sources: sources() } });
    const { prefetch } = inbox.app.get(HandlerSlots);
    prefetch.recordRun('slow/slow-0', 1);
    prefetch.recordLease(100);
    for (let index = 0; index < 40; index += 1) await inbox.deliverTo('slow', `s-${index}`);
    await fill(inbox);
    await until(() => count('slow') === 6);
    expect(await inbox.rows(LEASED)).toHaveLength(20);
    return inbox;
  }

  it('leaves a slot to another all the same', async () => {
    const inbox = await flood();
    await inbox.deliverTo('quick', 'q-1');
    await fill(inbox);
    await until(() => count('quick') === 1);
    expect(count('slow')).toBe(6);
  });

  it('hands its slots on without another lease', async () => {
    const inbox = await flood();
    latch.open();
    await until(async () => (await inbox.rows(`state = 'done'`)).length === 20);
    expect(await inbox.rows('attempt > 0')).toHaveLength(20);
  });

  it.each([
    ['the process stops', (inbox: TestInbox) => inbox.work.stopLeasing()],
    ['leases are renewed', (inbox: TestInbox) => void inbox.work.renew()],
  ])('gives back what waits, and has not begun, when %s', async (_, event) => {
    const inbox = await flood();
    event(inbox);
    await until(async () => (await inbox.rows(LEASED)).length === 6);
    const returned = await inbox.rows('attempt > 0 AND leased_by IS NULL');
    expect(returned.map((row) => row.attempt - row.attempt_base)).toEqual(Array(14).fill(0));
    expect(inbox.work.running).toBe(6);
    latch.open();
    await until(() => inbox.work.running === 0);
    expect(count('slow')).toBe(6);
  });

  it('of which no row begins after a pause', async () => {
    const inbox = await flood();
    await inbox.app.get(Pauses).pause('source', 'slow', who);
    latch.open();
    await until(() => inbox.work.running === 0);
    expect(count('slow')).toBe(6);
    expect(await inbox.rows(LEASED)).toEqual([]);
  });

  it('of which no row begins once a pause of another instance is known', async () => {
    const inbox = await flood();
    const other = await start({ providers: twoSources(1), webhooks: { sources: sources() } });
    await other.app.get(Pauses).pause('source', 'slow', who);
    // What was read of the pauses is older than a second by then.
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await inbox.startRound();
    latch.open();
    await until(() => inbox.work.running === 0);
    expect(count('slow')).toBe(6);
  });

  it('a row that may have killed a process gets the next slot', async () => {
    const inbox = await flood();
    await inbox.query(
      `UPDATE webhook_outbox SET alone = true, attempt = 1 WHERE event_id = 's-39' AND leased_by IS NULL`,
    );
    await inbox.startRound();
    expect(await inbox.rows(`${LEASED} AND event_id = 's-39'`)).toHaveLength(1);
    latch.open();
    await until(async () => (await inbox.rows(`state = 'done' AND event_id = 's-39'`)).length === 1);
  });
});

it('a row that may have killed a process is not leased before a slot is free, where no row waits for one', async () => {
  const inbox = await start({ providers: twoSources(1), webhooks: { sources: sources() } });
  for (let index = 0; index < 8; index += 1) await inbox.deliverTo('slow', `s-${index}`);
  await fill(inbox);
  await until(() => count('slow') === 6);
  await inbox.query(`UPDATE webhook_outbox SET alone = true, attempt = 1 WHERE leased_by IS NULL`);
  await inbox.startRound();
  expect(await inbox.rows('alone AND leased_by IS NOT NULL')).toEqual([]);
});

it('the concurrency of a source holds for all its handlers together', async () => {
  const inbox = await start({
    providers: twoSources(3),
    webhooks: { sources: sources({ concurrency: 2 }) },
  });
  for (let index = 0; index < 5; index += 1) await inbox.deliverTo('slow', `s-${index}`);
  await fill(inbox);
  await until(() => count('slow') === 2);
  expect(await inbox.rows('leased_by IS NOT NULL')).toHaveLength(2);
});

it.each([
  ['its own concurrency', 3, 3],
  ['the relay’s, less a slot for another', undefined, 19],
])('a slow effect is held to %s, and never starves another', async (_, concurrency, expected) => {
  const inbox = await start({ providers: twoSources(0, concurrency), webhooks: { sources: sources() } });
  const outbox = inbox.app.get(Outbox);
  for (let index = 0; index < 30; index += 1)
    await outbox.enqueue(inbox.dataSource.manager, 'slow-effect', {}, { outsideTransaction: true });
  await fill(inbox);
  await until(() => count('slow-effect') === expected);
  await outbox.enqueue(inbox.dataSource.manager, 'quick-effect', {}, { outsideTransaction: true });
  await fill(inbox);
  await until(() => count('quick-effect') === 1);
  await until(async () => (await inbox.rows(`state = 'done'`)).length === 1);
  expect(await inbox.rows('leased_by IS NOT NULL')).toHaveLength(expected);
});

it('handlers leave connections for claims: events are claimed while every slot is taken', async () => {
  const inbox = await start({ providers: twoSources(1), webhooks: { sources: sources() }, poolSize: 5 });
  for (let index = 0; index < 5; index += 1) await inbox.deliverTo('slow', `s-${index}`);
  await fill(inbox);
  await until(() => count('slow') > 0);
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, index) => inbox.deliverTo('quick', `q-${index}`)),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
});

describe('a pause', () => {
  it.each([
    ['source', 'awardee', 'handler'],
    ['handler', 'awardee/handle', 'handler'],
    ['effect', 'mail', 'effect'],
  ] as const)(
    'of a %s holds on two instances until it is resumed, and receiving goes on',
    async (kind, name, work) => {
      const providers = [
        scripted({
          handle: async (_event, { enqueue }) => {
            began.push('handler');
            await enqueue('mail', {});
          },
          effect: () => void began.push('effect'),
        }),
      ];
      const [one, two] = [await start({ providers }), await start({ providers })];
      await two.relay.tick();
      expect(await one.app.get(Pauses).pause(kind, name, who)).toBe(true);
      expect(await one.app.get(Pauses).pause(kind, name, who)).toBe(false);
      expect(await two.app.get(Pauses).list()).toMatchObject([
        { kind, name, pausedBy: 'a test', reason: 'to see' },
      ]);
      // The other instance has read what is paused a moment ago.
      await new Promise((resolve) => setTimeout(resolve, 1_050));
      expect(await two.deliver('1')).toMatchObject({ status: 200 });
      for (const inbox of [one, two]) await inbox.relay.drain({ maxMs: 5_000 });
      expect(began).not.toContain(work);
      expect(await one.rows(`state = 'pending'`)).toMatchObject([{ kind: work, attempt: 0 }]);
      expect(await two.app.get(Pauses).resume(kind, name, who)).toBe(true);
      await two.relay.drain({ maxMs: 5_000 });
      expect(began).toContain(work);
      expect(await one.rows(`state <> 'done'`)).toEqual([]);
    },
  );

  it.each([
    ['source', 'awarde', /No source 'awarde'.*did you mean 'awardee'/],
    [
      'handler',
      'handle',
      /No handler has the full name 'handle' \(source\/name\); did you mean 'awardee\/handle'/,
    ],
    ['effect', 'mial', /No method has @OnEffect\('mial'\); did you mean 'mail'/],
  ] as const)('of a %s that nobody knows is refused, with the nearest', async (kind, name, message) => {
    const inbox = await start({ providers: [scripted({})] });
    await expect(inbox.app.get(Pauses).pause(kind, name, who)).rejects.toThrow(message);
    expect(await inbox.app.get(Pauses).list()).toEqual([]);
    // What is paused and has gone since can still be resumed.
    expect(await inbox.app.get(Pauses).resume(kind, name, who)).toBe(false);
  });

  it('is told of when no lease is under way that was decided on before it', async () => {
    const inbox = await start({ providers: [scripted({})] });
    const { dataSource } = inbox;
    let isPaused = false;
    let running: Promise<unknown>[] = [];
    await dataSource.transaction(async (manager) => {
      await manager.query(`LOCK TABLE webhook_outbox IN ACCESS EXCLUSIVE MODE`);
      const round = inbox.relay.tick();
      const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'webhook_outbox'::regclass`;
      await until(async () => (await database.query(waiting)).length > 0);
      const pausing = inbox.app.get(Pauses).pause('source', 'awardee', who);
      running = [round, pausing.then(() => (isPaused = true))];
      await until(async () => (await inbox.app.get(Pauses).list()).length > 0);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(isPaused).toBe(false);
    });
    await Promise.all(running);
    expect(isPaused).toBe(true);
  });

  it('holds where another is ended while what is paused is read for the first time', async () => {
    const providers = [scripted({ handle: () => void began.push('handler') })];
    const [one, two] = [await start({ providers }), await start({ providers })];
    await two.app.get(Pauses).pause('handler', 'awardee/handle', who);
    await two.app.get(Pauses).pause('effect', 'mail', who);
    await two.deliver('1');
    const store = one.app.get(PauseStore);
    const held = store.held.bind(store);
    store.held = async (manager) => {
      const names = await held(manager);
      await latch.wait();
      return names;
    };
    const round = one.relay.tick();
    await until(() => latch.arrived === 1);
    await one.app.get(Pauses).resume('effect', 'mail', who);
    latch.open();
    await round;
    expect(began).toEqual([]);
  });

  it('by a former name is one by the name of today', async () => {
    const inbox = await start({
      providers: [scripted({}, { handler: { was: ['old'] }, effect: { was: ['old-mail'] } })],
    });
    await inbox.app.get(Pauses).pause('handler', 'awardee/old', who);
    await inbox.app.get(Pauses).pause('effect', 'old-mail', who);
    expect(await inbox.app.get(Pauses).list()).toMatchObject([{ name: 'mail' }, { name: 'awardee/handle' }]);
  });

  it('lets go on what runs', async () => {
    const inbox = await start({
      providers: [
        scripted({
          handle: async () => {
            began.push('handler');
            await latch.wait();
          },
        }),
      ],
    });
    await inbox.deliver('1');
    const tick = inbox.relay.tick();
    await until(() => began.length === 1);
    await inbox.app.get(Pauses).pause('handler', 'awardee/handle', who);
    latch.open();
    expect(await tick).toMatchObject({ done: 1 });
  });
});

describe('renewals', () => {
  it('that never answer do not keep the signal from firing before the lease ends', async () => {
    let abortedAt = 0;
    const inbox = await start({
      providers: [
        scripted({
          handle: (_event, { signal }) =>
            new Promise((_, reject) => {
              began.push('handler');
              signal.addEventListener('abort', () => {
                abortedAt = performance.now();
                reject(signal.reason as Error);
              });
            }),
        }),
      ],
      webhooks: { relay: { lease: '3s' } },
    });
    await inbox.deliver('1');
    const startedAt = performance.now();
    const tick = inbox.relay.tick();
    await until(() => began.length === 1);
    const { store } = inbox.work as unknown as { store: { renew: () => Promise<never> } };
    const unanswered: (() => void)[] = [];
    store.renew = () =>
      new Promise<never>((_, reject) => unanswered.push(() => reject(new Error('given up'))));
    const renewals = setInterval(() => void inbox.work.renew(), 1_000);
    try {
      await tick;
    } finally {
      clearInterval(renewals);
      delete (store as { renew?: unknown }).renew;
      for (const giveUp of unanswered) giveUp();
    }
    expect(abortedAt - startedAt).toBeLessThan(3_000);
  });
});
