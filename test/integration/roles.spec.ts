import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable, type INestApplication } from '@nestjs/common';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from '../../migrations/index.js';
import {
  Backfills,
  BackfillSource,
  Inbox,
  Inspector,
  OnWebhook,
  Operator,
  Outbox,
  PermanentError,
  Retention,
  StartupReconciler,
  type BackfillEvent,
  type BatchEvent,
  type HandlerContext,
  type WebhookEvent,
  type WebhooksOptions,
} from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { awardeeSource, INSERT_RECORD, scripted, startInbox, type TestInbox } from './support/inbox.js';

const RUN = randomUUID().slice(0, 8);
const PARTS = ['receiver', 'relay', 'desk'] as const;
type Part = (typeof PARTS)[number];
/** Roles are the server's, and other runs may be on it. */
const roleOf = (part: Part) => `webhook_${part}_${RUN}`;
/** As docs/deploying.md shows it, with roles of this run. */
const BLOCK = /^```sql roles\n(.*?)^```/ms
  .exec(readFileSync('docs/deploying.md', 'utf8'))![1]!
  .replaceAll(/(?<!\.)\bwebhook_(receiver|relay|desk)\b/g, (_, part: Part) => roleOf(part));
const BY = { by: 'ada', reason: 'test' };

const APPLY = 'INSERT INTO inline_record VALUES ($1)';

/** Work that deliveries run themselves, work in order, in batches, and what lists events that never came. */
@Injectable()
class OtherWork {
  @OnWebhook('inline', '*', { name: 'now', inline: true })
  async now({ eventId }: WebhookEvent, { manager, enqueue }: HandlerContext) {
    await manager.query(APPLY, [eventId]);
    await enqueue('mail', {}, { key: eventId });
  }

  @OnWebhook('provider', '*', { name: 'provided' })
  async provided({ eventId }: WebhookEvent, { manager }: HandlerContext) {
    if (failing) throw new Error('as asked');
    await manager.query(APPLY, [eventId]);
  }

  @OnWebhook('own', '*', { name: 'ordered', key: () => 'one' })
  ordered() {
    if (failing) throw new PermanentError('as asked');
  }

  @OnWebhook('own', '*', { name: 'batched', batch: 10 })
  batched(_events: readonly BatchEvent[]) {}

  @BackfillSource('own')
  async *list(): AsyncGenerator<BackfillEvent> {
    const headers = { 'X-Awardee-Delivery': 'missed', 'X-Awardee-Event': 'grant.made' };
    yield await Promise.resolve({ headers, body: {} });
  }
}

let database: TestDatabase;
const inboxes: TestInbox[] = [];
const lines: string[] = [];
let failing = false;

function urlOf(part: Part): string {
  const url = new URL(database.url);
  url.username = roleOf(part);
  url.password = encodeURIComponent('change me');
  return url.href;
}

async function start(part: Part, webhooks: Partial<WebhooksOptions>): Promise<TestInbox> {
  const keep = (line: unknown) => void lines.push(String(line));
  const providers = [
    OtherWork,
    scripted(
      {
        handle: async ({ source, eventId, type }, { manager, enqueue }) => {
          await manager.query(INSERT_RECORD, [source, eventId, type]);
          await enqueue('mail', {}, { key: eventId });
          if (failing) throw new Error('as asked');
        },
      },
      { handler: { retry: { maxAttempts: 1 }, skipStale: { key: ({ eventId }) => eventId } } },
    ),
  ];
  const inbox = await startInbox({
    database,
    databaseUrl: urlOf(part),
    providers,
    configure: (app: INestApplication) => app.useLogger({ log: keep, warn: keep, error: keep }),
    webhooks: {
      schema: 'webhooks',
      sources: {
        awardee: awardeeSource({ retriesSameBytes: true }),
        inline: awardeeSource(),
        provider: awardeeSource({ retries: 'provider' }),
        own: awardeeSource(),
      },
      ...webhooks,
    },
  });
  inboxes.push(inbox);
  return inbox;
}

