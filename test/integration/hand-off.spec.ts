import { Injectable, type Type } from '@nestjs/common';
import { hmac, OnWebhook, type WebhookEvent, type WebhooksOptions } from '../../src/index.js';
import { Instance } from '../../src/core/instance.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { JobRunner } from '../../src/outbox/relay/job.runner.js';
import { PausedNames } from '../../src/outbox/relay/paused-names.js';
import { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { AWARDEE_SECRET } from '../support/signing.js';
import { awardeeSource, startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';
import { cuttingProxy, type CuttingProxy } from './support/proxy.js';

/** A lease marks a row so, and the insert of a row that is handed off does not. */
const WAS_LEASED = 'first_leased_at IS NOT NULL';
const HANDED_OFF = `attempt > 0 AND first_leased_at IS NULL`;
/** Longer than a test: what is run at all was woken, or handed off. */
const relay = { pollInterval: '10m', listen: false } as const;

const sources: WebhooksOptions['sources'] = {
  free: awardeeSource(),
  other: awardeeSource(),
  keyed: awardeeSource(),
  narrow: awardeeSource(),
  limited: awardeeSource({ concurrency: 2 }),
  batched: awardeeSource(),
  several: hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    eventsPath: 'events',
    idPath: 'id',
    typePath: 'type',
  }),
};

let database: TestDatabase;
let proxy: CuttingProxy;
let inbox: TestInbox;
let latch: Latch;
/** Events as the handlers got them, in the order in which these began. */
let events: WebhookEvent[];
let failFirst: boolean;

@Injectable()
class Handlers {
  @OnWebhook('free', '*', { name: 'handle', retry: { base: 1, cap: 1 } })
  @OnWebhook('other', '*', { name: 'handle' })
  @OnWebhook('several', '*', { name: 'handle' })
  @OnWebhook('keyed', '*', { name: 'handle', key: () => 'one' })
  @OnWebhook('narrow', '*', { name: 'handle', concurrency: 2 })
  @OnWebhook('limited', '*', { name: 'handle' })
  async handle(event: WebhookEvent) {
    events.push(event);
    if (failFirst && events.length === 1) throw new Error('once more');
    await latch.wait();
  }

  @OnWebhook('batched', '*', { name: 'handle', batch: 2 })
  async handleBatch(batch: readonly WebhookEvent[]) {
    events.push(...batch);
  }
}

beforeEach(async () => {
  events = [];
  failFirst = false;
  latch = new Latch();
  database = await createDatabase();
  proxy = await cuttingProxy(database.url);
});
afterEach(async () => {
  latch.open();
  await until(() => inbox.work.running === 0);
  await inbox.stop();
  await proxy.close();
  await database.drop();
});

async function start(setup: Partial<InboxSetup> = {}, handlers: readonly Type[] = [Handlers]): Promise<void> {
  const { webhooks, ...rest } = setup;
  inbox = await startInbox({
    database,
    databaseUrl: proxy.url,
    loop: true,
    providers: [...handlers],
    webhooks: { sources, relay, notify: false, ...webhooks },
    // Its own transactions would be cut in place of the claim's.
    configure: (app) => void (app.get(DeskKeeper).onApplicationBootstrap = () => undefined),
    ...rest,
  });
  await ready();
}

