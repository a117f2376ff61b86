import type { INestApplication } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Inspector, Stats } from '../../src/index.js';
import { Admission } from '../../src/inbox/admission.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { RejectionStore } from '../../src/storage/desk/rejection.store.js';
import { StatStore } from '../../src/storage/desk/stat.store.js';
import { BoundedRead } from '../../src/storage/postgres/bounded-read.js';
import { createApplication } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources } from '../support/desk.js';
import { makePast } from '../support/past.js';
import { hear, type Statement } from '../support/statements.js';

const EVENTS = 100_000;
const PENDING = 6_000;
/** Rows of the large tables that one question may touch, whatever they hold: pages of claims are 10,000 at most, counts too. */
const MOST = 25_000;

/** Of EXPLAIN (FORMAT JSON), what is looked at here. */
interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}
const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];
const LARGE = [
  'webhook_attempt',
  'webhook_claim',
  'webhook_outbox',
  'webhook_outbox_data',
  'webhook_payload_value',
];
const { awardee } = deskSources;

describe('what is asked every few seconds or for a page, of 200,000 rows', () => {
  let database: TestDatabase;
  let app: INestApplication;

  beforeAll(async () => {
    database = await createDatabase();
    for (const table of LARGE) await database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
    await makePast(database, { source: 'former', events: 20, days: [0, 60] });
    await database.query('ANALYZE');
    await makePast(database, { source: 'awardee', events: EVENTS, days: [0, 30] });
    // Of the newest: some are owed, of the others a few died, and effects are in doubt.
    await database.query(`
        UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, due_at = now() - interval '2 hours'
         WHERE kind = 'handler' AND right(event_id, -4)::int < ${PENDING}`);
    await database.query(`
        UPDATE webhook_outbox SET waits = true, order_name = 'awardee/Past.run', order_key = right(event_id, 1)
         WHERE state = 'pending' AND right(event_id, -4)::int % 2 = 0`);
    await database.query(`
        UPDATE webhook_outbox SET alone = true WHERE state = 'pending' AND right(event_id, -4)::int % 501 = 1`);
    await database.query(`
        UPDATE webhook_outbox SET state = 'dead', reason = 'permanent-error', error = 'no'
         WHERE kind = 'handler' AND state = 'done' AND right(event_id, -4)::int % 50 = 1`);
    await database.query(`
        UPDATE webhook_outbox SET state = 'parked', settled_at = NULL, reason = 'in-doubt'
         WHERE kind = 'effect' AND right(event_id, -4)::int % 500 = 2`);
    await database.query(`
        UPDATE webhook_outbox SET state = 'handed', settled_at = NULL, begun_at = now() - interval '1 hour', attempt = 2,
                                  due_at = now() + interval '1 hour'
         WHERE kind = 'effect' AND state = 'done' AND right(event_id, -4)::int % 3 = 1`);
    await database.query(`
        INSERT INTO webhook_attempt (outbox_id, attempt, outcome)
        SELECT id, 1, 'unheard' FROM webhook_outbox WHERE state = 'handed'`);
    // A hundred events for each customer, and all events for the one shop.
    await database.query(`
        INSERT INTO webhook_payload_value (source, path, value, claim_id)
        SELECT source, v.path, v.value, id FROM webhook_claim,
               LATERAL (VALUES ('data.customer', 'cus_' || right(event_id, -4)::int / 100), ('data.shop', 'one')) v(path, value)
         WHERE source = 'awardee'`);
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: { ...deskSources, awardee: { ...awardee, searchPaths: ['data.customer', 'data.shop'] } },
        relay: false,
        reconcile: false,
        retention: false,
        maxPending: 5_000,
      },
      providers: [DeskHandlers],
    });
  }, 240_000);
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  const inspector = () => app.get(Inspector);
  const anEvent = async () =>
    (await database.query<{ id: string }>(`SELECT id FROM webhook_claim WHERE event_id = 'evt_77'`))[0]!.id;
  const QUESTIONS: Record<string, () => Promise<unknown>> = {
    'the keeper’s round': () => app.get(DeskKeeper).round(),
    'overview, hour': () => app.get(Stats).overview('hour'),
    'overview, day': () => app.get(Stats).overview('day'),
    ...Object.fromEntries(
      [
        '',
        'source:awardee',
        'type:invoice.*',
        'type:no.such',
        'tenant:nobody',
        'state:pending',
        'state:dead',
        'state:parked',
        'state:processed',
        'state:dead,parked',
        '-state:processed',
        'handler:awardee/DeskHandlers.grant',
        'effect:mail error:closed attempts:>0',
        'id:evt_7*',
        'state:dead error:closed',
        'state:skipped',
        'state:pending source:awardee',
        'after:20d before:19d',
        'id:evt_77',
        'data.customer:cus_7',
        'data.customer:cus_7,cus_8 state:dead',
        'data.shop:one -data.customer:cus_7',
        'data.shop:one state:dead',
      ].map((filter) => [`events ${filter}`, () => inspector().events(filter)]),
    ),
    'event by our id': async () => inspector().events(`id:${await anEvent()}`),
    event: async () => inspector().event(await anEvent()),
    body: async () => inspector().body(await anEvent()),
    payload: async () => inspector().payload(await anEvent()),
    effects: () => inspector().effects(''),
    'effects of a name': () => inspector().effects('effect:mail state:done'),
    'effects pending': () => inspector().effects('state:pending'),
    'effects parked': () => inspector().effects('state:parked'),
    'effects dead': () => inspector().effects('state:dead'),
    'dead letters': () => inspector().deadGroups(),
    'dead letters of a group': async () =>
      inspector().deadGroup((await inspector().deadGroups()).groups[0]!.fingerprint),
    sources: () => inspector().sources(),
    relays: () => inspector().relays(),
  };

  // Those of 20 rows first: that is what a table has after a bulk of events, until it is analyzed.
  describe.each(['stale', 'fresh'] as const)('with %s statistics', (statistics) => {
    beforeAll(async () => {
      if (statistics === 'fresh') await database.query('VACUUM ANALYZE');
    }, 60_000);

    it.each(Object.keys(QUESTIONS))('%s: no whole table, and a bounded part of an index', async (name) => {
      const statements = await asked(QUESTIONS[name]!);
      expect(statements.length).toBeGreaterThan(0);
      for (const statement of statements)
        expectBounded(await app.get(BoundedRead).run((manager) => explain(manager, statement)));
    });

    it('maxPending: no whole table, and no more rows than it counts to', async () => {
      const statements = await asked(() => app.get(Admission).isFull());
      expect(statements).toHaveLength(1);
      const plan = await explain(database.dataSource, statements[0]!);
      expectBounded(plan);
      expect(nodes(plan).map((node) => node['Node Type'])).not.toContain('Incremental Sort');
      expect(await app.get(Admission).isFull()).toBe(true);
    });
  });

  /** What the application asks of the large tables meanwhile. */
  async function asked(ask: () => Promise<unknown>): Promise<Statement[]> {
    const heard = await hear(app.get(DataSource), ask);
    return heard.filter(
      ({ sql }) =>
        /^\s*(SELECT|WITH)\b/.test(sql) &&
        /webhook_(outbox|outbox_data|claim|event|payload_value)\b/.test(sql),
    );
  }
});

