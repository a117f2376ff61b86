import type { INestApplication } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { placeOf, type Place } from '../../src/core/place.js';
import { Inbox, InputRefused, Inspector, Operator, Stats, type Alert } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { SearchStore } from '../../src/storage/search.store.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { awardee, stripeEvent, type SignedRequest } from '../support/signing.js';

const deed = { by: 'ann@example.com', reason: 'the account was opened again' };

describe('the operator', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let inbox: Inbox;
  let inspector: Inspector;
  let operator: Operator;
  let keeper: DeskKeeper;
  const alerts: Alert[] = [];

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources, onAlert: (alert) => void alerts.push(alert), deadLetterThreshold: 3 },
      providers: [DeskHandlers],
    });
    inbox = app.get(Inbox);
    inspector = app.get(Inspector);
    operator = app.get(Operator);
    keeper = app.get(DeskKeeper);
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  const send = (source: string, { headers, body }: SignedRequest) =>
    inbox.receive(source, { headers, rawBody: body });
  const one = async (filter: string) => {
    const { events } = await inspector.events(filter);
    expect(events).toHaveLength(1);
    return events[0]!;
  };
  const settled = (id: string, state: string) =>
    until(async () => (await inspector.events(`id:${id}`)).events[0]?.state === state);

  it('R33 shows an event under an id of ours, with its way from claim to effect', async () => {
    await send('awardee', awardee('way-1', 'grant.made', { amount: 7 }));
    await settled('way-1', 'processed');
    const listed = await one('source:awardee type:grant.* id:way-1');
    await until(async () => (await inspector.events('id:way-1')).events[0]?.effectsDone === 1);
    const event = (await inspector.event(listed.id))!;
    expect(event).toMatchObject({
      eventId: 'way-1',
      state: 'processed',
      verifiedBy: expect.stringMatching(/^[0-9a-f]{6}$/),
      bytes: 12,
      matches: ['awardee/DeskHandlers.grant'],
    });
    const [handler, effect] = event.rows;
    expect(handler).toMatchObject({ kind: 'handler', state: 'done', attempt: 1, result: 'granted' });
    expect(effect).toMatchObject({ kind: 'effect', name: 'mail', state: 'done', parentId: handler!.id });
    expect((await inspector.events(`id:${listed.id}`)).events[0]!.eventId).toBe('way-1');
    expect((await inspector.events(`id:${effect!.id}`)).events[0]!.eventId).toBe('way-1');
  });

  it('R33 counts duplicates and when the last came, off the way of a delivery', async () => {
    const request = awardee('again-1', 'grant.made', {});
    for (let i = 0; i < 4; i += 1) await send('awardee', request);
    await keeper.round();
    const event = (await inspector.event((await one('id:again-1')).id))!;
    expect(event.duplicates).toBe(3);
    expect(event.lastDuplicateAt!.getTime()).toBeGreaterThan(Date.now() - 60_000);
  });

  it('R23 lists what died, grouped by its error, and starts it again once the cause is gone', async () => {
    world.grantsFail = true;
    for (const id of ['dead-1', 'dead-22', 'dead-333']) await send('awardee', awardee(id, 'grant.made', {}));
    for (const id of ['dead-1', 'dead-22', 'dead-333']) await settled(id, 'dead');
    expect((await inspector.events('state:dead')).events.map((event) => event.eventId).sort()).toEqual([
      'dead-1',
      'dead-22',
      'dead-333',
    ]);
    const [group] = await inspector.deadGroups();
    expect(group).toMatchObject({
      count: 3,
      state: 'open',
      reason: 'permanent-error',
      name: 'awardee/DeskHandlers.grant',
    });
    expect(group!.error).toContain('is closed');

    await operator.setIssue(group!.fingerprint, 'acknowledged', deed);
    expect((await inspector.deadGroups())[0]).toMatchObject({ state: 'acknowledged', actor: deed.by });
    await operator.setIssue(group!.fingerprint, 'resolved', deed);
    await send('awardee', awardee('dead-4444', 'grant.made', {}));
    await settled('dead-4444', 'dead');
    expect((await inspector.deadGroups())[0]).toMatchObject({ state: 'open', reopened: true, count: 4 });

    world.grantsFail = false;
    const rows = await inspector.deadGroup(group!.fingerprint);
    const revived = await operator.revive(
      rows.map((row) => row.id),
      deed,
    );
    expect(revived).toHaveLength(4);
    for (const id of ['dead-1', 'dead-22', 'dead-333', 'dead-4444']) await settled(id, 'processed');
    expect(await inspector.deadGroups()).toEqual([]);
    expect((await inspector.audit())[0]).toMatchObject({
      actor: deed.by,
      reason: deed.reason,
      action: 'revive',
      target: expect.stringMatching(/^4 rows, /),
      detail: { ids: rows.map((row) => row.id) },
      outcome: { revived: 4 },
    });
    // A row that is not dead is left as it is.
    expect(
      await operator.revive(
        rows.map((row) => row.id),
        deed,
      ),
    ).toEqual([]);
  });

  it('R14 alarms on the number of dead letters, and tells each', async () => {
    const of = (kind: Alert['kind']) => alerts.filter((alert) => alert.kind === kind);
    expect(of('dead-letter').length).toBeGreaterThanOrEqual(4);
    expect(of('dead-letters')[0]).toMatchObject({ count: 3, threshold: 3 });
    await keeper.round();
    const shown = await inspector.alerts();
    expect(shown.some((alert) => alert.kind === 'dead-letters')).toBe(true);
  });

  it('R25 keeps every verified delivery byte for byte, also one that no handler matches', async () => {
    const request = stripeEvent('evt_nobody', 'customer.created', {
      name: 'Ann \u0000 Zoë',
      odd: '{"a":1.0}',
    });
    await send('stripe', request);
    const listed = await one('id:evt_nobody');
    expect(listed).toMatchObject({ state: 'skipped', outcome: 'no handler matched', owed: 0 });
    const stored = (await inspector.body(listed.id))!;
    expect(stored.body!.equals(request.body)).toBe(true);
  });

  it('pages through events, newest first, without missing or repeating one', async () => {
    for (let i = 0; i < 7; i += 1) await send('stripe', stripeEvent(`evt_page_${i}`, 'invoice.paid', {}));
    for (const filter of ['source:stripe', 'source:stripe,awardee type:invoice.*']) {
      const seen: string[] = [];
      let next: string | undefined;
      do {
        const page = await inspector.events(filter, next, 3);
        seen.push(...page.events.map((event) => event.eventId));
        next = page.next;
      } while (next !== undefined);
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.slice(0, 2)).toEqual(['evt_page_6', 'evt_page_5']);
      expect(seen).toContain('evt_page_0');
    }
  });

  it('goes on where a walk that may look at a few claims only has ended, also among claims of one moment', async () => {
    const { dataSource, store } = { dataSource: app.get(DataSource), store: app.get(SearchStore) };
    // As one commit of many deliveries has them.
    await database.query(`
      INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
      SELECT 'stripe', '', 'moment-' || i, gen_random_uuid(), 0, 'a.moment', 'delivery', 'abcdef', '{}'
        FROM generate_series(1, 20) i`);
    const all = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM webhook_claim WHERE source = 'stripe'`,
    );
    for (const filter of [{ sources: ['stripe'] }, { sources: ['stripe', 'nowhere'] }]) {
      for (const type of ['a.moment', 'nothing']) {
        const seen = new Set<string>();
        let from: Place | undefined;
        let pages = 0;
        do {
          const page = await store.events(dataSource.manager, { ...filter, type }, 50, ['stripe'], from, 3);
          for (const event of page.events) seen.add(event.eventId);
          from = placeOf(page.next);
          pages += 1;
          expect(pages).toBeLessThan(all[0]!.n + 20);
        } while (from !== undefined);
        expect(seen.size).toBe(type === 'a.moment' ? 20 : 0);
      }
    }
    await database.query(`DELETE FROM webhook_claim WHERE event_type = 'a.moment'`);
  });

  it('R33 gives figures of the last hour from rollups', async () => {
    await keeper.round();
    const overview = await app.get(Stats).overview('hour');
    expect(overview.steps).toHaveLength(60);
    const sum = (name: 'deliveries' | 'duplicates' | 'handled' | 'dead') =>
      overview.steps.reduce((total, step) => total + step[name], 0);
    expect(sum('deliveries')).toBe(17);
    expect(sum('duplicates')).toBe(3);
    expect(sum('dead')).toBe(4);
    expect(sum('handled')).toBeGreaterThan(5);
    expect(overview.steps.some((step) => step.ackP99 !== null && step.ackP99 < 5_000)).toBe(true);
    expect(overview.now).toMatchObject({ dead: 0, instances: 1 });
  });

  it('lists sources with the secret in use, and instances', async () => {
    const source = (await inspector.sources()).find(({ name }) => name === 'awardee')!;
    expect(source).toMatchObject({ provider: 'hmac', retries: 'own', lastType: 'grant.made' });
    expect(source.secrets).toEqual([
      expect.objectContaining({ configured: true, deliveries: 9, fingerprint: expect.any(String) }),
    ]);
    expect(source.rates).toMatchObject({ hour: 9, duplicatesDay: 3 });
    const { instances, leases, overdue } = await inspector.relays();
    expect(instances).toEqual([expect.objectContaining({ alive: true, relays: true, pid: process.pid })]);
    expect(leases).toContainEqual(expect.objectContaining({ name: 'desk', owner: instances[0]!.id }));
    expect(overdue).toEqual([]);
  });

  it.each([
    ['sorce:stripe', /did you mean 'source'/],
    ['state:deed', /did you mean 'dead'/],
    ['after:yesterday', /after:2h/],
    ['state:', /expected one of/],
  ])('refuses the filter %s with a hint', async (filter, message) => {
    await expect(inspector.events(filter)).rejects.toThrow(InputRefused);
    await expect(inspector.events(filter)).rejects.toThrow(message);
  });

  it.each([`id:x'; DROP TABLE webhook_claim; --`, `type:%`, `"source:a b"`, `tenant:$1`, `constructor:x`])(
    'takes the filter %s for text, never for SQL',
    async (filter) => {
      await inspector.events(filter).catch((error: unknown) => expect(error).toBeInstanceOf(InputRefused));
      expect((await inspector.events('')).events.length).toBeGreaterThan(0);
    },
  );
});
