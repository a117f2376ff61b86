import { Billing1796000002000 } from '../../examples/receiver/repeat-safe/billing.migration.js';
import { RepeatSafeModule } from '../../examples/receiver/repeat-safe/repeat-safe.module.js';
import { StripeApi } from '../../examples/receiver/repeat-safe/stripe.api.js';
import { Inbox, Replays } from '../../src/index.js';
import { FakeSink } from '../support/fake-sink.js';
import { awardee, stripeEvent, type SignedRequest } from '../support/signing.js';
import { awardeeSource, stripeSource } from '../support/sources.js';
import { startInbox, type TestInbox } from './support/inbox.js';

let inbox: TestInbox;
let api: FakeSink;
beforeEach(async () => {
  api = await FakeSink.start();
  inbox = await startInbox({
    imports: [RepeatSafeModule],
    override: (builder) => builder.overrideProvider(StripeApi).useValue(new StripeApi(api.origin, 'key')),
    webhooks: { sources: { stripe: stripeSource(), awardee: awardeeSource() } },
  });
  const runner = inbox.database.dataSource.createQueryRunner();
  await new Billing1796000002000().up(runner);
  await runner.release();
});
afterEach(async () => {
  await inbox.stop();
  await api.stop();
});

const now = Math.floor(Date.now() / 1_000);
const STATE: Record<string, string> = {
  invoice: 'SELECT id, status, paid_at FROM invoice ORDER BY id',
  grant:
    'SELECT a.id, a.credits, g.plan FROM account a JOIN account_grant g ON g.account = a.id ORDER BY 1, 3',
  subscription: 'SELECT id, status FROM subscription ORDER BY id',
};

async function receive(source: string, { headers, body }: SignedRequest): Promise<void> {
  expect(await inbox.app.get(Inbox).receive(source, { headers, rawBody: body })).toMatchObject({
    status: 200,
  });
  await inbox.relay.drain({ maxMs: 5_000 });
}

describe('R30 R39 a handler that runs again leaves the state as it was', () => {
  const grant = { account: 'acme', plan: 'pro', credits: 100 };
  it.each([
    [
      'invoice',
      'stripe',
      (id: string, later: number) => stripeEvent(id, 'invoice.paid', { id: 'in_1' }, now + later),
      [{ id: 'in_1', status: 'paid', paid_at: new Date(now * 1_000) }],
    ],
    [
      'grant',
      'awardee',
      (id: string) => awardee(id, 'grant.made', grant),
      [{ id: 'acme', credits: 100, plan: 'pro' }],
    ],
    [
      'subscription',
      'stripe',
      (id: string, later: number) =>
        stripeEvent(id, 'customer.subscription.updated', { id: 'sub_1', status: 'active' }, now + later),
      [{ id: 'sub_1', status: 'active' }],
    ],
  ])(
    '%s: on a redelivery, a second event about the same thing, and a replay of both',
    async (what, source, made, expected) => {
      const state = () => inbox.query(STATE[what]!);
      await receive(source, made('evt_1', 0));
      expect(await state()).toEqual(expected);
      await receive(source, made('evt_1', 0));
      expect(await state()).toEqual(expected);
      await receive(source, made('evt_2', 60));
      expect(await state()).toEqual(expected);
      const why = { by: 'a test', reason: 'to see' };
      expect(await inbox.app.get(Replays).run({ source }, why)).toMatchObject({ replayed: 2, refused: [] });
      await inbox.relay.drain({ maxMs: 5_000 });
      expect(await state()).toEqual(expected);
      // Not vacuous: both ran again.
      expect(await inbox.rows(`attempt = 2 AND state IN ('done', 'superseded')`)).toHaveLength(2);
    },
  );

  it('a grant of another plan is granted', async () => {
    await receive('awardee', awardee('d-1', 'grant.made', grant));
    await receive('awardee', awardee('d-2', 'grant.made', { ...grant, plan: 'extra', credits: 5 }));
    expect(await inbox.query('SELECT credits FROM account')).toEqual([{ credits: 105 }]);
  });

  it('R05 a subscription does not fall back to what an older event says, also when that is replayed', async () => {
    const changed = (id: string, status: string, later: number) =>
      stripeEvent(id, 'customer.subscription.updated', { id: 'sub_1', status }, now + later);
    await receive('stripe', changed('evt_2', 'active', 1));
    await receive('stripe', changed('evt_1', 'incomplete', 0));
    await inbox.app.get(Replays).run({ source: 'stripe' }, { by: 'a test', reason: 'to see' });
    await inbox.relay.drain({ maxMs: 5_000 });
    expect(await inbox.query(STATE.subscription!)).toEqual([{ id: 'sub_1', status: 'active' }]);
  });

  it('R21 a customer is written as the provider says it is now, whatever the order of the events', async () => {
    api.answer = (response) => response.end('{"id":"cus_1","email":"new@example.org"}');
    const changed = (id: string, email: string, later: number) =>
      stripeEvent(id, 'customer.updated', { id: 'cus_1', email }, now + later);
    await receive('stripe', changed('evt_2', 'new@example.org', 1));
    await receive('stripe', changed('evt_1', 'old@example.org', 0));
    expect(await inbox.query('SELECT id, email FROM customer')).toEqual([
      { id: 'cus_1', email: 'new@example.org' },
    ]);
    expect(api.requests.map(({ url, headers }) => `${url} ${headers.authorization}`)).toEqual([
      '/v1/customers/cus_1 Bearer key',
      '/v1/customers/cus_1 Bearer key',
    ]);
    api.answer = (response) => response.end('{"id":"cus_1","deleted":true}');
    await receive('stripe', changed('evt_3', 'new@example.org', 2));
    expect(await inbox.query('SELECT id FROM customer')).toEqual([]);
  });
});
