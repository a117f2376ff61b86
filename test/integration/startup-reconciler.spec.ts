import { Injectable, type Type } from '@nestjs/common';
import { OnWebhook, StartupReconciler, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { HostTimers } from '../../src/outbox/host-timers.js';
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

/** The second pass comes when the test says so. */
@Injectable()
class HeldTimers extends HostTimers {
  heldForMs = 0;
  fire: () => void = () => undefined;

  override schedule(name: string, ms: number, work: () => void, options?: { keepsAlive?: boolean }): void {
    super.schedule(name, ms, work, options);
    if (name !== 'webhook-inbox:reconcile-again') return;
    this.heldForMs = ms;
    this.fire = work;
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

@Injectable()
class Renamed {
  @OnWebhook('awardee', '*', { name: 'renamed', was: ['older', 'old'] })
  handle(event: WebhookEvent, context: HandlerContext) {
    return record(event, context);
  }
}

@Injectable()
class Between {
  @OnWebhook('awardee', '*', { name: 'old', was: ['older'] })
  handle(event: WebhookEvent, context: HandlerContext) {
    return record(event, context);
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

  it('case 46 an instance of before that boots later adds no row for a handler that was renamed since: nothing is handled twice', async () => {
    const now = await start([Renamed]);
    await now.deliver('d-1');
    await now.settle();
    for (const before of [await start([Older]), await start([Between])]) {
      expect(await reconcile(before)).toMatchObject({ ran: true, events: 1, added: 0 });
      await before.settle();
    }
    expect(await database.query(`SELECT applied_count FROM received_event`)).toEqual([{ applied_count: 1 }]);
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

  it('is looked for once more, while an older receiver may have gone on after the boot', async () => {
    const older = await start([Older]);
    await older.deliver('early');
    const newer = await start([Newer], {
      webhooks: { reconcile: true },
      override: (builder) => builder.overrideProvider(HostTimers).useClass(HeldTimers),
    });
    // The first pass is over.
    await until(async () => {
      const first = `SELECT FROM webhook_outbox WHERE name = 'awardee/newer'`;
      const pass = `SELECT FROM webhook_lease WHERE name = 'reconcile'`;
      return (await database.query(first)).length === 1 && (await database.query(pass)).length === 0;
    });
    await older.deliver('late');
    const timers = newer.app.get<HeldTimers>(HostTimers);
    // All that came since the boot is within what is matched again.
    expect(timers.heldForMs).toBeGreaterThan(5 * 60_000);
    expect(timers.heldForMs).toBeLessThan(10 * 60_000);
    timers.fire();
    await until(async () => {
      await newer.relay.tick();
      return ran.includes('late');
    });
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

  it('stops no boot when the database fails, and says so', async () => {
    const inbox = await start([Older]);
    await database.query(`ALTER TABLE webhook_lease RENAME TO webhook_lease_gone`);
    await expect(inbox.app.get(StartupReconciler).reconcileQuietly()).resolves.toBeUndefined();
    await database.query(`ALTER TABLE webhook_lease_gone RENAME TO webhook_lease`);
    expect(await reconcile(inbox)).toMatchObject({ ran: true });
  });
});
