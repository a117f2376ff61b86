import { Injectable } from '@nestjs/common';
import { Inbox, OnWebhook, cachedSecrets, type BatchEvent, type WebhookEvent } from '../../src/index.js';
import { stripe } from '../../src/sources/index.js';
import { signWebhook } from '../../src/testing/index.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startInbox, type TestInbox } from './support/inbox.js';

const FLOOD = 12_000;
const TENANTS = 10_000;
const AT_ONCE = 50;
const secretOf = (tenant: string) =>
  `whsec_${Buffer.from(`secret of ${tenant} 0123456789`).toString('base64')}`;
const handled: { readonly by: string; readonly tenant: string }[] = [];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

@Injectable()
class Handlers {
  @OnWebhook('stripe', 'one.*', { name: 'one' })
  async one({ tenant }: WebhookEvent) {
    await pause(5);
    handled.push({ by: 'one', tenant: tenant ?? '' });
  }

  @OnWebhook('stripe', 'many.*', { name: 'many', batch: 20 })
  async many(events: readonly BatchEvent[]) {
    await pause(100);
    for (const { tenant } of events) handled.push({ by: 'many', tenant: tenant ?? '' });
  }
}

describe('tenants of one source', () => {
  let database: TestDatabase;
  let inbox: TestInbox | undefined;
  const start = async (ttl = '1m') => {
    const key = ({ url }: { readonly url: string }) =>
      new URL(url, 'http://here').searchParams.get('tenant') ?? undefined;
    const load = async (tenant: string) => {
      const rows = await database.query<{ secret: string }>(`SELECT secret FROM tenant WHERE name = $1`, [
        tenant,
      ]);
      return { tenant, secrets: rows.map(({ secret }) => secret) };
    };
    inbox = await startInbox({
      database,
      loop: true,
      poolSize: 6,
      providers: [Handlers],
      webhooks: {
        sources: {
          stripe: stripe({ secrets: cachedSecrets({ key, load, ttl, maxLoadsPerMinute: 100_000 }) }),
        },
        // On a busy machine some hundred claims at once take longer than providers wait.
        claimTimeout: '30s',
        relay: { pollInterval: '200ms', shutdownGrace: '1s' },
      },
    });
    return inbox;
  };
  const deliver = (tenant: string, id: string, type = 'none', secret = secretOf(tenant)) => {
    const { headers, body } = signWebhook('stripe', { secret, id, type });
    return inbox!.app
      .get(Inbox)
      .receive('stripe', { url: `/webhooks/stripe?tenant=${tenant}`, headers, rawBody: body });
  };

  beforeAll(async () => {
    database = await createDatabase();
    await database.query(`CREATE TABLE tenant (name text PRIMARY KEY, secret text NOT NULL)`);
    for (const name of ['big', 'small', 'other'])
      await database.query(`INSERT INTO tenant VALUES ($1, $2)`, [name, secretOf(name)]);
  });
  afterEach(async () => {
    await inbox?.app.close();
    inbox = undefined;
    handled.length = 0;
    await database.query(`TRUNCATE webhook_claim, webhook_outbox, webhook_outbox_data`);
  });
  afterAll(() => database?.drop());

  it.each(['one', 'many'])(
    'the flood of one leaves slots to the others: by handler %s theirs are done before it',
    async (handler) => {
      await database.query(
        `WITH claims AS (
           INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body)
           SELECT 'stripe', 'big', 'evt_' || i, gen_random_uuid(), $1 || '.made', 'delivery', 'x', 1, '{"content-type":"application/json"}', '{}'
             FROM generate_series(1, $3::int) i RETURNING event_id
         )
         INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
         SELECT gen_random_uuid(), 'handler', $2, 'stripe', 'big', event_id FROM claims`,
        [handler, `stripe/${handler}`, FLOOD],
      );
      await start();
      await until(() => handled.length > 0);
      for (let n = 0; n < 5; n += 1)
        for (const tenant of ['small', 'other'])
          expect((await deliver(tenant, `evt_${n}`, `${handler}.made`)).status).toBe(200);
      const others = () => handled.filter(({ tenant }) => tenant !== 'big').length;
      await until(() => others() === 10);
      expect(handled.length).toBeLessThan(FLOOD / 2);
    },
  );

  it('10,000 of them, each with a secret of its own; new ones and new secrets need no restart', async () => {
    await database.query(
      `INSERT INTO tenant SELECT 't' || i, 'whsec_' || translate(encode(convert_to('secret of t' || i || ' 0123456789', 'UTF8'), 'base64'), E'\\n', '')
         FROM generate_series(1, $1::int) i`,
      [TENANTS],
    );
    await start('1ms');
    for (let n = 1; n <= TENANTS; n += AT_ONCE) {
      const some = Array.from({ length: AT_ONCE }, (_, i) => `t${n + i}`);
      const answers = await Promise.all(some.map((tenant) => deliver(tenant, 'evt_1')));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    const [count] = await database.query(`SELECT count(DISTINCT tenant)::int AS tenants FROM webhook_claim`);
    expect(count).toEqual({ tenants: TENANTS });
    expect((await deliver('late', 'evt_1')).status).toBe(401);
    await database.query(`INSERT INTO tenant VALUES ('late', $1)`, [secretOf('late')]);
    await until(async () => (await deliver('late', 'evt_1')).status === 200);
    await database.query(`UPDATE tenant SET secret = $1 WHERE name = 'late'`, [secretOf('rotated')]);
    await until(async () => (await deliver('late', 'evt_2')).status === 401);
    expect((await deliver('late', 'evt_2', 'none', secretOf('rotated'))).status).toBe(200);
    // One tenant's secret is not another's.
    expect((await deliver('t1', 'evt_3', 'none', secretOf('t2'))).status).toBe(401);
  }, 180_000);
});
