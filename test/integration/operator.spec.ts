import type { INestApplication } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { cursorOf, type Cursor } from '../../src/core/cursor.js';
import {
  Erasure,
  Inbox,
  InputRefused,
  Inspector,
  Operator,
  Stats,
  hmac,
  type Alert,
} from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { SourceInspector } from '../../src/operator/source.inspector.js';
import { parseFilter } from '../../src/operator/event.filter.js';
import { SearchStore } from '../../src/storage/desk/search.store.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { AWARDEE_SECRET, awardee, stripeEvent, type SignedRequest } from '../support/signing.js';

const deed = { by: 'ann@example.com', reason: 'the account was opened again' };

/** Its events are found by values of their payloads. */
const shop = hmac({
  secrets: [AWARDEE_SECRET],
  signatureHeader: 'X-Awardee-Signature',
  idHeader: 'X-Awardee-Delivery',
  typeHeader: 'X-Awardee-Event',
  // One of them twice: no event may be refused for that.
  searchPaths: ['data.customer', 'data.order.number', 'data.tags', 'data.customer'],
});

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
      webhooks: {
        sources: { ...deskSources, shop },
        onAlert: (alert) => void alerts.push(alert),
        deadLetterThreshold: 3,
      },
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
    const [group] = (await inspector.deadGroups()).groups;
    expect(group).toMatchObject({
      count: 3,
      state: 'open',
      reason: 'permanent-error',
      name: 'awardee/DeskHandlers.grant',
      place: expect.stringMatching(/test\/support\/desk\.ts:\d+:\d+$/),
    });
    expect(group!.error).toContain('is closed');
    expect([group!.hours.length, group!.hours.at(-1)]).toEqual([24, 3]);
    expect((await inspector.deadGroup(group!.fingerprint)).group).toMatchObject({
      types: ['grant.made'],
      instances: [expect.stringMatching(/:\d+$/)],
    });

    await operator.setIssue(group!.fingerprint, 'acknowledged', deed);
    expect((await inspector.deadGroups()).groups[0]).toMatchObject({ state: 'acknowledged', actor: deed.by });
    await operator.setIssue(group!.fingerprint, 'resolved', deed);
    await send('awardee', awardee('dead-4444', 'grant.made', {}));
    await settled('dead-4444', 'dead');
    expect((await inspector.deadGroups()).groups[0]).toMatchObject({
      state: 'open',
      reopened: true,
      count: 4,
    });

    world.grantsFail = false;
    const { rows } = await inspector.deadGroup(group!.fingerprint);
    const revived = await operator.revive(
      rows.map((row) => row.id),
      deed,
    );
    expect(revived).toHaveLength(4);
    for (const id of ['dead-1', 'dead-22', 'dead-333', 'dead-4444']) await settled(id, 'processed');
    expect((await inspector.deadGroups()).groups).toEqual([]);
    const { attempts, rows: after } = (await inspector.event((await one('id:dead-22')).id))!;
    const handler = after.find((row) => row.kind === 'handler')!.id;
    expect(attempts.filter(({ outboxId }) => outboxId === handler)).toMatchObject([
      { attempt: 1, outcome: 'dead', error: expect.stringContaining('is closed'), place: group!.place },
      { attempt: 1, outcome: 'revived', by: deed.by, why: deed.reason, begunAt: null },
      { attempt: 2, outcome: 'done', begunAt: expect.any(Date), endedAt: expect.any(Date) },
    ]);
    expect((await inspector.audit()).audit[0]).toMatchObject({
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
    for (const sources of [['stripe'], ['stripe', 'nowhere']]) {
      for (const type of ['a.moment', 'nothing']) {
        const filter = parseFilter(`source:${sources.join(',')} type:${type}`);
        const seen = new Set<string>();
        let from: Cursor | undefined;
        let pages = 0;
        do {
          const page = await store.events(dataSource.manager, filter, 50, ['stripe'], from, 3);
          for (const event of page.events) seen.add(event.eventId);
          from = cursorOf(page.next);
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
    const source = (await inspector.sources()).sources.find(({ name }) => name === 'awardee')!;
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

  it('pages through the sources, each once', async () => {
    const sources = app.get(SourceInspector);
    const first = await sources.list('', '', undefined, 1);
    expect([first.sources.map(({ name }) => name), first.next, first.total]).toEqual([
      ['awardee'],
      'awardee',
      3,
    ]);
    const second = await sources.list('', first.next!, undefined, 2);
    expect([second.sources.map(({ name }) => name), second.next]).toEqual([['shop', 'stripe'], undefined]);
  });

  describe('finds by what became of an event', () => {
    const ids = async (filter: string) => {
      const { events } = await inspector.events(filter);
      return events
        .map(({ eventId }) => eventId)
        .filter((id) => id.startsWith('find-'))
        .sort();
    };
    beforeAll(async () => {
      await database.query(`
        INSERT INTO webhook_claim (source, tenant, event_id, id, owed, event_type, origin, verified_by, headers)
        SELECT 'awardee', CASE i WHEN 4 THEN 'acme' ELSE '' END, 'find-' || i, ('019${'0'.repeat(5)}-0000-7000-8000-00000000000' || i)::uuid, 1,
               'grant.found', 'delivery', 'abcdef', '{}' FROM generate_series(1, 4) i`);
      await database.query(`
        INSERT INTO webhook_outbox (id, kind, name, state, settled_at, attempt, source, tenant, event_id, reason, error)
        SELECT ('01900000-0000-8000-8000-' || r.i || CASE r.kind WHEN 'effect' THEN 'e' ELSE 'a' END || '0000000000')::uuid,
               r.kind, r.name, r.state, CASE WHEN r.state <> 'parked' THEN now() END, r.attempt, 'awardee',
               CASE r.i WHEN 4 THEN 'acme' ELSE '' END, 'find-' || r.i, r.reason, r.error
          FROM (VALUES (1, 'handler', 'awardee/DeskHandlers.grant', 'done', 1, NULL, NULL),
                       (1, 'effect', 'mail', 'dead', 5, 'permanent-error', 'Mailbox "ann, bob" is full'),
                       (2, 'handler', 'awardee/DeskHandlers.grant', 'dead', 3, 'permanent-error', 'account is closed'),
                       (3, 'handler', 'awardee/DeskHandlers.charge', 'done', 2, NULL, NULL),
                       (3, 'effect', 'charge', 'parked', 1, 'in-doubt', 'socket hang up'),
                       (4, 'handler', 'awardee/DeskHandlers.grant', 'done', 1, NULL, NULL)
               ) AS r(i, kind, name, state, attempt, reason, error)`);
    });
    afterAll(async () => {
      await database.query(`DELETE FROM webhook_outbox WHERE event_id LIKE 'find-%'`);
      await database.query(`DELETE FROM webhook_claim WHERE event_id LIKE 'find-%'`);
    });

    it.each([
      ['state:dead', ['find-1', 'find-2']],
      ['state:dead,parked', ['find-1', 'find-2', 'find-3']],
      ['state:processed,dead type:grant.found', ['find-1', 'find-2', 'find-3', 'find-4']],
      ['-state:dead type:grant.found', ['find-3', 'find-4']],
      ['effect:mail type:grant.found', ['find-1']],
      ['effect:mail,charge type:grant.found', ['find-1', 'find-3']],
      ['handler:awardee/DeskHandlers.c* type:grant.found', ['find-3']],
      ['-handler:awardee/DeskHandlers.grant type:grant.found', ['find-3']],
      ['error:CLOSED type:grant.found', ['find-2']],
      ['effect:mail error:"ann, bob" attempts:>4', ['find-1']],
      ['effect:mail error:closed type:grant.found', []],
      ['attempts:>=2 attempts:<5 type:grant.found', ['find-2', 'find-3']],
      ['id:find-*', ['find-1', 'find-2', 'find-3', 'find-4']],
      ['id:find-* -tenant:acme', ['find-1', 'find-2', 'find-3']],
      ['find-2 state:processed', []],
      ['find-2 state:dead', ['find-2']],
      ['source:awa* type:grant.found tenant:acme', ['find-4']],
    ])('%s', async (filter, expected) => expect(await ids(filter)).toEqual(expected));

    it('in effects, in dead letters and in the audit as well', async () => {
      const effects = await inspector.effects('state:dead,parked source:awardee -effect:charge attempts:5');
      expect(effects.effects.map(({ eventId }) => eventId)).toEqual(['find-1']);
      const { groups } = await inspector.deadGroups('effect:mail error:mailbox');
      expect(groups).toMatchObject([{ name: 'mail', count: 1, sources: ['awardee'] }]);
      expect((await inspector.deadGroups('error:closed source:nowhere')).groups).toEqual([]);
      expect((await inspector.audit('action:revive -by:nobody')).audit.length).toBeGreaterThan(0);
      expect((await inspector.audit('by:nobody')).audit).toEqual([]);
    });

    it('and pages through every list without missing or repeating one', async () => {
      await database.query(`
        INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
        SELECT gen_random_uuid(), 'effect', 'paged-' || chr(97 + i % 26) || chr(97 + i / 26 % 26), 'dead', now(), 'permanent-error', 'paged'
          FROM generate_series(1, 130) i`);
      const all = async <T>(
        page: (after?: string) => Promise<{ items: readonly T[]; next?: string | undefined }>,
      ) => {
        const found: T[] = [];
        let next: string | undefined;
        do {
          const one = await page(next);
          found.push(...one.items);
          next = one.next;
        } while (next !== undefined);
        return found;
      };
      const groups = await all(async (after) => {
        const { groups: items, next } = await inspector.deadGroups('error:paged', after);
        return { items: items.map(({ fingerprint }) => fingerprint), next };
      });
      const effects = await all(async (after) => {
        const { effects: items, next } = await inspector.effects('error:paged', after);
        return { items: items.map(({ id }) => id), next };
      });
      const [one] = groups;
      const rows = await all(async (after) => {
        const { rows: items, next } = await inspector.deadGroup(one!, after, 1);
        return { items: items.map(({ id }) => id), next };
      });
      // More rows of two rare states than one page reads, and few that match.
      await database.query(`
        INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
        SELECT gen_random_uuid(), 'effect', 'many', s, CASE s WHEN 'dead' THEN now() END, 'permanent-error',
               CASE i % 500 WHEN 0 THEN 'wanted' ELSE 'paged' END
          FROM generate_series(1, 7000) i, unnest(ARRAY['dead', 'parked']) s`);
      await database.query(`
        INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
        SELECT gen_random_uuid(), 'effect', 'many', 'dead', now() - interval '1 day', 'permanent-error', 'old' FROM generate_series(1, 4000)`);
      expect(await inspector.deadGroups('error:old')).toMatchObject({ rowsLookedAt: 10_000 });
      await database.query(`DELETE FROM webhook_outbox WHERE error = 'old'`);
      expect((await inspector.deadGroups('error:wanted')).rowsLookedAt).toBeUndefined();
      const found = async (filter: string) =>
        all(async (after) => {
          const { effects: items, next } = await inspector.effects(filter, after);
          return { items: items.map(({ id }) => id), next };
        });
      const wanted = await found('state:dead,parked error:wanted');
      const wantedDead = await found('state:dead error:wanted');
      await database.query(`DELETE FROM webhook_outbox WHERE name = 'many'`);
      await database.query(`DELETE FROM webhook_outbox WHERE error = 'paged'`);
      expect([wanted.length, new Set(wanted).size, wantedDead.length]).toEqual([28, 28, 14]);
      expect([groups.length, new Set(groups).size]).toEqual([130, 130]);
      expect([effects.length, new Set(effects).size]).toEqual([130, 130]);
      expect(rows).toHaveLength(1);
    });
  });

  describe('finds by a value of the payload', () => {
    const ids = async (filter: string) =>
      (await inspector.events(filter)).events.map(({ eventId }) => eventId).sort();
    beforeAll(async () => {
      const long = 'x'.repeat(300);
      const orders = [
        { customer: 'cus_9', order: { number: 9007199254740993n }, tags: ['a', 'b', 'a'] },
        { customer: 'cus_9', order: { number: 12 }, tags: [true, { deep: 1 }, `${long}1`, `${long}2`] },
        { customer: 'cus_1', order: null, tags: 'b\u0000' },
      ];
      const json = (data: unknown) =>
        JSON.stringify({ data }, (_, value: unknown) => (typeof value === 'bigint' ? `#${value}` : value))
          // The digits that JSON.stringify has no way to write.
          .replace(/"#(\d+)"/, '$1');
      for (const [nth, data] of orders.entries())
        expect(await send('shop', awardee(`order-${nth}`, 'order.made', json(data)))).toMatchObject({
          status: 200,
        });
      // Bodies without the path, or that are no JSON.
      for (const [nth, body] of ['{"data":[]}', 'not json'].entries())
        expect(await send('shop', awardee(`other-${nth}`, 'order.made', body))).toMatchObject({
          status: 200,
        });
    });

    it.each([
      ['data.customer:cus_9', ['order-0', 'order-1']],
      ['data.customer:cus_9,cus_1', ['order-0', 'order-1', 'order-2']],
      ['data.customer:cus_9 -data.tags:true', ['order-0']],
      ['data.customer:cus_9 data.order.number:12', ['order-1']],
      ['data.order.number:9007199254740993', ['order-0']],
      ['data.customer:cus_9 source:stripe', []],
      ['data.customer:cus_9 state:dead', []],
      ['data.customer:cus', []],
      ['"data.customer:cus_1" after:1h', ['order-2']],
    ])('%s', async (filter, expected) => expect(await ids(filter)).toEqual(expected));

    it('page by page', async () => {
      const first = await inspector.events('data.customer:cus_9', undefined, 1);
      const second = await inspector.events('data.customer:cus_9', first.next, 1);
      expect([first, second].flatMap(({ events }) => events.map(({ eventId }) => eventId))).toEqual([
        'order-1',
        'order-0',
      ]);
      expect(second.next).toBeUndefined();
    });

    it('and says which paths there are', async () => {
      await expect(inspector.events('data.costumer:cus_9')).rejects.toThrow(
        "no source has 'data.costumer' among its searchPaths (to search for this text write id:\"data.costumer:cus_9\"); did you mean 'data.customer'?",
      );
    });

    it('whole: the start of a value is refused, and not looked for as it stands', async () => {
      await expect(inspector.events('data.customer:cus_1,cus_9*')).rejects.toThrow(
        "data.customer: expected a whole value, such as data.customer:cus_9, received 'cus_1,cus_9*'",
      );
    });

    it('no more once it is erased', async () => {
      await app
        .get(Erasure)
        .erase({ source: 'shop', tenant: '', eventId: 'order-2' }, { by: 'ann', reason: 'asked for' });
      expect(await ids('data.customer:cus_1')).toEqual([]);
      expect(await database.query(`SELECT FROM webhook_payload_value WHERE value = 'cus_1'`)).toEqual([]);
    });
  });

  it('says that nothing is called so, with the nearest name', () => {
    expect(inspector.unknownNames('source:strpe effect:mial handler:stripe/*', 'events')).toEqual([
      `no source is called 'strpe' now; did you mean 'stripe'?`,
      `no effect is called 'mial' now; did you mean 'mail'?`,
    ]);
  });

  it.each([
    ['2026-03-29T01:30', 'Europe/Berlin', '2026-03-29T00:30:00.000Z'],
    ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
    ['2026-08-01', 'America/New_York', '2026-08-01T04:00:00.000Z'],
    ['2026-08-01', 'UTC', '2026-08-01T00:00:00.000Z'],
    ['2026-08-01T09:00:01.5', 'Asia/Kathmandu', '2026-08-01T03:15:01.500Z'],
    ['2026-08-01T09:00+02:00', 'America/New_York', '2026-08-01T07:00:00.000Z'],
    ['2026-08-01T09:00Z', 'America/New_York', '2026-08-01T09:00:00.000Z'],
    ['1970-01-01T00:00:00Z', 'UTC', '1970-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59Z', 'UTC', '9999-12-31T23:59:59.000Z'],
  ])('reads after:%s as of %s', (text, zone, instant) => {
    expect(parseFilter(`after:${text}`, 'events', zone).after?.toISOString()).toBe(instant);
  });
  it.each(['1969-12-31T23:59:59Z', '2026-02-30', '2026-08-01T25:00', '2026-8-1', '1', 'August'])(
    'refuses after:%s',
    (text) => {
      expect(() => parseFilter(`after:${text}`)).toThrow(/after:2026-08-01/);
    },
  );

  it('reads a filter of a thousand characters, and refuses a longer one', () => {
    expect(parseFilter(`error:${'x'.repeat(994)}`).tests).toHaveLength(1);
    expect(() => parseFilter(`error:${'x'.repeat(995)}`)).toThrow(/at most 1000 characters/);
  });

  it.each([
    ['-after:2h', /say before: instead/],
    ['attempts:many', /attempts:>3/],
    ['state:dead,deed', /did you mean 'dead'/],
    ['sorce:stripe', /did you mean 'source'/],
    ['state:deed', /did you mean 'dead'/],
    ['after:yesterday', /after:2h/],
    ['state:', /expected one of/],
    ['error:', /^error: expected text of an error/],
    ['after:', /^after: expected/],
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
