import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DataSource } from 'typeorm';
// In your application: 'nestjs-webhook-inbox/testing'.
import { crashEverywhere, deliver, drain, expectEvent, signWebhook } from '../../src/testing/index.js';
import { listen } from '../../test/support/application.js';
import { createDatabase, type TestDatabase } from '../../test/support/database.js';
import { ShopifyModule } from './app.module.js';
import { Shop, ShopOrder } from './orders.entities.js';
import { Warehouse } from './warehouse.js';

const SECRETS: Readonly<Record<string, string>> = {
  'ann.myshopify.com': 'secret-of-ann',
  'bob.myshopify.com': 'secret-of-bob',
};

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase({ empty: true });
});
afterAll(() => database.drop());

async function start(): Promise<INestApplication> {
  const module = await Test.createTestingModule({ imports: [ShopifyModule.with(database.url)] }).compile();
  const app = await module.createNestApplication({ logger: false }).init();
  const shops = Object.entries(SECRETS).map(([domain, secret]) => ({ domain, secret }));
  await app.get(DataSource).getRepository(Shop).upsert(shops, ['domain']);
  return app;
}

let app: INestApplication | undefined;
afterEach(() => app?.close());

it('keeps the orders of two shops apart, even under the same ids', async () => {
  app = await start();
  const origin = await listen(app);
  const order = async (shop: string, secret = SECRETS[shop]!) => {
    const { method, headers, body } = signWebhook('shopify', {
      secret,
      id: 'delivery-1',
      type: 'orders/create',
      headers: { 'X-Shopify-Shop-Domain': shop },
      body: { id: 7, total_price: shop },
    });
    const answer = await fetch(`${origin}/webhooks/shopify`, { method, headers, body: new Uint8Array(body) });
    return answer.status;
  };
  const [ann, bob] = Object.keys(SECRETS) as [string, string];
  expect(await order(ann)).toBe(200);
  expect(await order(bob)).toBe(200);
  // A shop that signs as another one, and a shop that nobody knows.
  expect(await order(bob, SECRETS[ann])).toBe(401);
  expect(await order('eve.myshopify.com', SECRETS[ann])).toBe(401);
  await drain(app);
  const orders = await app
    .get(DataSource)
    .getRepository(ShopOrder)
    .find({ order: { shop: 'ASC' } });
  expect(orders).toEqual([ann, bob].map((shop) => ({ shop, id: '7', totalPrice: shop })));
  expect([...app.get(Warehouse).packed.values()].map(({ shop }) => shop).toSorted()).toEqual([ann, bob]);
  expect(await expectEvent(app, 'delivery-1', { tenant: bob })).toMatchObject({
    state: 'processed',
    effects: [{ effect: 'pack', payload: { shop: bob, order: '7' } }],
  });
});

it('leaves one order and one packing, wherever it crashes', async () => {
  app = undefined;
  let order = 100;
  const orders = new Map<string, number>();
  await crashEverywhere(start, (app, id) => {
    orders.set(id, orders.get(id) ?? (order += 1));
    const payload = { id: orders.get(id), total_price: '9.90' };
    return deliver(app, 'shopify', { id, type: 'orders/create', payload, tenant: 'ann.myshopify.com' });
  });
  expect(orders.size).toBeGreaterThan(6);
});