const RECEIVES = { relay: false, retention: false, reconcile: false } as const;

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  const owner = new DataSource({
    ...options(database.url, 2),
    migrations: webhookInboxMigrations({ schema: 'webhooks' }),
  });
  await owner.initialize();
  await owner.runMigrations();
  await owner.destroy();
  await database.query(`CREATE TABLE received_event (source text, event_id text, event_type text, applied_count int DEFAULT 1,
    PRIMARY KEY (source, event_id))`);
  await database.query(BLOCK);
  await database.query(`GRANT SELECT, INSERT, UPDATE ON received_event TO ${roleOf('relay')};
    CREATE TABLE inline_record (event_id text);
    GRANT INSERT ON inline_record TO ${roleOf('relay')}, ${roleOf('receiver')}`);
}, 60_000);
afterAll(async () => {
  await Promise.all(inboxes.map((inbox) => inbox.stop()));
  for (const part of PARTS) await database?.query(`DROP OWNED BY ${roleOf(part)}; DROP ROLE ${roleOf(part)}`);
  await database?.drop();
});

const denied = () => lines.filter((line) => /permission denied/.test(line));

const states = async () =>
  (
    await database.query<{ state: string }>(
      `SELECT state FROM webhooks.webhook_outbox ORDER BY created_at, id`,
    )
  ).map(({ state }) => state);

/** Rounds, each with every waiting row made due, until nothing is pending. */
async function settle({ relay }: TestInbox): Promise<void> {
  await until(async () => {
    await database.query(
      `UPDATE webhooks.webhook_outbox SET due_at = now() WHERE state = 'pending' AND leased_by IS NULL`,
    );
    await relay.tick();
    return !(await states()).includes('pending');
  });
}