/** The relay has looked for every name, and found nothing. */
async function ready(): Promise<void> {
  await until(() => Object.keys(sources).every((source) => inbox.leaser.wasEmpty(`${source}/handle`)));
}
/** Claims for which the condition holds take their time. */
async function slowClaims(when: string, seconds = 0.5): Promise<void> {
  await inbox.query(`CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(${seconds}); RETURN NEW; END $$`);
  await inbox.query(`CREATE TRIGGER slow BEFORE INSERT ON webhook_claim FOR EACH ROW WHEN (${when})
    EXECUTE FUNCTION pause()`);
}
async function refuseClaim(eventId: string): Promise<void> {
  await inbox.query(
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`,
  );
  await inbox.query(`CREATE TRIGGER refuse BEFORE INSERT ON webhook_claim FOR EACH ROW WHEN (NEW.event_id = '${eventId}')
    EXECUTE FUNCTION refuse()`);
}
/** Such a claim is under way. */
const claiming = () =>
  until(
    async () =>
      (
        await inbox.query(
          `SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`,
        )
      ).length > 0,
  );
const done = (count = 1) => until(async () => (await inbox.rows(`state = 'done'`)).length === count);

it('a row that finds a slot is inserted leased, and run after the commit without having been looked for', async () => {
  await start();
  await inbox.deliverTo('free', '1');
  await until(() => events.length === 1);
  expect(await inbox.rows(HANDED_OFF)).toMatchObject([
    { state: 'pending', leased_by: inbox.app.get(Instance).id, attempt: 1 },
  ]);
  latch.open();
  await done();
});

it('the handler gets the event as it would out of the database', async () => {
  await start();
  latch.open();
  failFirst = true;
  await inbox.deliverTo('free', '1', { amount: 7 });
  await until(async () => {
    await inbox.relay.tick();
    return events.length === 2;
  });
  expect(events[1]).toEqual(events[0]);
  expect(events[0]!.payload).toEqual({ amount: 7 });
  expect(await inbox.rows(WAS_LEASED)).toHaveLength(1);
});

it.each(['keyed', 'narrow', 'limited', 'batched'])(
  'what has a key or a limit, or comes in batches, is leased: %s',
  async (source) => {
    await start();
    latch.open();
    await inbox.deliverTo(source, '1');
    await done();
    expect(await inbox.rows(WAS_LEASED)).toHaveLength(1);
  },
);

it('`handOff: false` turns it off', async () => {
  await start({ webhooks: { sources, relay: { ...relay, handOff: false } } });
  latch.open();
  await inbox.deliverTo('free', '1');
  await done();
  expect(await inbox.rows(WAS_LEASED)).toHaveLength(1);
});

it('no more than there are slots, one is left to others, and what came first goes first', async () => {
  await start();
  for (let nth = 0; nth < 20; nth += 1) await inbox.deliverTo('free', `f-${nth}`);
  const taken = events.length;
  expect(taken).toBeGreaterThan(0);
  expect(taken).toBeLessThan(7);
  await inbox.deliverTo('other', 'o-1');
  await until(() => events.some(({ source }) => source === 'other'));
  latch.open();
  await done(21);
  const order = events.filter(({ source }) => source === 'free').map(({ eventId }) => eventId);
  const handedOff = order.slice(0, taken);
  expect(handedOff).toEqual(Array.from({ length: taken }, (_, nth) => `f-${nth}`));
});

it('nothing is handed off while others may take what is leased here', async () => {
  await start();
  inbox.work.suspend();
  await inbox.deliverTo('free', '1');
  expect(await inbox.rows()).toMatchObject([{ leased_by: null, attempt: 0 }]);
  inbox.work.resume();
  latch.open();
  await inbox.deliverTo('free', '2');
  await done(2);
});

it('nothing is handed off past rows that wait', async () => {
  await start();
  for (let nth = 0; nth < 20; nth += 1) await inbox.deliverTo('free', `f-${nth}`);
  const before = (await inbox.rows(HANDED_OFF)).length;
  expect(inbox.leaser.wasEmpty('free/handle')).toBe(false);
  latch.open();
  await inbox.deliverTo('free', 'late');
  await done(21);
  expect(await inbox.rows(HANDED_OFF)).toHaveLength(before);
});

it('a duplicate gives its slot back', async () => {
  await start();
  latch.open();
  for (let nth = 0; nth < 20; nth += 1) await inbox.deliverTo('free', 'same');
  await done();
  await inbox.deliverTo('free', 'another');
  await done(2);
  expect(await inbox.rows(HANDED_OFF)).toHaveLength(2);
  expect(events).toHaveLength(2);
});

it('a slot that was kept for a duplicate is given to who waits for one', async () => {
  await start({ webhooks: { sources, relay: { ...relay, handlers: 1 } } });
  latch.open();
  await inbox.deliverTo('free', '1');
  await done();
  await slowClaims(`NEW.event_id = '1'`);
  const again = inbox.deliverTo('free', '1');
  await claiming();
  await inbox.deliverTo('other', '2');
  expect(await again).toMatchObject({ status: 200, body: { status: 'duplicate' } });
  await done(2);
});

it('a lease that is given back late is not that of the second try', async () => {
  await start();
  const store = inbox.app.get(OutboxStore);
  const release = store.release.bind(store);
  const late = new Latch();
  store.release = async (...given) => {
    await late.wait();
    return release(...given);
  };
  await refuseClaim('z');
  const both = { events: ['b', 'z'].map((id) => ({ id, type: 'grant.made' })) };
  const delivered = inbox.deliverTo('several', '', both);
  await until(() => late.arrived > 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(events).toEqual([]);
  late.open();
  expect(await delivered).toMatchObject({ status: 503 });
  await until(() => events.length === 1);
  latch.open();
  await done();
  expect(await inbox.rows(`event_id = 'b'`)).toMatchObject([{ attempt: 1, lost: 0 }]);
  expect(events).toHaveLength(1);
});

it('a lease that is given back again is not that of a second try which is about to begin', async () => {
  await start();
  latch.open();
  const store = inbox.app.get(OutboxStore);
  const release = store.release.bind(store);
  const releases: number[] = [];
  store.release = async (...given) => {
    const released = await release(...given);
    releases.push(released);
    return released;
  };
  const paused = inbox.app.get(PausedNames);
  const read = paused.read.bind(paused);
  const beginning = new Latch();
  paused.read = async (maxMs) => {
    // The loop reads them too.
    if ((await inbox.rows(`event_id = 'b'`)).length > 0) await beginning.wait();
    return read(maxMs);
  };
  await refuseClaim('z');
  const both = { events: ['b', 'z'].map((id) => ({ id, type: 'grant.made' })) };
  expect(await inbox.deliverTo('several', '', both)).toMatchObject({ status: 503 });
  await until(() => beginning.arrived > 0);
  // The releases after the first try are repeated after one second.
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  expect(await inbox.rows(`event_id = 'b'`)).toMatchObject([{ leased_by: inbox.app.get(Instance).id }]);
  beginning.open();
  await done();
  expect(await inbox.rows(`event_id = 'b'`)).toMatchObject([{ attempt: 1, attempt_base: 0, lost: 0 }]);
  expect(events).toHaveLength(1);
  expect(releases.filter((released) => released > 0)).toEqual([]);
});

it('what was committed although the claim failed is given back, and runs once', async () => {
  await start();
  latch.open();
  proxy.cutAt('COMMIT', 'after', { times: 2 });
  expect(await inbox.deliverTo('free', '1')).toMatchObject({ status: 503 });
  await done();
  expect(events).toHaveLength(1);
  expect(await inbox.rows(WAS_LEASED)).toMatchObject([{ lost: 0 }]);
});

it('what the server commits only after the claim was given up, and after it was looked for, is given back', async () => {
  await start({ webhooks: { claimTimeout: '300ms' } });
  latch.open();
  await slowClaims('true', 2);
  expect(await inbox.deliverTo('free', '1')).toMatchObject({ status: 503 });
  await until(async () => (await inbox.rows()).length === 1, 20_000);
  await done();
  expect(await inbox.rows(WAS_LEASED)).toMatchObject([{ lost: 0 }]);
});

it('one that cannot be started is given back, and ends no process', async () => {
  await start();
  latch.open();
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const runner = inbox.app.get(JobRunner);
  const startHeld = runner.startHeld.bind(runner);
  let refused = 0;
  runner.startHeld = (...given) => {
    if (refused > 0) return startHeld(...given);
    refused += 1;
    throw new Error('on purpose');
  };
  expect(await inbox.deliverTo('free', '1')).toMatchObject({ status: 200 });
  await done();
  process.off('unhandledRejection', note);
  expect(refused).toBe(1);
  expect(unhandled).toEqual([]);
  // The row is settled a moment before its job gives the slot back.
  await until(() => runner.occupants.length === 0);
});

it('what is committed while the process stops is given back, as if it had not begun', async () => {
  await start();
  await slowClaims('true');
  const delivered = inbox.deliverTo('free', '1');
  await claiming();
  inbox.app.get(RelayLoop).stopLeasing();
  expect(await delivered).toMatchObject({ status: 200 });
  await until(async () => (await inbox.rows('leased_by IS NULL')).length === 1);
  const [row] = await inbox.rows();
  // Leased by the insert, and the attempt forgiven.
  expect(row).toMatchObject({ attempt: 1, attempt_base: 1, lost: 0 });
  expect(events).toEqual([]);
});

it.each([
  ['handler', 'free/handle'],
  ['source', 'free'],
])(
  'a pause of the %s by another instance keeps the row from running, without an attempt',
  async (kind, name) => {
    await start();
    await inbox.query(
      `INSERT INTO webhook_pause (kind, name, paused_by, reason) VALUES ($1, $2, 'ann', 'to see')`,
      [kind, name],
    );
    // What was read of the pauses is older than a second by then.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await inbox.deliverTo('free', '1');
    await until(async () => (await inbox.rows('leased_by IS NULL')).length === 1);
    const [row] = await inbox.rows();
    // Leased by the insert, and the attempt forgiven.
    expect(row).toMatchObject({ attempt: 1, attempt_base: 1, lost: 0 });
    expect(events).toEqual([]);
  },
);
