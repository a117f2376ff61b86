import { jest } from '@jest/globals';
import { Injectable, Logger, type INestApplication } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import {
  Inbox,
  Inspector,
  OnWebhook,
  Retention,
  hmac,
  stripe,
  type Duration,
  type SourceRetention,
} from '../../src/index.js';
import { resolveOptions } from '../../src/core/options/resolve-options.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { LOCK_OLD_BODIES, LOCK_OLD_CLAIMS } from '../../src/storage/desk/retention.sql.js';
import { RetentionStore } from '../../src/storage/desk/retention.store.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { counts, makePast } from '../support/past.js';
import { AWARDEE_SECRET, STRIPE_SECRET, awardee } from '../support/signing.js';

const runs: string[] = [];

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*')
  record({ eventId }: { eventId: string }) {
    runs.push(eventId);
  }
}

const source = (retention?: Duration | SourceRetention) =>
  hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    idHeader: 'X-Awardee-Delivery',
    typeHeader: 'X-Awardee-Event',
    retryWindow: '24h',
    manualResendWindow: '24h',
    retention,
  });

describe('retention', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const apps: INestApplication[] = [];

  beforeEach(async () => {
    database = await createDatabase();
    runs.length = 0;
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((one) => one.close()));
    await database.drop();
  });

  const start = async (retention?: Duration | SourceRetention, other?: Duration | SourceRetention) => {
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: { awardee: source(retention), other: source(other) },
        relay: { pollInterval: '1h', listen: false },
        reconcile: false,
        notify: false,
      },
      providers: [Handlers],
    });
    apps.push(app);
    return app.get(Retention);
  };

  it('R04, R32: deletes claims older than the window of their source, with everything that belongs to them', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 2_000, days: [0, 20] });
    await makePast(database, { source: 'other', events: 100, days: [0, 20] });
    await database.query(`INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256)
      SELECT 'awardee', '', 'evt_' || g, 'other-bytes', '\\x00' FROM generate_series(0, 1999) g`);
    expect(await retention.prune()).toMatchObject({ ran: true, claims: 1_000, bodies: 0, effects: 0 });
    expect(await counts(database)).toEqual({
      claims: 1_100,
      bodies: 1_100,
      rows: 2_200,
      data: 2_200,
      payloads: 1_100,
    });
    const [left] =
      await database.query(`SELECT count(*)::int AS n, (SELECT count(*)::int FROM webhook_conflict) AS conflicts
      FROM webhook_claim WHERE source = 'awardee' AND received_at > now() - interval '10 days'`);
    expect(left).toEqual({ n: 1_000, conflicts: 1_000 });
    expect(await retention.prune()).toMatchObject({ claims: 0 });
  });

  it('empties bodies and payloads sooner than claims, source by source', async () => {
    const retention = await start({ claims: '30d', bodies: '5d', effects: '8d' }, '30d');
    await makePast(database, { source: 'awardee', events: 1_000, days: [0, 20] });
    await makePast(database, { source: 'other', events: 1_000, days: [0, 20] });
    expect(await retention.prune()).toMatchObject({ claims: 0, bodies: 750, effects: 600 });
    expect(await counts(database)).toEqual({
      claims: 2_000,
      bodies: 1_250,
      rows: 4_000,
      data: 4_000,
      payloads: 1_400,
    });
    const [emptied] = await database.query(`SELECT count(*)::int AS n FROM webhook_claim
      WHERE source = 'awardee' AND body IS NULL AND headers = '{}' AND received_at < now() - interval '5 days'`);
    expect(emptied).toEqual({ n: 750 });
    expect(await retention.prune()).toMatchObject({ bodies: 0, effects: 0 });
  });

  it.each(['pending', 'parked', 'handed', 'dead'])(
    'of events with %s work, never touches what is needed to do it',
    async (state) => {
      const retention = await start({ claims: '10d', bodies: '5d', effects: '5d' });
      await makePast(database, {
        source: 'awardee',
        events: 100,
        days: [11, 20],
        state: state === 'parked' || state === 'handed' ? 'done' : state,
      });
      if (state === 'parked' || state === 'handed')
        await database.query(
          `UPDATE webhook_outbox SET state = '${state}', settled_at = NULL WHERE kind = 'effect'`,
        );
      await database.query(
        `UPDATE webhook_claim SET received_at = received_at + interval '5 days' WHERE event_id < 'evt_5'`,
      );
      const before = await counts(database);
      const report = await retention.prune();
      // Dead work is settled: it goes with its claim, but as long as that is there, so is its body.
      expect(report).toMatchObject(state === 'dead' ? { bodies: 0 } : { claims: 0, bodies: 0 });
      const after = await counts(database);
      if (state === 'dead') expect(after.bodies).toBe(after.claims);
      else expect(after).toMatchObject({ ...before, payloads: state === 'pending' ? 0 : 100 });
    },
  );

  it.each([
    ['dead', `state = 'dead', reason = 'attempts-exhausted', settled_at = now()`],
    ['done since a person revived it', `state = 'done', attempt = 2, attempt_base = 1, settled_at = now()`],
    ['decided by a person', `state = 'dead', reason = 'given-up', attempt_base = 1, settled_at = now()`],
  ])('counts from when its row was settled: %s, of an event that came long ago', async (_, as) => {
    const retention = await start({ claims: '10d', bodies: '5d', effects: '5d' });
    await makePast(database, { source: 'awardee', events: 2, days: [11, 20] });
    await database.query(`UPDATE webhook_outbox SET ${as} WHERE event_id = 'evt_0'`);
    expect(await retention.prune()).toMatchObject({ claims: 1, bodies: 0, effects: 0 });
    expect(await database.query(`SELECT event_id, body IS NULL AS empty FROM webhook_claim`)).toEqual([
      { event_id: 'evt_0', empty: false },
    ]);
    await database.query(
      `UPDATE webhook_outbox SET settled_at = now() - interval '11 days' WHERE event_id = 'evt_0'`,
    );
    expect(await retention.prune()).toMatchObject({ claims: 1 });
    expect(await counts(database)).toMatchObject({ claims: 0, rows: 0, data: 0 });
  });

  it('leaves what dies at the moment of the prune', async () => {
    await start('10d');
    await makePast(database, { source: 'awardee', events: 3, days: [11, 20] });
    const pruned = await database.dataSource.transaction((manager) => {
      const query = async (sql: string, parameters?: unknown[]) => {
        const rows: unknown = await manager.query(sql, parameters);
        if (sql === LOCK_OLD_CLAIMS)
          await database.query(
            `UPDATE webhook_outbox SET state = 'dead', settled_at = now() WHERE event_id = 'evt_1' AND kind = 'handler'`,
          );
        return rows;
      };
      return app
        .get(RetentionStore)
        .deleteClaims({ commit: query } as unknown as EntityManager, 'awardee', 864_000_000, 100);
    });
    expect(pruned).toMatchObject({ count: 2, looked: 3 });
    expect(await database.query(`SELECT event_id FROM webhook_claim`)).toEqual([{ event_id: 'evt_1' }]);
  });

  it('looks once at what a mass replay keeps: each batch begins where the one before ended', async () => {
    await start('10d');
    await makePast(database, { source: 'awardee', events: 40, days: [11, 20] });
    // The oldest half was replayed yesterday.
    await database.query(
      `UPDATE webhook_outbox SET attempt_base = 1, settled_at = now() - interval '1 day'
        WHERE event_id IN (SELECT event_id FROM webhook_claim ORDER BY received_at LIMIT 20)`,
    );
    const store = app.get(RetentionStore);
    let cursor: string | undefined;
    const counts = [];
    for (let page = 0; page < 3; page += 1) {
      const found = await database.dataSource.transaction((m) =>
        store.deleteClaims(m, 'awardee', 864_000_000, 10, cursor),
      );
      cursor = found.last;
      counts.push(found.count);
    }
    expect(counts).toEqual([10, 10, 0]);
    expect(
      await database.query(
        `SELECT bool_and(received_at < '${cursor}'::timestamptz) AS "areBehind" FROM webhook_claim`,
      ),
    ).toEqual([{ areBehind: true }]);
  });

  it('leaves what someone has locked, and an event whose dead row is revived at that moment', async () => {
    await start('10d');
    await makePast(database, { source: 'awardee', events: 3, days: [11, 20], state: 'dead' });
    const store = app.get(RetentionStore);
    const other = await new DataSource(options(database.url)).initialize();
    try {
      // A redelivery revives without the claim's lock: its row is locked when the prune comes.
      await other.transaction(async (redelivery) => {
        await redelivery.query(
          `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL WHERE event_id = 'evt_1' AND kind = 'handler'`,
        );
        const pruned = await database.dataSource.transaction((manager) =>
          store.deleteClaims(manager, 'awardee', 864_000_000, 100),
        );
        expect(pruned).toMatchObject({ count: 2, looked: 3 });
      });
      expect(await database.query(`SELECT event_id, kind, state FROM webhook_outbox ORDER BY kind`)).toEqual([
        { event_id: 'evt_1', kind: 'effect', state: 'done' },
        { event_id: 'evt_1', kind: 'handler', state: 'pending' },
      ]);
      expect(await database.query(`SELECT event_id FROM webhook_claim`)).toEqual([{ event_id: 'evt_1' }]);
    } finally {
      await other.destroy();
    }
  });

  it.each([
    ['deleteClaims', LOCK_OLD_CLAIMS, `SELECT event_id FROM webhook_claim`],
    ['emptyBodies', LOCK_OLD_BODIES, `SELECT event_id FROM webhook_claim WHERE body IS NOT NULL`],
  ] as const)(
    'leaves an event whose row was made to run again since it was found: %s',
    async (what, found, left) => {
      await start('10d');
      await makePast(database, { source: 'awardee', events: 3, days: [11, 20] });
      const pruned = await database.dataSource.transaction((manager) => {
        const query = async (sql: string, parameters?: unknown[]) => {
          const rows: unknown = await manager.query(sql, parameters);
          if (sql === found)
            await database.query(
              `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL WHERE event_id = 'evt_1' AND kind = 'handler'`,
            );
          return rows;
        };
        const between = { commit: query } as unknown as EntityManager;
        return app.get(RetentionStore)[what](between, 'awardee', 864_000_000, 100);
      });
      expect(pruned).toMatchObject({ count: 2, looked: 3 });
      expect(await database.query(left)).toEqual([{ event_id: 'evt_1' }]);
    },
  );

  it('stops between two batches when asked, and the next prune takes what is left', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 1_200, days: [11, 20] });
    const controller = new AbortController();
    const onProgress = (rows: number) => {
      if (rows >= 500) controller.abort();
    };
    const report = await retention.prune({ signal: controller.signal, onProgress });
    expect(report).toMatchObject({ ran: true, claims: 500 });
    expect(await counts(database)).toMatchObject({ claims: 700, rows: 1_400 });
    expect(await retention.prune()).toMatchObject({ ran: true, claims: 700 });
  });

  it('is not held up by old events that are still unsettled, however many', async () => {
    const retention = await start({ claims: '10d', bodies: '5d' });
    await makePast(database, { source: 'awardee', events: 600, days: [21, 22], state: 'pending' });
    await database.query(`UPDATE webhook_claim SET event_id = 'unsettled ' || event_id`);
    await database.query(`UPDATE webhook_outbox SET event_id = 'unsettled ' || event_id`);
    await makePast(database, { source: 'awardee', events: 10, days: [11, 20] });
    await database.query(
      `UPDATE webhook_claim SET received_at = received_at + interval '5 days' WHERE event_id < 'evt_5'`,
    );
    expect(await retention.prune()).toMatchObject({ claims: 5, bodies: 5 });
    expect((await counts(database)).bodies).toBe(600);
  });

  it('leaves the body of an event that is made to run again at that moment', async () => {
    await start('10d');
    await makePast(database, { source: 'awardee', events: 3, days: [11, 20] });
    const store = app.get(RetentionStore);
    const other = await new DataSource(options(database.url)).initialize();
    try {
      // The reconciler has a done row run again without the claim's lock.
      await other.transaction(async (reconciler) => {
        await reconciler.query(
          `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL WHERE event_id = 'evt_1' AND kind = 'handler'`,
        );
        const emptied = await database.dataSource.transaction((manager) =>
          store.emptyBodies(manager, 'awardee', 864_000_000, 100),
        );
        expect(emptied).toEqual({ count: 2, looked: 3, last: expect.any(String) });
      });
      expect(await database.query(`SELECT event_id FROM webhook_claim WHERE body IS NOT NULL`)).toEqual([
        { event_id: 'evt_1' },
      ]);
    } finally {
      await other.destroy();
    }
  });

  it('deletes settled effects that belong to no event, and conflicts that belong to no claim', async () => {
    const retention = await start();
    await database.query(`
      INSERT INTO webhook_outbox (id, kind, name, state, settled_at)
      SELECT gen_random_uuid(), 'effect', 'mail', s, CASE WHEN s IN ('pending', 'parked') THEN NULL ELSE now() - interval '1 day' * d END
        FROM unnest(ARRAY['done', 'dead', 'pending', 'parked', 'erased']) s, unnest(ARRAY[29, 31]) d`);
    await database.query(`INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, last_at)
      SELECT 'awardee', '', 'never-' || d, 'suspected-replay', '\\x00', now() - interval '1 day' * d FROM unnest(ARRAY[29, 31]) d`);
    expect(await retention.prune()).toMatchObject({ looseEffects: 3, conflicts: 1 });
    expect(await retention.prune()).toMatchObject({ looseEffects: 0, conflicts: 0 });
    expect((await counts(database)).rows).toBe(7);
  });

  it('deletes marks of skipStale at twice the window of their source, page after page, and what replays took with the claim', async () => {
    const retention = await start('10d');
    await database.query(`
      INSERT INTO webhook_watermark (handler, source, tenant, key_sha256, at)
      SELECT source || '/h', source, '', sha256(g::text::bytea), now() - interval '1 day' * (g % 40)
        FROM generate_series(0, 1199) g, unnest(ARRAY['awardee', 'other', 'gone']) source`);
    await makePast(database, { source: 'awardee', events: 20, days: [0, 20] });
    await database.query(`INSERT INTO webhook_replay (replay_id, claim_id, replayed_by, reason)
      SELECT gen_random_uuid(), id, 'a test', 'to see' FROM webhook_claim, generate_series(1, 2)`);
    // The marks of 'gone', which has no claims and is nowhere configured, go after 60 days.
    await database.query(`INSERT INTO webhook_watermark (handler, source, tenant, key_sha256, at)
      SELECT 'gone/h', 'gone', '', sha256(('old' || g)::bytea), now() - interval '61 days' FROM generate_series(1, 3) g`);
    expect(await retention.prune()).toMatchObject({ claims: 10, watermarks: 603 });
    expect(
      await database.query(
        `SELECT source, count(*)::int, max(now() - at) < interval '20 days' AS young FROM webhook_watermark GROUP BY source ORDER BY source`,
      ),
    ).toEqual([
      { source: 'awardee', count: 600, young: true },
      // Their windows are longer.
      { source: 'gone', count: 1_200, young: false },
      { source: 'other', count: 1_200, young: false },
    ]);
    expect(await database.query(`SELECT FROM webhook_replay`)).toHaveLength(20);
    expect(
      await database.query(`SELECT FROM webhook_replay WHERE claim_id NOT IN (SELECT id FROM webhook_claim)`),
    ).toEqual([]);
  });

  describe('of a source that is configured no more', () => {
    const past = async () => {
      await makePast(database, { source: 'gone', events: 50, days: [31, 60] });
      await makePast(database, { source: 'stuck', events: 2, days: [50, 60], state: 'pending' });
      await database.query(`INSERT INTO webhook_watermark (handler, source, tenant, key_sha256, at)
        SELECT 'gone/h', 'gone', '', sha256(d::text::bytea), now() - interval '1 day' * d FROM unnest(ARRAY[50, 70]) d`);
    };

    it('deletes claims and marks after 30 days, and nothing unsettled', async () => {
      const retention = await start();
      await past();
      expect(await retention.prune()).toMatchObject({ claims: 50, watermarks: 1 });
      expect(
        await database.query(
          `SELECT source, count(*)::int AS n FROM webhook_claim GROUP BY source ORDER BY source`,
        ),
      ).toEqual([{ source: 'stuck', n: 2 }]);
    });

    it('deletes nothing while an event has come within that time: its application may be stopped for the night', async () => {
      const retention = await start();
      await past();
      await makePast(database, { source: 'asleep', events: 20, days: [0, 60] });
      expect(await retention.prune()).toMatchObject({ claims: 50 });
      const asleep = await database.query(`SELECT FROM webhook_claim WHERE source = 'asleep'`);
      expect(asleep).toHaveLength(20);
    });

    it('leaves what another running instance has configured', async () => {
      const retention = await start();
      await past();
      await database.query(
        `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources)
         VALUES (gen_random_uuid(), 'h', 1, 'v22', true, true, 0, '{}', '{gone}')`,
      );
      expect(await retention.prune()).toMatchObject({ claims: 0, watermarks: 0 });
    });

    it('is not named where there is none', async () => {
      const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue(undefined);
      try {
        await start();
        await app.get(DeskKeeper).round();
        expect(warned.mock.calls.flat().join()).not.toContain('not configured');
      } finally {
        warned.mockRestore();
      }
    });

    it('is named in the log after the boot, once, and by the inspector', async () => {
      const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue(undefined);
      try {
        await past();
        await start();
        const named = () =>
          warned.mock.calls.flat().filter((line) => String(line).includes('not configured'));
        await until(() => named().length > 0);
        await app.get(DeskKeeper).round();
        expect(named()).toEqual([
          expect.stringMatching(
            /stored and not configured.*no event has come for 30 days.*sources="gone, stuck"/,
          ),
        ]);
        expect(await app.get(Inspector).formerSources()).toEqual(['gone', 'stuck']);
      } finally {
        warned.mockRestore();
      }
    });
  });

  it('keeps no note for ever: audit, words on dead rows, uses of secrets, counts of duplicates, leases', async () => {
    const retention = await start();
    await makePast(database, { source: 'awardee', events: 1, days: [1, 2] });
    await database.query(`
      INSERT INTO webhook_audit (at, actor, action, target, reason)
        SELECT now() - interval '1 day' * d, 'ann', 'pause', 'x', '' FROM unnest(ARRAY[366, 364]) d;
      INSERT INTO webhook_issue (fingerprint, state, actor, changed_at)
        SELECT md5(d::text), 'resolved', 'ann', now() - interval '1 day' * d FROM unnest(ARRAY[366, 364]) d;
      INSERT INTO webhook_secret_use (source, fingerprint, deliveries, first_at, last_at)
        SELECT 'awardee', d::text, 1, now() - interval '1 day' * d, now() - interval '1 day' * d FROM unnest(ARRAY[366, 364]) d;
      INSERT INTO webhook_duplicate (source, tenant, event_id, count, last_at)
        SELECT 'awardee', '', e, 1, now() - interval '31 days' FROM unnest(ARRAY['evt_0', 'pruned']) e;
      INSERT INTO webhook_lease (name, owner, until)
        SELECT 'job ' || d, gen_random_uuid(), now() - interval '1 day' * d FROM unnest(ARRAY[2, 0]) d`);
    expect(await retention.prune()).toMatchObject({ audit: 1, notes: 4 });
    const left = ['audit', 'issue', 'secret_use', 'duplicate'].map((table) =>
      database.query(`SELECT FROM webhook_${table}`),
    );
    expect((await Promise.all(left)).map((rows) => rows.length)).toEqual([1, 1, 1, 1]);
    expect(await retention.prune()).toMatchObject({ audit: 0, notes: 0 });
  });

  it('prunes a night of events while others come in: each is acknowledged and handled', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 10_000, days: [5, 15] });
    const over = new AbortController();
    const received: string[] = [];
    const receiving = (async () => {
      for (let next = 0; !over.signal.aborted || next < 50; next += 1) {
        const { headers, body } = awardee(`new-${next}`, 'grant.made', {});
        const { status } = await app.get(Inbox).receive('awardee', { headers, rawBody: body });
        if (status === 200) received.push(`new-${next}`);
        else throw new Error(`answered ${status}`);
      }
    })();
    expect(await retention.prune().finally(() => over.abort())).toMatchObject({ ran: true, claims: 5_000 });
    await receiving;
    // By the application's own relay, which a commit wakes: what it has in hand is in its hands for a moment.
    await until(() => runs.length >= received.length);
    expect(runs.toSorted()).toEqual(received.toSorted());
    expect(await counts(database)).toMatchObject({ claims: 5_000 + received.length });
  });

  it('a preview counts what is due and deletes nothing, and fails where it cannot count', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 40, days: [0, 20] });
    const before = await counts(database);
    expect(await retention.preview()).toMatchObject({ ran: true, claims: 20 });
    expect(await counts(database)).toEqual(before);
    await database.query('ALTER TABLE webhook_conflict RENAME TO webhook_conflict_away');
    await expect(retention.preview()).rejects.toThrow(/webhook_conflict/);
  });

  it('ends where a whole batch of claims, all of one moment, stays since their rows are locked', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 500, days: [11, 11] });
    await database.dataSource.transaction(async (other) => {
      await other.query(`SELECT FROM webhook_outbox FOR UPDATE`);
      expect(await retention.prune()).toMatchObject({ claims: 0 });
    });
    expect(await retention.prune()).toMatchObject({ claims: 500 });
  });

  it('one instance at a time prunes', async () => {
    const retention = await start('10d');
    await makePast(database, { source: 'awardee', events: 1_500, days: [11, 20] });
    const reports = await Promise.all([retention.prune(), (await start('10d')).prune()]);
    expect(reports.filter(({ ran }) => ran)).toHaveLength(1);
    expect((await counts(database)).claims).toBe(0);
  });

  it('R15, case 45: an event that comes again after its claim was pruned is a new one, and before that a duplicate', async () => {
    const retention = await start('10d');
    const { headers, body } = awardee('evt', 'grant.made', {});
    const receive = () => app.get(Inbox).receive('awardee', { headers, rawBody: body });
    expect(await receive()).toMatchObject({ body: { status: 'ok' } });
    await until(() => runs.length === 1);
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'done'`)).length === 1,
    );
    await database.query(`UPDATE webhook_claim SET received_at = now() - interval '9 days 23 hours'`);
    await retention.prune();
    expect(await receive()).toMatchObject({ body: { status: 'duplicate' } });
    await database.query(`UPDATE webhook_claim SET received_at = now() - interval '10 days 1 hour'`);
    await retention.prune();
    expect(await receive()).toMatchObject({ body: { status: 'ok' } });
    await until(() => runs.length === 2);
  });

  it.each([
    ['claims', '40h', 'expected at least 2 days'],
    ['claims', { claims: '40h' }, 'expected at least 2 days'],
    ['bodies', { claims: '10d', bodies: '11d' }, 'retention.bodies: expected at most'],
    ['effects', { claims: '10d', effects: '11d' }, 'retention.effects: expected at most'],
    ['unknown', { claim: '10d' }, "did you mean 'claims'?"],
  ])('case 45: boot refuses windows that contradict (%s %j)', (_what, retention, message) => {
    const sources = { awardee: source(retention as Duration) };
    expect(() => resolveOptions({ sources })).toThrow(message);
  });

  it('case 45: boot refuses a window shorter than what Stripe may resend', () => {
    const sources = { stripe: stripe({ secrets: [STRIPE_SECRET], retention: '7d' }) };
    expect(() => resolveOptions({ sources })).toThrow('expected at least 33 days');
  });
});