describe('what is asked of the desk’s own tables, at the size that they may have', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
    await database.query(`
      INSERT INTO webhook_stat (minute, source, metric, value)
      SELECT now() - interval '73 hours' + minute * interval '1 minute', source::text, 'claimed', 1
        FROM generate_series(1, 73 * 60) minute, generate_series(1, 50) source ORDER BY 1`);
    await database.query(`
      INSERT INTO webhook_rejection (id, at, source, reason, detail, diagnosis, explanation, bytes, content_type, header_names, method, body)
      SELECT gen_random_uuid(), now(), 'awardee', '', repeat('x', 200), '', '', 1, '', '{}', 'POST', CASE WHEN nth % 100 = 0 THEN 'x'::bytea END
        FROM generate_series(1, 5000) nth`);
    await database.query('ANALYZE webhook_stat, webhook_rejection');
  }, 60_000);
  afterAll(() => database?.drop());

  it.each<[string, string, (on: EntityManager) => Promise<unknown>]>([
    ['old counts', 'webhook_stat_minute', (on) => new StatStore().prune(on, 72 * 3_600_000)],
    ['kept requests', 'webhook_rejection_kept', (on) => new RejectionStore().kept(on, 'awardee', 20)],
  ])('%s are found by their index', async (_, index, ask) => {
    await database.dataSource.transaction(async (on) => {
      await ask(on);
      const scans = await on.query<unknown>(`SELECT pg_stat_get_xact_numscans($1::regclass)::int AS scans`, [
        index,
      ]);
      expect(scans).toEqual([{ scans: 1 }]);
    });
  });
});

async function explain(
  on: { query(sql: string, parameters: unknown[]): Promise<unknown> },
  { sql, parameters }: Statement,
): Promise<Plan> {
  const rows = await on.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, parameters);
  return (rows as [{ 'QUERY PLAN': [{ Plan: Plan }] }])[0]['QUERY PLAN'][0].Plan;
}

function expectBounded(plan: Plan): void {
  const scans = nodes(plan).filter((node) => LARGE.includes(node['Relation Name'] ?? ''));
  expect(scans.length).toBeGreaterThan(0);
  expect(
    scans.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name']),
  ).toEqual([]);
  const touched = scans.map(
    (node) => (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
  );
  expect(Math.max(...touched)).toBeLessThan(MOST);
}