describe('the roles of docs/deploying.md', () => {
  it('let each part do its work', async () => {
    const receiver = await start('receiver', RECEIVES);
    const verdicts = [];
    for (const id of ['a', 'b', 'a']) verdicts.push((await receiver.deliver(id)).body);
    expect(verdicts).toMatchObject([{ status: 'ok' }, { status: 'ok' }, { status: 'duplicate' }]);
    expect((await receiver.deliver('a', 'grant.made', { other: 'bytes' })).status).toBe(200);
    expect(await database.query(`SELECT FROM webhooks.webhook_conflict WHERE body IS NOT NULL`)).toHaveLength(
      1,
    );
    const forged = await receiver.app
      .get(Inbox)
      .receive('awardee', { headers: {}, rawBody: Buffer.from('{}') });
    expect(forged.status).toBe(401);
    await receiver.app.get(DeskKeeper).round();

    const relay = await start('relay', {});
    await settle(relay);
    expect(await states()).toEqual(['done', 'done', 'done', 'done']);
    failing = true;
    await receiver.deliver('c');
    await settle(relay);
    failing = false;
    expect((await states()).filter((state) => state === 'dead')).toHaveLength(1);
    await relay.dataSource.transaction((manager) =>
      relay.app.get(Outbox).enqueue(manager, 'mail', {}, { key: 'own' }),
    );
    await settle(relay);
    await relay.app.get(StartupReconciler).reconcile();
    await database.query(
      `UPDATE webhooks.webhook_claim SET received_at = now() - interval '1 year' WHERE event_id = 'b'`,
    );
    await database.query(
      `UPDATE webhooks.webhook_outbox SET settled_at = now() - interval '1 year' WHERE event_id = 'b'`,
    );
    expect(await relay.app.get(Retention).prune()).toMatchObject({ claims: 1 });
    await relay.app.get(DeskKeeper).round();

    const desk = await start('desk', RECEIVES);
    const operator = desk.app.get(Operator);
    const [dead] = await database.query<{ id: string }>(
      `SELECT id FROM webhooks.webhook_outbox WHERE state = 'dead'`,
    );
    const [group] = (await desk.app.get(Inspector).deadGroups()).groups;
    await operator.setIssue(group!.fingerprint, 'acknowledged', BY);
    await operator.setIssue(group!.fingerprint, 'open', BY);
    expect(await operator.revive([dead!.id], BY)).toEqual([dead!.id]);
    await settle(relay);
    const key = { source: 'awardee', tenant: '', eventId: 'a' };
    await operator.replay([key], ['mail'], BY, 'allow');
    await settle(relay);
    await operator.pause('source', 'awardee', BY);
    await operator.resume('source', 'awardee', BY);
    await operator.verifyAgain('awardee', undefined, BY);
    await operator.erase(key, BY);
    const inspector = desk.app.get(Inspector);
    expect((await inspector.rejections()).rejections).toHaveLength(1);
    expect((await inspector.audit()).audit.length).toBeGreaterThan(5);
    await Promise.all([inspector.sources(), inspector.relays(), inspector.alerts()]);
    expect((await inspector.events('')).events).toHaveLength(2);
    await desk.app.get(DeskKeeper).round();

    expect(denied()).toEqual([]);
  });

  it('let deliveries run their own work, and a person hold, call back and send on what is owed', async () => {
    const receiver = await start('receiver', RECEIVES);
    const deliver = async (source: string, id: string) => (await receiver.deliverTo(source, id)).status;
    expect([await deliver('inline', 'i'), await deliver('inline', 'i')]).toEqual([200, 200]);
    failing = true;
    expect(await deliver('provider', 'p')).toBe(500);
    failing = false;
    expect([await deliver('provider', 'p'), await deliver('provider', 'p')]).toEqual([200, 200]);
    expect(await database.query('SELECT event_id FROM inline_record ORDER BY 1')).toEqual([
      { event_id: 'i' },
      { event_id: 'p' },
    ]);
    expect(await receiver.app.get(Backfills).run('own', { since: new Date() })).toMatchObject({ claimed: 1 });
    for (const id of ['x', 'y']) await deliver('own', id);

    const desk = await start('desk', RECEIVES);
    const operator = desk.app.get(Operator);
    const inspector = desk.app.get(Inspector);
    const owed = async (where: string) =>
      (
        await database.query<{ id: string }>(
          `SELECT id FROM webhooks.webhook_outbox WHERE state <> 'done' AND ${where} ORDER BY created_at`,
        )
      ).map(({ id }) => id);
    const [mail] = await owed(`name = 'mail' AND event_id = 'i'`);
    expect(await operator.cancel(mail!, BY)).toBe(true);
    const [held] = await owed(`name LIKE '%ordered'`);
    expect(await operator.park([held!], BY)).toEqual([held]);
    expect(await operator.decide(held!, 'retry', BY)).toBe(true);

    const relay = await start('relay', {});
    await settle(relay);
    failing = true;
    await deliver('own', 'z');
    await settle(relay);
    failing = false;
    const dead = await owed(`state = 'dead' AND event_id = 'z'`);
    expect(await operator.giveUp(dead, BY)).toEqual(dead);
    await relay.dataSource.transaction(async (manager) => {
      const outbox = relay.app.get(Outbox);
      await outbox.enqueue(manager, 'mail', {}, { key: 'back' });
      expect(await outbox.cancel(manager, 'mail', 'back')).toBe('cancelled');
    });

    const key = { source: 'own', tenant: '', eventId: 'x' };
    await operator.previewReplay([key]);
    const sink = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`;
    const allow = { http: true, privateAddresses: true };
    expect(await operator.forward([key], url, allow, BY)).toMatchObject({ forwarded: 1 });
    sink.close();
    for (const event of (await inspector.events('source:own')).events) {
      const found = await inspector.event(event.id);
      expect(found).toBeDefined();
    }
    await Promise.all([
      inspector.counts(),
      inspector.effects(''),
      inspector.deadScopes(),
      inspector.knownSources(),
    ]);
    expect(denied()).toEqual([]);
  });

  it.each<[Part, string]>([
    ['receiver', `UPDATE webhooks.webhook_claim SET body = NULL`],
    ['receiver', `DELETE FROM webhooks.webhook_claim`],
    ['receiver', `DELETE FROM webhooks.webhook_outbox`],
    ['receiver', `SELECT FROM webhooks.webhook_audit`],
    ['receiver', `INSERT INTO webhooks.webhook_pause VALUES ('source', 'x', now(), 'x', 'x')`],
    ['receiver', `SELECT FROM received_event`],
    ['relay', `INSERT INTO webhooks.webhook_claim DEFAULT VALUES`],
    ['relay', `UPDATE webhooks.webhook_audit SET actor = 'x'`],
    ['relay', `INSERT INTO webhooks.webhook_audit DEFAULT VALUES`],
    ['relay', `DELETE FROM webhooks.webhook_pause`],
    ['desk', `DELETE FROM webhooks.webhook_claim`],
    ['desk', `DELETE FROM webhooks.webhook_outbox`],
    ['desk', `DELETE FROM webhooks.webhook_audit`],
    ['desk', `DELETE FROM webhooks.webhook_replay`],
    ['desk', `SELECT FROM received_event`],
    ...PARTS.flatMap((part): [Part, string][] => [
      [part, `TRUNCATE webhooks.webhook_stat`],
      [part, `CREATE TABLE webhooks.mine (x int)`],
      [part, `DROP TABLE webhooks.webhook_stat`],
    ]),
  ])('the %s may not: %s', async (part, sql) => {
    const client = new Client({ connectionString: urlOf(part) });
    await client.connect();
    await expect(client.query(sql)).rejects.toThrow(/permission denied|must be owner/);
    await client.end();
  });
});
