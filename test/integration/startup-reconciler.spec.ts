import { Injectable, type Type } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
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

/** Passes that do not come at once come when the test says so. */
@Injectable()
class HeldTimers extends HostTimers {
  readonly held = new Map<string, { readonly ms: number; readonly fire: () => void }>();

  override schedule(name: string, ms: number, work: () => void, options?: { keepsAlive?: boolean }): void {
    super.schedule(name, ms, work, options);
    if (name.startsWith('webhook-inbox:reconcile') && ms > 0) this.held.set(name, { ms, fire: work });
  }
}

const startHeld = async (providers: Type[]) => {
  const inbox = await start(providers, {
    webhooks: { reconcile: true },
    override: (builder) => builder.overrideProvider(HostTimers).useClass(HeldTimers),
  });
  return { inbox, held: inbox.app.get<HeldTimers>(HostTimers).held };
};

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

/** Events without any row. */
const claimMany = (count: number) =>
  database.query(
    `INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers, body)
     SELECT 'awardee', '', 'page-' || i, gen_random_uuid(), 0, 'grant.made', 'delivery', 'test', '{}', '{}'
       FROM generate_series(1, $1::int) i`,
    [count],
  );

/** Another instance keeps its pass. */
const KEPT = `INSERT INTO webhook_lease (name, owner, until) VALUES ('reconcile', gen_random_uuid(), now() + interval '1 hour')
                  ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, until = EXCLUDED.until`;
const FIRST = 'webhook-inbox:reconcile';

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
    await claimMany(1_100);
    await start([Newer], { webhooks: { reconcile: true } });
    const count = `SELECT count(*)::int AS rows FROM webhook_outbox WHERE name = 'awardee/newer'`;
    await until(async () => (await database.query<{ rows: number }>(count))[0]!.rows === 1120, 20_000);
  });

  it('is looked for once more, while an older receiver may have gone on after the boot', async () => {
    const older = await start([Older]);
    await older.deliver('early');
    const { inbox: newer, held } = await startHeld([Newer]);
    // The first pass is over.
    await until(async () => {
      const first = `SELECT FROM webhook_outbox WHERE name = 'awardee/newer'`;
      const pass = `SELECT FROM webhook_lease WHERE name = 'reconcile'`;
      return (await database.query(first)).length === 1 && (await database.query(pass)).length === 0;
    });
    await older.deliver('late');
    const again = held.get('webhook-inbox:reconcile-again')!;
    // All that came since the boot is within what is matched again.
    expect(again.ms).toBeGreaterThan(5 * 60_000);
    expect(again.ms).toBeLessThan(10 * 60_000);
    again.fire();
    await until(async () => {
      await newer.relay.tick();
      return ran.includes('late');
    });
  });

  it.each([
    ['another instance was killed in its pass', KEPT, `UPDATE webhook_lease SET until = now()`],
    [
      'the database failed at boot',
      `ALTER TABLE webhook_lease RENAME TO webhook_lease_gone`,
      `ALTER TABLE webhook_lease_gone RENAME TO webhook_lease`,
    ],
  ])('is looked for again, later and later, where %s', async (_, fail, mend) => {
    const older = await start([Older]);
    await older.deliver('d-1');
    await database.query(fail);
    const { inbox: newer, held } = await startHeld([Newer]);
    for (const minutes of [1, 2, 4]) {
      await until(async () => Promise.resolve(held.has(FIRST)));
      const { ms, fire } = held.get(FIRST)!;
      // Longer than another one keeps a pass, and not at the same time as others.
      expect(ms / 60_000).toBeGreaterThan(minutes);
      expect(ms / 60_000).toBeLessThan(1.5 * minutes);
      if (minutes === 4) await database.query(mend);
      held.clear();
      fire();
    }
    await until(async () => {
      await newer.relay.tick();
      return ran.includes('d-1');
    });
    // The pass that was made is the last one.
    await until(
      async () => (await database.query(`SELECT FROM webhook_lease WHERE name = 'reconcile'`)).length === 0,
    );
    await new Promise(setImmediate);
    expect([...held.keys()]).toEqual([]);
  });

  it('is looked for further back where a pass is late', async () => {
    const older = await start([Older]);
    await older.deliver('d-1');
    await older.settle();
    await database.query(`UPDATE webhook_claim SET received_at = now() - interval '10.5 min'`);
    const newer = await start([Newer]);
    const rows = `SELECT count(*)::int AS rows FROM webhook_outbox WHERE name = 'awardee/newer'`;
    for (const [lateMs, count] of [
      [20_000, 0],
      [60_000.5, 1],
    ] as const) {
      expect(await newer.app.get(StartupReconciler).reconcileQuietly({ lateMs })).toBe(true);
      expect(await database.query(rows)).toEqual([{ rows: count }]);
    }
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
    await database.query(KEPT);
    expect(await reconcile(one)).toMatchObject({ ran: false, events: 0 });
    await database.query(`UPDATE webhook_lease SET until = now()`);
    expect(await reconcile(two)).toMatchObject({ ran: true });
    expect(await reconcile(one)).toMatchObject({ ran: true });
  });

  it('tells that it was not made to its end where another instance has taken it over', async () => {
    const older = await start([Older]);
    await older.deliver('d-1');
    // More than one page.
    await claimMany(600);
    await database.query(
      `CREATE FUNCTION take_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         UPDATE webhook_lease SET owner = gen_random_uuid(), until = now() + interval '1 hour'; RETURN NEW; END $$`,
    );
    await database.query(
      `CREATE TRIGGER take_over AFTER INSERT ON webhook_outbox FOR EACH ROW EXECUTE FUNCTION take_over()`,
    );
    expect(await reconcile(await start([Newer]))).toMatchObject({ ran: false, events: 500 });
  });

  it('schedules nothing where its pass fails after the shutdown', async () => {
    const { inbox, held } = await startHeld([Older]);
    await database.query(KEPT);
    const { fire } = held.get('webhook-inbox:reconcile-again')!;
    const registry = inbox.app.get(SchedulerRegistry);
    await inbox.stop();
    held.clear();
    fire();
    await until(async () => Promise.resolve(held.size > 0));
    expect(registry.getTimeouts()).toEqual([]);
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
    await expect(inbox.app.get(StartupReconciler).reconcileQuietly()).resolves.toBe(false);
    await database.query(`ALTER TABLE webhook_lease_gone RENAME TO webhook_lease`);
    expect(await reconcile(inbox)).toMatchObject({ ran: true });
  });
});
