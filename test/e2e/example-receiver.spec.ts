import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Logger, type INestApplication } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ReceivedEvent } from '../../examples/receiver/received-event.entity.js';
import { serve } from '../../examples/receiver/receiver.js';
import { readSettings } from '../../examples/receiver/settings.js';
import { StartupReconciler } from '../../src/index.js';
import { ADAPTERS, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { AWARDEE_SECRET, STRIPE_SECRET, awardee, post, stripeEvent } from '../support/signing.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'receiver-spec-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** Settings whose sources come from a file with this content. */
async function withSources(content: unknown, environment: Record<string, string> = {}) {
  const file = join(folder, 'sources.json');
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content));
  return readSettings({ ...environment, WEBHOOK_SOURCES_FILE: file });
}

describe.each(ADAPTERS)('the example receiver on %s', (adapter) => {
  let database: TestDatabase;
  let app: INestApplication;
  let origin: string;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    database = await createDatabase();
    const settings = await withSources(
      {
        billing: { provider: 'stripe', secrets: [STRIPE_SECRET] },
        grants: {
          provider: 'hmac',
          secrets: [AWARDEE_SECRET],
          signatureHeader: 'X-Awardee-Signature',
          idHeader: 'X-Awardee-Delivery',
          typeHeader: 'X-Awardee-Event',
        },
      },
      { HTTP_ADAPTER: adapter, PORT: '0', FAIL_FIRST_PERCENT: '100' },
    );
    app = await serve(settings, { url: database.url, stop: async () => undefined });
    origin = await app.getUrl();
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  it('serves the sources of the file, and applies each event once though every first attempt fails', async () => {
    const billing = stripeEvent('evt_1', 'invoice.paid');
    expect(await post(origin, '/webhooks/billing', billing)).toMatchObject({ body: { status: 'ok' } });
    expect(await post(origin, '/webhooks/billing', billing)).toMatchObject({ body: { status: 'duplicate' } });
    const grant = awardee('d-1', 'grant.made', {});
    expect(await post(origin, '/webhooks/grants', grant)).toMatchObject({ body: { status: 'ok' } });
    expect(await post(origin, '/webhooks/github', grant)).toMatchObject({ status: 404 });

    const records = app.get(DataSource).getRepository(ReceivedEvent);
    await until(async () => (await records.count()) === 2);
    expect(await records.find({ order: { source: 'ASC' } })).toEqual([
      { source: 'billing', eventId: 'evt_1', eventType: 'invoice.paid', appliedCount: 1 },
      { source: 'grants', eventId: 'd-1', eventType: 'grant.made', appliedCount: 1 },
    ]);
    expect(await database.query(`SELECT min(attempt) FROM webhook_outbox WHERE kind = 'handler'`)).toEqual([
      { min: 2 },
    ]);
  });

  it('R28 writes a record again that is gone', async () => {
    const records = app.get(DataSource).getRepository(ReceivedEvent);
    const count = `SELECT count(*)::int AS n FROM webhook_outbox WHERE kind = 'handler' AND state = 'done'`;
    await until(async () => (await database.query<{ n: number }>(count))[0]!.n === 2);
    await database.query(`UPDATE webhook_outbox SET settled_at = settled_at - interval '10 minutes'`);
    await records.delete({ eventId: 'evt_1' });
    expect(await app.get(StartupReconciler).reconcile()).toMatchObject({ records: { reprocessed: 1 } });
    await until(() => records.findOneBy({ eventId: 'evt_1' }).then((found) => found !== null));
  });
});

