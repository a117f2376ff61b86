import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { INestApplication, Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { Inbox, OnWebhook, standardWebhooks, StartupReconciler, stripe } from '../../src/index.js';
import { deliver, runDue } from '../../src/testing/index.js';
import { createApplication } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { STRIPE_SECRET, stripeEvent } from '../support/signing.js';

/** The blocks of a page that are marked to be run, in one language. */
async function runnable(page: string, language: string): Promise<string[]> {
  const text = await readFile(page, 'utf8');
  const wanted = page === 'README.md' ? '' : ' run';
  return [...text.matchAll(/^```(\w+)([^\n]*)\n(.*?)^```/gms)]
    .filter(([, name, mark]) => name === language && mark === wanted)
    .map(([, , , code]) => code!);
}

const ENTRIES: Readonly<Record<string, string>> = {
  'nestjs-webhook-inbox/migrations': '../../migrations/index.js',
  'nestjs-webhook-inbox': '../../src/index.js',
};

describe('examples of the docs that are whole applications', () => {
  const payload = { data: { object: { id: 'in_1', customer_email: 'a@example.com' } } };
  const event = { id: 'evt_1', type: 'invoice.paid', payload, occurredAt: new Date(1_796_000_000_000) };

  it.each([
    ['README.md', ['stripe/Billing.paid']],
    ['docs/getting-started.md', ['send-receipt', 'stripe/Billing.paid']],
  ])('%s does what it says', async (page, names) => {
    const database = await createDatabase({ empty: true });
    process.env.DATABASE_URL = database.url;
    process.env.STRIPE_WEBHOOK_SECRET = STRIPE_SECRET;
    const folder = await mkdtemp(join('test', 'docs-'));
    let app: INestApplication | undefined;
    try {
      const [code] = await runnable(page, 'ts');
      const file = resolve(folder, 'app.module.ts');
      await writeFile(file, withOwnEntries(code!));
      const { AppModule } = (await import(file)) as { AppModule: Type };
      const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
      app = await testing.createNestApplication({ logger: false }).init();
      expect(await deliver(app, 'stripe', event)).toEqual({ kind: 'ok' });
      expect(await deliver(app, 'stripe', event)).toEqual({ kind: 'duplicate' });
      await runDue(app);
      expect(await app.get(DataSource).query('SELECT id, paid_at FROM invoice')).toEqual([
        { id: 'in_1', paid_at: event.occurredAt },
      ]);
      expect(await app.get(DataSource).query('SELECT name, state FROM webhook_outbox ORDER BY name')).toEqual(
        names.map((name) => ({ name, state: 'done' })),
      );
      if (page === 'docs/getting-started.md') await bringsBackItsRecord(app);
    } finally {
      await app?.close();
      await rm(folder, { recursive: true, force: true });
      await database.drop();
    }
  });
});

/** R28: the handler names its entity, so its record comes back. */
async function bringsBackItsRecord(app: INestApplication): Promise<void> {
  const dataSource = app.get(DataSource);
  await dataSource.query(`DELETE FROM invoice`);
  await dataSource.query(`UPDATE webhook_outbox SET settled_at = settled_at - interval '10 minutes'`);
  expect(await app.get(StartupReconciler).reconcile()).toMatchObject({ records: { reprocessed: 1 } });
  await runDue(app);
  expect(await dataSource.query(`SELECT id FROM invoice`)).toEqual([{ id: 'in_1' }]);
}

/** A block with this repository's own files in the place of the package. */
function withOwnEntries(code: string): string {
  return Object.entries(ENTRIES).reduce(
    (text, [name, file]) => text.replaceAll(`'${name}'`, `'${file}'`),
    code,
  );
}

describe('SQL of the docs', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const handled: string[] = [];

  class Every {
    @OnWebhook('stripe', '*')
    stripe({ eventId }: { readonly eventId: string }) {
      handled.push(eventId);
    }

    @OnWebhook('payments', '*')
    payments({ eventId }: { readonly eventId: string }) {
      handled.push(eventId);
    }
  }

  beforeAll(async () => {
    database = await createDatabase();
    const sources = {
      stripe: stripe({ secrets: [STRIPE_SECRET] }),
      payments: standardWebhooks({ secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] }),
    };
    app = await createApplication({ databaseUrl: database.url, webhooks: { sources }, providers: [Every] });
    await database.query(
      `CREATE TABLE processed_event (id text PRIMARY KEY, processed_at timestamptz NOT NULL)`,
    );
    await database.query(`CREATE SCHEMA nest_outbox`);
    await database.query(`CREATE TABLE nest_outbox.inbox (consumer text NOT NULL, message_id text NOT NULL,
      processed_at bigint NOT NULL, PRIMARY KEY (consumer, message_id))`);
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  it('every block that is marked to be run runs on the tables of the migration', async () => {
    const pages = (await readdir('docs'))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`);
    const blocks = (await Promise.all(pages.map((page) => runnable(page, 'sql')))).flat();
    expect(blocks.length).toBeGreaterThan(4);
    for (const block of blocks) await database.query(block);
  });

  it('an imported event is a duplicate, and nothing runs it, the reconciler included', async () => {
    const now = Date.now();
    await database.query(
      `INSERT INTO processed_event VALUES ('evt_old', now()), ('evt_older', now() - interval '3 days')`,
    );
    await database.query(
      `INSERT INTO nest_outbox.inbox VALUES ('webhooks:payments', 'msg_old', $1), ('emails', 'msg_else', $1)`,
      [now],
    );
    for (const block of await runnable('docs/migrating.md', 'sql')) {
      await database.query(block);
      await database.query(block);
    }
    await app.get(StartupReconciler).reconcile();
    const { headers, body } = stripeEvent('evt_old', 'invoice.paid');
    const answer = await app.get(Inbox).receive('stripe', { headers, rawBody: body });
    expect(answer.body).toEqual({ status: 'duplicate' });
    for (const [source, id] of [
      ['stripe', 'evt_older'],
      ['payments', 'msg_old'],
    ] as const)
      expect(await deliver(app, source, { id, type: 'x', payload: {} })).toEqual({ kind: 'duplicate' });
    expect(await deliver(app, 'payments', { id: 'msg_else', type: 'x', payload: {} })).toEqual({
      kind: 'ok',
    });
    await runDue(app);
    expect(handled).toEqual(['msg_else']);
    expect(await database.query('SELECT count(*)::int AS conflicts FROM webhook_conflict')).toEqual([
      { conflicts: 0 },
    ]);
    expect(
      await database.query(`SELECT DISTINCT state FROM webhook_event WHERE verified_by = 'import'`),
    ).toEqual([{ state: 'skipped' }]);
  });
});
