import { type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { StartupReconciler } from '../../src/index.js';
// In your application: 'nestjs-webhook-inbox/testing'.
import {
  advance,
  crashEverywhere,
  deliver,
  drain,
  expectEvent,
  fakeEffect,
  runDue,
  signWebhook,
} from '../../src/testing/index.js';
import { listen } from '../../test/support/application.js';
import { createDatabase, type TestDatabase } from '../../test/support/database.js';
import { BillingModule } from './app.module.js';
import { Invoice, Subscription } from './billing.entities.js';
import type { Receipt } from './receipts.effect.js';

const stripeSecret = 'whsec_0123456789abcdef';
let database: TestDatabase;

/** An instance of the application. Its mails go nowhere: the effect is the test's. */
async function start() {
  const settings = { databaseUrl: database.url, stripeSecret, mailUrl: 'http://127.0.0.1:9/mails' };
  const module = await Test.createTestingModule({ imports: [BillingModule.with(settings)] }).compile();
  const app = await module.createNestApplication({ logger: false }).init();
  return { app, mails: fakeEffect(app, 'send-receipt') };
}

const paid = (id: string, invoice: string, day = 1) => ({
  id,
  type: 'invoice.paid',
  payload: { data: { object: { id: invoice, customer_email: 'ann@example.com' } } },
  occurredAt: new Date(`2026-11-0${day}T12:00:00Z`),
});
const subscription = (id: string, status: string, day: number) => ({
  id,
  type: 'customer.subscription.updated',
  payload: { data: { object: { id: 'sub_1', status } } },
  occurredAt: new Date(`2026-11-0${day}T12:00:00Z`),
});

beforeAll(async () => {
  database = await createDatabase({ empty: true });
});
afterAll(() => database.drop());

describe('billing', () => {
  let app: INestApplication;
  let mails: Awaited<ReturnType<typeof start>>['mails'];
  beforeAll(async () => {
    ({ app, mails } = await start());
  });
  afterAll(() => app?.close());

  it('keeps the first paid_at, and sends one receipt for the invoice', async () => {
    await deliver.twice(app, 'stripe', paid('evt_1', 'in_1', 1));
    await deliver(app, 'stripe', paid('evt_2', 'in_1', 2));
    await runDue(app);
    const invoices = app.get(DataSource).getRepository(Invoice);
    expect(await invoices.find()).toEqual([
      { id: 'in_1', email: 'ann@example.com', paidAt: new Date('2026-11-01T12:00:00Z') },
    ]);
    expect([...mails.byKey.keys()]).toHaveLength(1);
    expect(await expectEvent(app, 'evt_1')).toMatchObject({
      state: 'processed',
      runs: [{ attempts: 1 }],
      effects: [{ state: 'done', payload: { invoice: 'in_1', email: 'ann@example.com' } }],
    });
  });

  it('sets the newest status, whatever the order', async () => {
    const events = ['trialing', 'active', 'past_due'].map((status, day) =>
      subscription(`evt_sub_${day}`, status, day + 1),
    );
    await deliver.shuffled(app, 'stripe', events);
    await drain(app);
    expect(await app.get(DataSource).getRepository(Subscription).find()).toEqual([
      { id: 'sub_1', status: 'past_due' },
    ]);
  });

  it('writes an invoice again that was removed after its event was handled', async () => {
    const invoices = app.get(DataSource).getRepository(Invoice);
    await invoices.delete({ id: 'in_1' });
    await database.query(`UPDATE webhook_outbox SET settled_at = settled_at - interval '10 minutes'`);
    await app.get(StartupReconciler).reconcile();
    await drain(app);
    expect(await invoices.findOneBy({ id: 'in_1' })).toMatchObject({ email: 'ann@example.com' });
    // Its receipt was sent, and is not sent again.
    expect(mails.calls.filter(({ payload }) => (payload as Receipt).invoice === 'in_1')).toHaveLength(1);
  });

  it('takes what Stripe has signed, and nothing else', async () => {
    const origin = await listen(app);
    const { payload, id, type } = paid('evt_9', 'in_9');
    const { method, headers, body } = signWebhook('stripe', {
      secret: stripeSecret,
      body: { id, type, ...payload },
    });
    const send = (sent: Buffer) =>
      fetch(`${origin}/webhooks/stripe`, { method, headers, body: new Uint8Array(sent) });
    expect((await send(Buffer.concat([body, Buffer.from(' ')]))).status).toBe(401);
    expect((await send(body)).status).toBe(200);
    await advance(app, '1m');
    await drain(app);
    expect(await expectEvent(app, 'evt_9')).toMatchObject({ state: 'processed' });
  });
});

it('leaves one invoice and one receipt, wherever it crashes', async () => {
  const { steps } = await crashEverywhere(
    async () => (await start()).app,
    (app, id) => deliver(app, 'stripe', paid(id, `in_${id}`)),
  );
  expect(steps).toContain(`a crash after call 1 of effect 'send-receipt'`);
});