describe('the dashboard of the example receiver', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  it.each<[string, Record<string, string>, (string | undefined)[], number[]]>([
    ['is there for this machine', {}, [undefined], [200]],
    ['is there for nobody where others can reach the port', { HOST: '0.0.0.0' }, [undefined], [404]],
    [
      'is there for those who know its password',
      { HOST: '0.0.0.0', DASHBOARD_PASSWORD: 'correct-horse-battery' },
      [undefined, 'ann:wrong', 'ann:correct-horse-battery'],
      [401, 401, 200],
    ],
  ])('%s', async (_what, environment, users, statuses) => {
    const settings = await withSources(
      { billing: { provider: 'stripe', secrets: [STRIPE_SECRET] } },
      { PORT: '0', ...environment },
    );
    const app = await serve(settings, { url: database.url, stop: async () => undefined });
    try {
      const { port } = new URL(await app.getUrl());
      const answers: number[] = [];
      for (const user of users) {
        const headers: Record<string, string> =
          user === undefined ? {} : { authorization: `Basic ${Buffer.from(user).toString('base64')}` };
        const response = await fetch(`http://127.0.0.1:${port}/webhooks-desk/api/meta`, { headers });
        answers.push(response.status);
        if (response.status === 401) expect(response.headers.get('www-authenticate')).toMatch(/^Basic/);
        if (user !== undefined && response.ok) expect(await response.json()).toMatchObject({ actor: 'ann' });
      }
      expect(answers).toEqual(statuses);
    } finally {
      await app.close();
    }
  });
});

describe('the environment of the example receiver', () => {
  it.each([
    [{ HTTP_ADAPTER: 'koa' }, "HTTP_ADAPTER: expected express or fastify, received 'koa'"],
    [{ PORT: '99999' }, "PORT: expected a port between 0 and 65535, received '99999'"],
    [
      { FAIL_FIRST_PERCENT: 'x' },
      "FAIL_FIRST_PERCENT: expected a whole number between 0 and 100, received 'x'",
    ],
    [{ EFFECT_URL: 'sink' }, "EFFECT_URL: expected an http or https URL, received 'sink'"],
    [{ WEBHOOK_SOURCES_FILE: '/nowhere.json' }, 'WEBHOOK_SOURCES_FILE /nowhere.json: expected a JSON file'],
  ])('%j is refused with what was expected', (environment, message) => {
    expect(() => readSettings(environment)).toThrow(message);
  });

  it.each([
    ['{', 'expected a JSON file'],
    [[], 'expected an object of sources'],
    [{ a: { provider: 'strype', secrets: [] } }, "a: unknown provider 'strype'; did you mean 'stripe'?"],
    [{ a: { provider: 'stripe' } }, 'a: stripe.secrets: expected an array of texts'],
    [{ a: { provider: 'stripe', secrets: 's' } }, 'a: secrets: expected an array of secrets'],
    [{ a: { provider: 'paypal' } }, 'a: paypal.webhookIds: expected an array of texts'],
    [{ a: { provider: 'sns', secrets: ['s'] } }, 'a: sns.topicArns: expected an array of texts'],
    [{ a: { provider: 'stripe', secrets: ['s'], tolerence: '2m' } }, 'a: stripe.tolerence: unknown option'],
  ])('a sources file with %j is refused with the place', async (content, message) => {
    await expect(withSources(content)).rejects.toThrow(message);
  });

  describe('ends a process with the message, code 1 and no stack trace', () => {
    const start = async (env: Record<string, string>) => {
      const main = ['--import', '@swc-node/register/esm-register', 'examples/receiver/main.ts'];
      const child = spawn(process.execPath, main, { env: { ...process.env, ...env } });
      const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
      return { said, code };
    };

    it('for a wrong setting', async () => {
      expect(await start({ HTTP_ADAPTER: 'koa' })).toEqual({
        said: "The receiver did not start.\nHTTP_ADAPTER: expected express or fastify, received 'koa'\n",
        code: 1,
      });
    }, 60_000);

    it('for a port that is taken', async () => {
      const database = await createDatabase();
      const other = createServer().listen(0, '127.0.0.1');
      await once(other, 'listening');
      const port = String((other.address() as AddressInfo).port);
      try {
        const { said, code } = await start({ DATABASE_URL: database.url, PORT: port });
        expect(said).toMatch(
          new RegExp(
            `^The receiver did not start\\.\nPORT: .*EADDRINUSE.*${port}; set PORT to one that is free\n$`,
          ),
        );
        expect(code).toBe(1);
      } finally {
        other.close();
        await database.drop();
      }
    }, 60_000);
  });
});
