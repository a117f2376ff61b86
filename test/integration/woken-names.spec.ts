import { Injectable } from '@nestjs/common';
import { setTimeout as pause } from 'node:timers/promises';
import { OnEffect, OnWebhook, Outbox, type WebhookEvent } from '../../src/index.js';
import type { RelayOptions } from '../../src/core/options/options.js';
import { HandlerSlots } from '../../src/outbox/slots/handler-slots.js';
import { WakeUp } from '../../src/outbox/wake/wake-up.js';
import { OutboxStore } from '../../src/storage/outbox.store.js';
import { runDue } from '../../src/testing/index.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { awardeeSource, startInbox, type TestInbox } from './support/inbox.js';

/** Later than a test waits: what is run at all was woken. */
const NEVER = { pollInterval: '10m', listen: false } as const;
const sources = { busy: awardeeSource(), other: awardeeSource() };

let database: TestDatabase;
let inbox: TestInbox;
let latch: Latch;
let events: WebhookEvent[];
let mails: number;

@Injectable()
class Handlers {
  @OnWebhook('busy', '*', { name: 'handle' })
  async busy(event: WebhookEvent) {
    events.push(event);
    await latch.wait();
  }

  @OnWebhook('other', '*', { name: 'handle' })
  other(event: WebhookEvent) {
    events.push(event);
  }

  @OnEffect('mail')
  mail() {
    mails += 1;
  }
}

beforeEach(async () => {
  events = [];
  mails = 0;
  latch = new Latch();
  database = await createDatabase();
});
afterEach(async () => {
  latch.open();
  await until(() => inbox.work.running === 0);
  await inbox.stop();
  await database.drop();
});

async function start(relay: RelayOptions): Promise<void> {
  inbox = await startInbox({
    database,
    loop: true,
    providers: [Handlers],
    webhooks: { sources, relay, notify: false },
  });
  await until(() => ['busy/handle', 'other/handle', 'mail'].every((name) => inbox.leaser.wasEmpty(name)));
}
const done = (where: string) => inbox.rows(`state = 'done' AND ${where}`);

/** One more row of the other source's handler, that no wake tells of. */
const addOther = () =>
  inbox.query(`INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
    SELECT gen_random_uuid(), 'handler', 'other/handle', source, tenant, event_id FROM webhook_claim LIMIT 1`);

/** Events one after the other, more often than the poll, until something has happened. */
async function busyUntil(check: () => boolean): Promise<void> {
  let nth = 0;
  await until(async () => {
    await inbox.deliverTo('busy', `busy-${(nth += 1)}`);
    await pause(40);
    return check();
  }, 20_000);
}

describe('the poll looks everywhere however busy the process is', () => {
  it('an effect enqueued in a transaction of the application’s is run', async () => {
    await start({ pollInterval: 300, listen: false });
    latch.open();
    await inbox.dataSource.transaction((manager) => inbox.app.get(Outbox).enqueue(manager, 'mail', {}));
    await busyUntil(() => mails === 1);
  });

  it('a retry of a busy name is made when its time has come', async () => {
    await start({ pollInterval: 300, listen: false });
    latch.open();
    await inbox.deliverTo('busy', 'first');
    await until(async () => (await done(`event_id = 'first'`)).length === 1);
    await inbox.query(`UPDATE webhook_outbox
      SET state = 'pending', settled_at = NULL, due_at = now() + interval '500 ms' WHERE event_id = 'first'`);
    await busyUntil(() => events.filter(({ eventId }) => eventId === 'first').length === 2);
  });
});

it('a wake that comes while a look is under way is not lost', async () => {
  await start(NEVER);
  latch.open();
  await inbox.deliverTo('busy', '1');
  const store = inbox.app.get(OutboxStore);
  const lease = store.lease.bind(store);
  const answer = new Latch();
  store.lease = async (...given) => {
    const result = await lease(...given);
    if (answer.arrived === 0 && given[3].some(({ name }) => name === 'other/handle')) await answer.wait();
    return result;
  };
  inbox.app.get(WakeUp).wake();
  await until(() => answer.arrived === 1);
  await addOther();
  inbox.app.get(WakeUp).wake(['other/handle']);
  answer.open();
  await until(async () => (await done(`name = 'other/handle'`)).length === 1);
});

it('a wake without names that finds all places taken is not lost', async () => {
  await start({ ...NEVER, handlers: 1 });
  await inbox.deliverTo('busy', '1');
  await until(() => latch.arrived === 1);
  await addOther();
  inbox.app.get(WakeUp).wake();
  latch.open();
  await until(async () => (await done(`name = 'other/handle'`)).length === 1);
});

it('rows that were leased ahead and given back at a renewal are looked for', async () => {
  await start(NEVER);
  const { prefetch } = inbox.app.get(HandlerSlots);
  prefetch.recordRun('busy/handle', 1);
  prefetch.recordLease(100);
  for (let nth = 0; nth < 20; nth += 1) await inbox.deliverTo('busy', `${nth}`);
  await until(async () => (await inbox.rows('leased_by IS NOT NULL')).length > 8);
  await inbox.work.renew();
  await until(async () => (await inbox.rows('leased_by IS NOT NULL')).length < 8);
  latch.open();
  await until(async () => (await done('true')).length === 20);
});

it('runDue waits for what was handed off while the pauses were looked up', async () => {
  await start(NEVER);
  latch.open();
  // Longer than what is known of the pauses holds.
  await pause(1_100);
  await inbox.deliverTo('busy', '1');
  expect(await runDue(inbox.app)).toMatchObject({ done: 1 });
  expect(events).toHaveLength(1);
});
