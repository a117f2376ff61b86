import { randomUUID } from 'node:crypto';
import { Injectable, type INestApplication, type Type } from '@nestjs/common';
import { DeleteDateColumn, Entity, PrimaryColumn, type EntityManager } from 'typeorm';
import {
  Inbox,
  OnEffect,
  OnWebhook,
  StartupReconciler,
  hmac,
  type Alert,
  type BusinessRecord,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { createApplication, until, type ApplicationSetup } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';

@Entity('received_event')
class ReceivedEvent {
  @PrimaryColumn('text') source!: string;
  @PrimaryColumn('text') event_id!: string;
}

/** The same table in an application that deletes softly. */
@Entity('received_event')
class SoftDeleted extends ReceivedEvent {
  @DeleteDateColumn() deleted_at!: Date | null;
}

const record = (policy: Partial<BusinessRecord> = {}): BusinessRecord => ({
  entity: ReceivedEvent,
  where: ({ source, eventId }) => ({ source, event_id: eventId }),
  minAge: 0,
  ...policy,
});

let slowMs = 0;
let sent: string[] = [];

/** A class of handlers whose record is looked for as told. */
function handlers(businessRecord: BusinessRecord): Type {
  @Injectable()
  class Handlers {
    @OnWebhook('awardee', '*', { businessRecord })
    async record({ source, eventId, type }: WebhookEvent, { manager, enqueue }: HandlerContext) {
      await manager.query(`INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)`, [
        source,
        eventId,
        type,
      ]);
      await enqueue('mail', { eventId });
      await new Promise((resolve) => setTimeout(resolve, slowMs));
    }

    @OnEffect('mail')
    mail({ eventId }: { eventId: string }) {
      sent.push(eventId);
    }
  }
  return Handlers;
}

describe('R28: done events whose business record is missing', () => {
  let database: TestDatabase;
  let apps: INestApplication[] = [];
  let alerts: Alert[] = [];

  beforeEach(async () => {
    database = await createDatabase();
    alerts = [];
    sent = [];
    slowMs = 0;
  });
  afterEach(async () => {
    await Promise.all(apps.map((app) => app.close()));
    apps = [];
    await database.drop();
  });

  const start = async (businessRecord: BusinessRecord, more: Partial<ApplicationSetup> = {}) => {
    const app = await createApplication({
      databaseUrl: database.url,
      entities: [ReceivedEvent],
      webhooks: {
        sources: {
          awardee: hmac({
            secrets: [AWARDEE_SECRET],
            signatureHeader: 'X-Awardee-Signature',
            idHeader: 'X-Awardee-Delivery',
            typeHeader: 'X-Awardee-Event',
          }),
        },
        relay: { pollInterval: '50ms', effects: 50 },
        reconcile: false,
        onAlert: (alert) => void alerts.push(alert),
      },
      providers: [handlers(businessRecord)],
      ...more,
    });
    apps.push(app);
    return app;
  };
  const receive = async (app: INestApplication, ...ids: string[]) => {
    for (const id of ids) {
      const { headers, body } = awardee(id, 'grant.made', {});
      await app.get(Inbox).receive('awardee', { headers, rawBody: body });
    }
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state <> 'done'`)).length === 0,
      50_000,
    );
  };
  const records = async () =>
    (await database.query<{ event_id: string }>(`SELECT event_id FROM received_event ORDER BY event_id`)).map(
      (row) => row.event_id,
    );
  const lose = (...ids: string[]) =>
    database.query(`DELETE FROM received_event WHERE event_id = ANY($1)`, [ids]);
  const reconcile = (app: INestApplication) => app.get(StartupReconciler).reconcile();
  const missing = () => alerts.filter(({ kind }) => kind === 'missing-record');

  describe('under row-level security', () => {
    const role = `reconciler_${randomUUID().slice(0, 8)}`;
    const asRole = () => {
      const url = new URL(database.url);
      Object.assign(url, { username: role, password: 'secret' });
      return { databaseUrl: url.href };
    };

    beforeEach(async () => {
      await database.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret';
        GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role};
        ALTER TABLE received_event ENABLE ROW LEVEL SECURITY;
        CREATE POLICY added ON received_event FOR INSERT WITH CHECK (true);
        CREATE POLICY tenant ON received_event FOR SELECT USING (event_type = current_setting('app.tenant', true))`);
    });
    afterEach(() => database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));

    it.each(['reconcile', 'preview'] as const)(
      '%s: are not known to be missing, and do not run again',
      async (way) => {
        const app = await start(record(), asRole());
        const lines: string[] = [];
        app.useLogger({
          log: () => undefined,
          warn: (line: unknown) => void lines.push(String(line)),
          error: () => undefined,
        });
        await receive(app, 'a', 'b');
        const report = await app.get(StartupReconciler)[way]();
        expect(report.records).toEqual({ checked: 2, missing: 0, reprocessed: 0, unchecked: 2 });
        expect(lines.join()).toContain('row-level security may hide the record');
        expect(await database.query(`SELECT FROM webhook_outbox WHERE state <> 'done'`)).toEqual([]);
      },
    );

    it('are missing when a look with their tenant finds none', async () => {
      const businessRecord: BusinessRecord = {
        minAge: 0,
        missing: (events, manager) =>
          manager.transaction(async (transaction) => {
            await transaction.query(`SELECT set_config('app.tenant', $1, true)`, [events[0]!.type]);
            const there = await transaction.find(ReceivedEvent);
            return events.filter(({ eventId }) => !there.some(({ event_id: id }) => id === eventId));
          }),
      };
      const app = await start(businessRecord, asRole());
      await receive(app, 'a', 'b');
      await lose('b');
      expect((await reconcile(app)).records).toEqual({
        checked: 2,
        missing: 1,
        reprocessed: 1,
        unchecked: 0,
      });
      await until(async () => (await records()).length === 2);
    });
  });

  it('are handled again, and what they have sent is not sent again', async () => {
    const app = await start(record());
    await receive(app, 'a', 'b', 'c');
    await lose('b');
    expect((await reconcile(app)).records).toEqual({ checked: 3, missing: 1, reprocessed: 1, unchecked: 0 });
    await until(async () => (await records()).length === 3);
    expect(missing()).toMatchObject([{ event: { eventId: 'b' }, action: 'reprocess' }]);
    await receive(app);
    expect(sent.sort()).toEqual(['a', 'b', 'c']);
  });

  it('are found after boot', async () => {
    await receive(await start(record()), 'a');
    await lose('a');
    await start(record(), {
      webhooks: {
        sources: {
          awardee: hmac({
            secrets: [AWARDEE_SECRET],
            signatureHeader: 'X-Awardee-Signature',
            idHeader: 'X-Awardee-Delivery',
            typeHeader: 'X-Awardee-Event',
          }),
        },
      },
    });
    await until(async () => (await records()).length === 1);
  });

  it('are handled again once a row: what is deleted on purpose stays so', async () => {
    const app = await start(record());
    await receive(app, 'a');
    await lose('a');
    await reconcile(app);
    await until(async () => (await records()).length === 1);
    await receive(app);
    await lose('a');
    expect((await reconcile(app)).records).toMatchObject({ checked: 0, missing: 0 });
    expect(await records()).toEqual([]);
  });

  it('are not missing while they are soft-deleted', async () => {
    await database.query(`ALTER TABLE received_event ADD deleted_at timestamptz`);
    const app = await start(record({ entity: SoftDeleted }), { entities: [SoftDeleted] });
    await receive(app, 'a', 'b');
    await database.query(`UPDATE received_event SET deleted_at = now() WHERE event_id = 'a'`);
    await lose('b');
    expect((await reconcile(app)).records).toEqual({ checked: 2, missing: 1, reprocessed: 1, unchecked: 0 });
    expect(missing()).toMatchObject([{ event: { eventId: 'b' } }]);
    await until(async () => (await records()).length === 2);
  });

  it('are only reported, once, where the handler asks for that', async () => {
    const app = await start(record({ onMissing: 'report' }));
    await receive(app, 'a');
    await lose('a');
    expect((await reconcile(app)).records).toMatchObject({ missing: 1, reprocessed: 0 });
    expect((await reconcile(app)).records).toMatchObject({ missing: 0 });
    expect(missing()).toMatchObject([{ action: 'report' }]);
    expect(await records()).toEqual([]);
  });

  it('are left alone when younger than minAge, or received before the window', async () => {
    const app = await start(record({ minAge: '1m', window: '1h' }));
    await receive(app, 'young', 'old', 'right');
    await lose('young', 'old', 'right');
    await database.query(
      `UPDATE webhook_outbox SET settled_at = now() - interval '2 min' WHERE event_id <> 'young'`,
    );
    await database.query(
      `UPDATE webhook_claim SET received_at = now() - interval '61 min' WHERE event_id = 'old'`,
    );
    await reconcile(app);
    await until(async () => (await records()).length === 1);
    expect(await records()).toEqual(['right']);
  });

  it('are found by a function of a batch of events, page after page, and looked for again under lock', async () => {
    const asked: number[] = [];
    const app = await start({
      minAge: 0,
      missing: async (events: readonly WebhookEvent[], manager: EntityManager) => {
        asked.push(events.length);
        // Alone, under lock, 'back' is there again.
        if (events.length === 1 && events[0]!.eventId === 'back') return [];
        const found: { event_id: string }[] = await manager.query(
          `SELECT event_id FROM received_event WHERE event_id = ANY($1)`,
          [events.map(({ eventId }) => eventId)],
        );
        const there = new Set(found.map((row) => row.event_id));
        return events.filter(({ eventId }) => !there.has(eventId));
      },
    });
    await Promise.all(Array.from({ length: 230 }, (_, i) => receive(app, `e${String(i).padStart(3, '0')}`)));
    await receive(app, 'back');
    await lose('back', 'e000', 'e229');
    expect((await reconcile(app)).records).toEqual({
      checked: 231,
      missing: 2,
      reprocessed: 2,
      unchecked: 0,
    });
    expect(asked.slice().sort((a, b) => b - a)).toEqual([200, 31, 1, 1, 1]);
    await until(async () => (await records()).length === 230);
  });

  it.each([
    [
      'is in work again',
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, due_at = now() + interval '1 hour'`,
    ],
    ['was reconciled', `UPDATE webhook_outbox SET reconciled = true WHERE kind = 'handler'`],
  ])('are left alone when their row %s since the first look', async (_, meanwhile) => {
    const app = await start({
      minAge: 0,
      missing: async (events: readonly WebhookEvent[]) => {
        await database.query(meanwhile);
        return events;
      },
    });
    await receive(app, 'a');
    await lose('a');
    expect((await reconcile(app)).records).toMatchObject({ checked: 1, missing: 0, reprocessed: 0 });
    expect(await records()).toEqual([]);
  });

  it('are left alone, and not waited for, when somebody else has their row locked', async () => {
    const app = await start(record());
    await receive(app, 'a');
    await lose('a');
    await database.dataSource.transaction(async (manager) => {
      await manager.query(`SELECT FROM webhook_outbox FOR UPDATE`);
      expect((await reconcile(app)).records).toMatchObject({ missing: 0, unchecked: 0 });
    });
    expect((await reconcile(app)).records).toMatchObject({ missing: 1, reprocessed: 1 });
    await until(async () => (await records()).length === 1);
  });

  it('are not judged when a look does not end in time: it is aborted, and nothing runs again', async () => {
    const aborted: unknown[] = [];
    const app = await start({
      minAge: 0,
      timeout: 100,
      missing: (_events, _manager, { signal }) =>
        new Promise<never>(() => signal.addEventListener('abort', () => aborted.push(signal.reason))),
    });
    await receive(app, 'a');
    await lose('a');
    expect((await reconcile(app)).records).toEqual({ checked: 0, missing: 0, reprocessed: 0, unchecked: 1 });
    expect(aborted).toMatchObject([{ code: 'TIMED_OUT' }]);
    expect(await records()).toEqual([]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no such field');
      },
    ],
    ['returns a condition that any record meets', () => ({})],
    ['returns no condition', () => []],
  ])('are not judged when `where` %s, and nothing runs again', async (_what, where) => {
    const app = await start(record({ where }));
    await receive(app, 'a');
    await lose('a');
    expect((await reconcile(app)).records).toEqual({ checked: 0, missing: 0, reprocessed: 0, unchecked: 1 });
    expect(await records()).toEqual([]);
  });

  it('are looked for by one instance at a time', async () => {
    let release = () => undefined as void;
    const held = new Promise<void>((resolve) => (release = resolve));
    const slow: BusinessRecord = {
      minAge: 0,
      missing: async () => {
        await held;
        return [];
      },
    };
    const [one, two] = [await start(slow), await start(slow)];
    await receive(one, 'a');
    const first = reconcile(one);
    await until(
      async () => (await database.query(`SELECT FROM webhook_lease WHERE name = 'reconcile'`)).length === 1,
    );
    expect((await reconcile(two)).ran).toBe(false);
    release();
    expect((await first).ran).toBe(true);
    expect((await reconcile(two)).ran).toBe(true);
  });

  it('case 15: rows in work are never touched, with no minimum age and a pass every 50 ms', async () => {
    const app = await start(record(), { poolSize: 30 });
    slowMs = 200;
    let passes = 0;
    let hits = 0;
    const over = new AbortController();
    const reconciling = (async () => {
      for (; !over.signal.aborted; await new Promise((resolve) => setTimeout(resolve, 50))) {
        const { records: found } = await reconcile(app);
        passes += 1;
        hits += found.missing;
      }
    })();
    await Promise.all(
      Array.from({ length: 500 }, (_, i) => {
        const { headers, body } = awardee(`e${i}`, 'grant.made', {});
        return app.get(Inbox).receive('awardee', { headers, rawBody: body });
      }),
    );
    await until(() => sent.length >= 500, 60_000).finally(() => over.abort());
    await reconciling;
    await receive(app);
    expect(passes).toBeGreaterThan(1);
    expect(hits).toBe(0);
    expect(new Set(sent).size).toBe(500);
    expect(sent).toHaveLength(500);
    expect(await database.query(`SELECT 1 FROM received_event WHERE applied_count <> 1`)).toEqual([]);
  }, 90_000);

  it.each([
    ['a window that outlives the bodies', { window: '40d' }, 'businessRecord.window'],
    ['a minAge past the window', { window: '1m', minAge: '2m' }, 'businessRecord.minAge'],
    ['an unknown option', { windows: '1m' }, "unknown option 'windows'"],
  ])('%s stops the boot', async (_what, policy, message) => {
    await expect(start(record(policy as Partial<BusinessRecord>))).rejects.toThrow(message);
  });
});
