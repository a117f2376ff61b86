import { Injectable } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { DeliverySlots } from '../../src/outbox/slots/delivery-slots.js';
import { Solos } from '../../src/outbox/slots/solo.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { awardeeSource, startInbox, type TestInbox } from './support/inbox.js';

let database: TestDatabase;
let inbox: TestInbox;
let latches: Map<string, Latch>;
let began: string[];
const latch = (name: string) => latches.get(name) ?? latches.set(name, new Latch()).get(name)!;

@Injectable()
class Handlers {
  @OnWebhook('slow', '*', { name: 'slow' })
  async slow({ eventId }: WebhookEvent) {
    began.push(eventId);
    await latch(eventId).wait();
  }

  @OnWebhook('suspect', '*', { name: 'suspect', retry: { maxAttempts: 9 } })
  async suspect({ eventId }: WebhookEvent, { signal }: HandlerContext) {
    began.push(eventId);
    await latch(eventId).wait();
    signal.throwIfAborted();
    if (eventId === 'fails') throw new Error('on purpose');
  }

  @OnWebhook('quick', '*', { name: 'quick' })
  quick({ eventId }: WebhookEvent) {
    began.push(eventId);
  }
}

/** An inbox whose database holds an event of which two attempts were lost, the second in the lane. */
async function start(firstMs: number, id: string): Promise<void> {
  const names = ['slow', 'suspect', 'quick'];
  inbox = await startInbox({
    database,
    loop: true,
    providers: [Handlers],
    webhooks: {
      sources: Object.fromEntries(names.map((name) => [name, awardeeSource({ name })])),
      relay: { pollInterval: '50ms', handOff: false },
    },
  });
  inbox.app.get(Solos).firstMs = firstMs;
  await inbox.deliverTo('slow', 'slow');
  await until(() => began.includes('slow'));
  const other = await startInbox({
    database,
    providers: [],
    webhooks: { sources: { suspect: awardeeSource({ name: 'suspect' }) }, relay: false },
  });
  await other.deliverTo('suspect', id);
  await other.stop();
  const [claim] = await inbox.query<{ id: string }>(`SELECT id FROM webhook_claim WHERE event_id = $1`, [id]);
  await inbox.query(
    `INSERT INTO webhook_outbox (id, parent_id, kind, name, source, tenant, event_id, attempt, lost, alone, leased_by, due_at, lease_until)
     VALUES ($1, $2, 'handler', 'suspect/suspect', 'suspect', '', $3, 2, 1, true, $4, now() - interval '1 s', now() - interval '1 s')`,
    [randomUUID(), claim!.id, id, randomUUID()],
  );
}
const suspect = async () => (await inbox.rows(`name = 'suspect/suspect'`))[0]!;
const tries = async () => {
  const { attempt, attempt_base: base } = await suspect();
  return attempt - base;
};

beforeEach(async () => {
  database = await createDatabase();
  latches = new Map();
  began = [];
});
afterEach(async () => {
  for (const name of ['slow', 'hangs', 'fails', 'paused']) latch(name).open();
  await until(() => inbox.work.running === 0);
  await inbox.stop();
  await database.drop();
});

describe('a row that was lost twice', () => {
  it('waits for what runs, and holds others up, for a bounded time only; its loss beside them is not counted', async () => {
    await start(200, 'hangs');
    await until(() => began.includes('hangs'), 20_000);
    // Begun beside the slow one, which may be what kills.
    expect(await tries()).toBe(2);
    await inbox.deliverTo('quick', 'quick');
    await until(() => began.includes('quick'), 20_000);
    expect((await suspect()).state).toBe('pending');
    latch('hangs').open();
    await until(async () => (await suspect()).state === 'done');
  });

  it('begins at once when what runs has ended, and nothing begins beside it for that time', async () => {
    await start(600_000, 'hangs');
    await until(async () => (await suspect()).lost === 2);
    await inbox.deliverTo('quick', 'quick');
    expect(began).toEqual(['slow']);
    latch('slow').open();
    await until(() => began.includes('hangs'));
    expect(await tries()).toBe(3);
    expect(began).not.toContain('quick');
    latch('hangs').open();
    await until(() => began.includes('quick'));
  });

  it('whose loss would not be counted has its failure counted', async () => {
    await start(100, 'fails');
    await until(() => began.includes('fails'), 20_000);
    expect(await tries()).toBe(2);
    latch('fails').open();
    await until(async () => (await suspect()).error === 'on purpose');
    // Of three attempts the loss that brought it into the lane is forgiven.
    expect(await tries()).toBe(2);
  });

  it('is given back by a pause while it waits', async () => {
    await start(600_000, 'paused');
    await until(async () => (await suspect()).lost === 2);
    const delivery = inbox.app
      .get(DeliverySlots)
      .run({ name: 'quick/quick', source: 'quick' }, 20_000, async () => 'begun');
    const { Pauses } = await import('../../src/index.js');
    await inbox.app.get(Pauses).pause('handler', 'suspect/suspect', { by: 'a test', reason: 'to see' });
    expect(await suspect()).toMatchObject({ leased_by: null, state: 'pending' });
    expect(await delivery).toBe('begun');
    await inbox.deliverTo('quick', 'quick');
    await until(() => began.includes('quick'));
    latch('slow').open();
    expect(began).not.toContain('paused');
  });
});
