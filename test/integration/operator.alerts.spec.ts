import { randomUUID } from 'node:crypto';
import { Injectable, type INestApplication } from '@nestjs/common';
import { Inbox, Inspector, OnEffect, Operator, type Alert } from '../../src/index.js';
import { Alerts } from '../../src/core/telemetry/alerts.js';
import { Tally } from '../../src/core/telemetry/tally.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { DeskWriter } from '../../src/operator/desk-writer.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources } from '../support/desk.js';
import { awardee, type SignedRequest } from '../support/signing.js';

const ann = { by: 'ann', reason: 'test' };

describe('alerts', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const alerts: Alert[] = [];

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: deskSources,
        alerts: { backlogAge: '1h' },
        deadLetterThreshold: 4,
        onAlert: (alert) => void alerts.push(alert),
      },
      providers: [DeskHandlers],
    });
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  const told = (kind: Alert['kind']) => alerts.filter((alert) => alert.kind === kind);
  const shown = async (kind: string) =>
    (await app.get(Inspector).alerts()).filter((alert) => alert.kind === kind);
  const send = (source: string, { headers, body }: SignedRequest) =>
    app.get(Inbox).receive(source, { headers, rawBody: body });
  const round = () => app.get(DeskKeeper).round();
  const state = async (id: string) => (await app.get(Inspector).events(`id:${id}`)).events[0]!.state;

  it('R22 R33 tell of a backlog once, and again only after it was worked off', async () => {
    const operator = app.get(Operator);
    for (const [index, id] of ['late-1', 'late-2'].entries()) {
      await operator.pause('source', 'awardee', ann);
      await send('awardee', awardee(id, 'grant.made', { id }));
      await database.query(
        `UPDATE webhook_outbox SET due_at = now() - interval '2 hours' WHERE event_id = '${id}'`,
      );
      await round();
      await round();
      expect(told('backlog')).toHaveLength(index + 1);
      await operator.resume('source', 'awardee', ann);
      await until(async () => (await state(id)) === 'processed');
      await round();
    }
    expect(told('backlog')[0]).toMatchObject({ name: 'awardee/DeskHandlers.grant', thresholdMs: 3_600_000 });
    await round();
    expect(await shown('backlog')).toHaveLength(2);
  });

  it('R22 tell of rows that no instance can run, whenever their name became unknown, once until they are gone', async () => {
    @Injectable()
    class Elsewhere {
      @OnEffect('print')
      print() {}
    }
    const other = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources, relay: false, reconcile: false, retention: false },
      providers: [Elsewhere],
    });
    const owed = () =>
      database.query(
        `INSERT INTO webhook_outbox (id, kind, name, due_at) VALUES (gen_random_uuid(), 'effect', 'print', now() - interval '61 min')`,
      );
    try {
      await other.get(DeskKeeper).round();
      await owed();
      await round();
      // Another instance knows it: whether that one is slow is the backlog's to tell.
      expect(told('unknown-name')).toEqual([]);
    } finally {
      await other.close();
    }
    await round();
    await round();
    expect(told('unknown-name')).toEqual([{ kind: 'unknown-name', name: 'print', rows: 1 }]);
    expect(await shown('unknown-name')).toEqual([expect.objectContaining({ subject: 'print' })]);

    const gone = () => database.query(`DELETE FROM webhook_outbox WHERE name = 'print'`);
    await gone();
    await round();
    await owed();
    // In the lane, and waiting for its turn: the other two places of what is pending.
    await owed();
    await database.query(`
      UPDATE webhook_outbox SET alone = true
       WHERE id = (SELECT id FROM webhook_outbox WHERE name = 'print' ORDER BY id LIMIT 1)`);
    await owed();
    await database.query(`
      UPDATE webhook_outbox SET waits = true, order_name = name, order_key = 'k'
       WHERE id = (SELECT id FROM webhook_outbox WHERE name = 'print' AND NOT alone ORDER BY id LIMIT 1)`);
    await round();
    expect(told('unknown-name')).toHaveLength(2);
    expect(told('unknown-name')[1]).toMatchObject({ rows: 3 });
    await gone();
    await round();
  });

  it('R22 R33 tell of known bytes under a new id, and the page lists it with its event', async () => {
    await send('awardee', awardee('first', 'grant.made', { amount: 12 }));
    await send('awardee', awardee('twin', 'grant.made', { amount: 12 }));
    expect(told('conflict')).toEqual([expect.objectContaining({ conflict: 'suspected-replay' })]);
    await round();
    expect(await shown('conflict')).toEqual([expect.objectContaining({ subject: 'awardee twin' })]);
  });

  it('R22 tell of each conflict once, of ten a minute, and then how many there were', async () => {
    alerts.length = 0;
    for (let i = 0; i < 25; i += 1)
      await send('awardee', awardee(`flood-${i}`, 'grant.made', { amount: 12 }));
    for (let i = 0; i < 3; i += 1) await send('awardee', awardee('flood-0', 'grant.made', { amount: 12 }));
    await round();
    await round();
    // One of the ten was told before.
    const of = told('conflict').map((alert) => 'event' in alert && alert.event?.eventId);
    expect(of).toEqual(Array.from({ length: 9 }, (_, i) => `flood-${i}`));
    expect(told('conflict-burst')).toEqual([
      { kind: 'conflict-burst', source: 'awardee', count: expect.any(Number), threshold: 10 },
    ]);
    expect(await shown('conflict-burst')).toHaveLength(1);
  });

  it('R22 R33 count a rejection once, however often it could not be written down', async () => {
    alerts.length = 0;
    await round();
    for (let i = 0; i < 25; i += 1) app.get(Tally).add('awardee', 'rejected:wrong-signature');
    const kept = async (of = `<> ''`) =>
      (
        await database.query<{ sum: number }>(
          `SELECT coalesce(sum(value), 0)::int AS sum FROM webhook_stat WHERE metric = 'rejected:wrong-signature' AND source ${of}`,
        )
      )[0]!.sum;
    const before = await kept();
    await database.query('ALTER TABLE webhook_stat RENAME TO webhook_stat_away');
    await round().catch(() => undefined);
    await round().catch(() => undefined);
    await round().catch(() => undefined);
    await database.query('ALTER TABLE webhook_stat_away RENAME TO webhook_stat');
    app.get(Tally).add('awardee', 'rejected:wrong-signature');
    await round();
    expect(await kept()).toBe(before + 26);
    // Of all sources together, which is what the overview reads.
    expect(await kept(`= ''`)).toBe(before + 26);
    expect(told('rejection-burst')).toEqual([]);
  });

  it('R14 tell of dead letters that nobody lived to count, and again only after a person cleared half of them', async () => {
    const dead = () =>
      database.query(`
        INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason)
        SELECT gen_random_uuid(), 'effect', 'gone', 'dead', now(), 'permanent-error' FROM generate_series(1, 4)`);
    const clear = (rows: number) =>
      database.query(
        `DELETE FROM webhook_outbox WHERE id IN (SELECT id FROM webhook_outbox WHERE state = 'dead' LIMIT ${rows})`,
      );
    await dead();
    await round();
    expect(told('dead-letters')).toEqual([{ kind: 'dead-letters', count: 4, threshold: 4 }]);
    // At the threshold figures flicker.
    await clear(1);
    await round();
    await dead();
    await round();
    expect(told('dead-letters')).toHaveLength(1);
    // Nobody dies meanwhile: the round sees that they are gone.
    await clear(10);
    await round();
    await dead();
    await round();
    expect(told('dead-letters')).toHaveLength(2);
  });

  it('R22 keep a hundred of a round at most, and none of a dead letter, which the list of dead rows has', async () => {
    const writer = app.get(DeskWriter);
    const count = async () => (await database.query(`SELECT FROM webhook_alert`)).length;
    // Alerts of the rounds before are kept until now, and would take places.
    await writer.flush();
    const before = await count();
    const event = { source: 'awardee', tenant: '', eventId: 'dead-1' };
    app.get(Alerts).raise({
      kind: 'dead-letter',
      event,
      name: 'mail',
      outboxId: randomUUID(),
      attempt: 1,
      reason: 'permanent-error',
    });
    for (let nth = 0; nth < 150; nth += 1)
      app
        .get(Alerts)
        .raise({ kind: 'manager-misused', name: 'awardee/DeskHandlers.grant', detail: `${nth}` });
    await writer.flush();
    expect((await count()) - before).toBe(100);
    expect(await database.query(`SELECT FROM webhook_alert WHERE kind = 'dead-letter'`)).toEqual([]);
  });

  describe('what cannot be stored', () => {
    const misused = (detail: string) =>
      app.get(Alerts).raise({ kind: 'manager-misused', name: 'awardee/DeskHandlers.grant', detail });
    const beats = async () => {
      const [row] = await database.query<{ seen: number }>(
        `SELECT (extract(epoch FROM max(seen_at)) * 1e6)::float8 AS seen FROM webhook_relay`,
      );
      return row!.seen;
    };

    it.each([
      ['half a character', 'INSERT \ud83d'],
      ['NUL', 'INSERT \u0000'],
      ['the other half', '\udc00 INSERT'],
    ])('%s is made storable, and heartbeats and counts go on', async (_what, detail) => {
      const before = await beats();
      misused(detail);
      app.get(Tally).add('awardee', `rejected:${detail}`);
      await round();
      expect((await shown('manager-misused'))[0]!.facts).toMatchObject({
        detail: expect.stringContaining('INSERT'),
      });
      expect(await beats()).toBeGreaterThan(before);
    });

    it('is dropped alone where the database refuses it all the same', async () => {
      await database.query(
        `ALTER TABLE webhook_alert ADD CONSTRAINT refused CHECK (facts->>'detail' <> 'refused') NOT VALID`,
      );
      try {
        const before = await beats();
        misused('refused');
        misused('kept');
        app.get(Tally).add('awardee', 'retried', 7);
        await round();
        const [first] = await shown('manager-misused');
        expect(first!.facts).toMatchObject({ detail: 'kept' });
        const [counted] = await database.query<{ value: string }>(
          `SELECT sum(value) AS value FROM webhook_stat WHERE metric = 'retried' AND source <> ''`,
        );
        expect(Number(counted!.value)).toBeGreaterThanOrEqual(7);
        expect(await beats()).toBeGreaterThan(before);
      } finally {
        await database.query('ALTER TABLE webhook_alert DROP CONSTRAINT refused');
      }
    });
  });
});
