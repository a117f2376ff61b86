import { Injectable, type Type } from '@nestjs/common';
import { OnWebhook, StartupReconciler, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { record, startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';

let database: TestDatabase;
let inboxes: TestInbox[] = [];

beforeEach(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  for (const inbox of inboxes) await inbox.stop();
  inboxes = [];
  await database.drop();
});

@Injectable()
class Older {
  @OnWebhook('awardee', '*', { name: 'older' })
  handle(event: WebhookEvent, context: HandlerContext) {
    return record(event, context);
  }
}

const ran: string[] = [];

@Injectable()
class Newer extends Older {
  @OnWebhook('awardee', '*', { name: 'older' })
  override handle(event: WebhookEvent, context: HandlerContext) {
    return record(event, context);
  }

  @OnWebhook('awardee', 'grant.*', { name: 'newer' })
  also({ eventId }: WebhookEvent) {
    ran.push(eventId);
  }
}

async function start(providers: Type[], setup: InboxSetup = {}): Promise<TestInbox> {
  const inbox = await startInbox({ database, providers, ...setup });
  inboxes.push(inbox);
  return inbox;
}

const reconcile = (inbox: TestInbox) => inbox.app.get(StartupReconciler).reconcile();

describe('R03 what a receiver of an older version has claimed without this version’s handler', () => {
  beforeEach(() => {
    ran.length = 0;
  });

  it('gets its row, once, and is handled; what is done is not done again', async () => {
    const older = await start([Older]);
    for (const id of ['d-1', 'd-2']) await older.deliver(id);
    await older.deliver('d-3', 'invoice.paid');
    await older.settle();

    const newer = await start([Newer]);
    expect(await reconcile(newer)).toMatchObject({ ran: true, events: 3, added: 2, missing: 0 });
    await newer.settle();
    expect(ran.sort()).toEqual(['d-1', 'd-2']);
    expect(await reconcile(newer)).toMatchObject({ events: 3, added: 0 });
    expect(await database.query(`SELECT max(applied_count) AS most FROM received_event`)).toEqual([
      { most: 1 },
    ]);
  });

  it('is found after the boot, off its path, and by pages', async () => {
    const older = await start([Older]);
    await Promise.all(Array.from({ length: 20 }, (_, index) => older.deliver(`d-${index}`)));
    // More than one page of claims; those of one page share their time, as one statement gives it.
    await database.query(
      `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers, body)
       SELECT 'awardee', '', 'page-' || i, gen_random_uuid(), 0, 'grant.made', 'delivery', 'test', '{}', '{}'
         FROM generate_series(1, 1100) i`,
    );
    await start([Newer], { webhooks: { reconcile: true } });
    const count = `SELECT count(*)::int AS rows FROM webhook_outbox WHERE name = 'awardee/newer'`;
    await until(async () => (await database.query<{ rows: number }>(count))[0]!.rows === 1120, 20_000);
  });

  it('is left alone where it came before the last minutes of a rolling deploy', async () => {
    const older = await start([Older]);
    await older.deliver('d-1');
    await database.query(`UPDATE webhook_claim SET received_at = now() - interval '11 min'`);
    expect(await reconcile(await start([Newer]))).toMatchObject({ events: 0, added: 0 });
  });
});

describe('the reconciler', () => {
  it('runs in one instance at a time, and in the next when that one is done', async () => {
    const [one, two] = [await start([Older]), await start([Older])];
    const reports = await Promise.all([reconcile(one), reconcile(two)]);
    expect(reports.map((report) => report.ran)).toContain(true);
    await database.query(
      `INSERT INTO webhook_lease (name, owner, until) VALUES ('reconcile', gen_random_uuid(), now() + interval '1 min')
           ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, until = EXCLUDED.until`,
    );
    expect(await reconcile(one)).toMatchObject({ ran: false, events: 0 });
    await database.query(`UPDATE webhook_lease SET until = now()`);
    expect(await reconcile(two)).toMatchObject({ ran: true });
    expect(await reconcile(one)).toMatchObject({ ran: true });
  });

  it('tells a person of an event with fewer rows than it is owed', async () => {
    const inbox = await start([Older]);
    await inbox.deliver('d-1');
    // Only somebody else's DELETE does this.
    await database.query(`UPDATE webhook_claim SET owed = 2`);
    expect(await reconcile(inbox)).toMatchObject({ missing: 1 });
    expect(inbox.alerts).toMatchObject([
      { kind: 'missing-rows', event: { eventId: 'd-1' }, owed: 2, found: 1 },
    ]);
  });

  it('tells a person of rows that nobody here can run, after an hour', async () => {
    const older = await start([Older]);
    await older.deliver('d-1');
    const none = await start([]);
    await reconcile(none);
    expect(none.alerts).toEqual([]);
    await database.query(`UPDATE webhook_outbox SET due_at = now() - interval '61 min'`);
    await reconcile(none);
    expect(none.alerts).toMatchObject([{ kind: 'unknown-name', name: 'awardee/older', rows: 1 }]);
  });

  it('stops no boot when the database fails, and says so', async () => {
    const inbox = await start([Older]);
    await database.query(`ALTER TABLE webhook_lease RENAME TO webhook_lease_gone`);
    await expect(inbox.app.get(StartupReconciler).reconcileQuietly()).resolves.toBeUndefined();
    await database.query(`ALTER TABLE webhook_lease_gone RENAME TO webhook_lease`);
    expect(await reconcile(inbox)).toMatchObject({ ran: true });
  });
});
