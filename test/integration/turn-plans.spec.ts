import { ADVANCE_TENANTS, GIVE_TURNS, PASS_TURN } from '../../src/storage/turn.sql.js';
import { TurnStore } from '../../src/storage/turn.store.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

const NAME = 'awardee/handle';
const HOT = 100_000;

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
  await database.query(`ALTER TABLE webhook_outbox SET (autovacuum_enabled = off)`);
  await analyze();
});
afterAll(() => database?.drop());

const GIVE = [[NAME], 500, '', '', [NAME]];
const PASS = [NAME, 'hot'];

describe('what turns cost, in pages read, with the statistics of an empty table and with fresh ones', () => {
  it('0 rows: only the indexes are looked at', async () => {
    expectIndexed(await explain(GIVE_TURNS, GIVE, 'SET LOCAL enable_seqscan = off'));
    expectIndexed(await explain(PASS_TURN, PASS, 'SET LOCAL enable_seqscan = off'));
  });

  it('20 rows: only the indexes are looked at', async () => {
    await addRows(20, 'hot');
    expectIndexed(await explain(GIVE_TURNS, GIVE, 'SET LOCAL enable_seqscan = off'));
    expectIndexed(await explain(PASS_TURN, PASS, 'SET LOCAL enable_seqscan = off'));
  });

  it('100,000 rows of one key cost as much as a few, beside as many of other keys and without keys', async () => {
    await addRows(HOT, 'hot');
    await addRows(2_000, 'turn', false);
    await addRows(20_000, 'dead', false, 'dead');
    await addRows(50_000, null);
    for (const statistics of ['stale', 'fresh']) {
      if (statistics === 'fresh') await analyze();
      for (const setting of ['SELECT 1', 'SET LOCAL plan_cache_mode = force_generic_plan']) {
        for (const [sql, values] of [
          [GIVE_TURNS, GIVE],
          [PASS_TURN, PASS],
        ] as const) {
          const plan = await explain(sql, values, setting);
          expectIndexed(plan);
          expect(plan.pages).toBeLessThan(150);
        }
      }
    }
  }, 60_000);

  it('tenants behind a backlog are found by the index of the lease, whatever the statistics say', async () => {
    for (const setting of ['SELECT 1', 'SET LOCAL plan_cache_mode = force_generic_plan'])
      expectIndexed(await explain(ADVANCE_TENANTS, [NAME], setting), 'webhook_outbox_due');
  });

  it('nor do they grow with 500 keys that are looked at by more than those keys', async () => {
    await database.query(`DELETE FROM webhook_outbox WHERE order_key = 'hot'`);
    await addRows(40_000, 'many');
    for (const statistics of ['stale', 'fresh']) {
      if (statistics === 'fresh') await analyze();
      const plan = await explain(GIVE_TURNS, GIVE);
      expectIndexed(plan);
      expect(plan.pages / 500).toBeLessThan(60);
    }
  });

  it('the turn of a hot key is given, in order', async () => {
    await database.query(`DELETE FROM webhook_outbox WHERE state = 'pending'`);
    await addRows(1_000, 'hot');
    const store = new TurnStore();
    const { manager } = database.dataSource;
    expect(await manager.transaction((own) => store.give(own, [NAME], []))).toMatchObject({ given: 1 });
    expect(await manager.transaction((own) => store.give(own, [NAME], []))).toMatchObject({ given: 0 });
    expect(
      await database.query(`SELECT event_id FROM webhook_outbox WHERE state = 'pending' AND NOT waits`),
    ).toEqual([{ event_id: '1' }]);
  });
});

/** Rows of a handler: of one key ('hot'), or of 4,000 whose names begin with `key`. */
async function addRows(
  count: number,
  key: string | null,
  waits = key !== null,
  state = 'pending',
): Promise<void> {
  await database.query(
    `INSERT INTO webhook_outbox (id, kind, name, order_name, state, order_key, waits, source, tenant, event_id, due_at, settled_at, reason)
     SELECT gen_random_uuid(), 'handler', $1, CASE WHEN $2::text IS NOT NULL THEN $1 END, $4, CASE WHEN $2 = 'hot' THEN $2 ELSE $2 || i % 4000 END, $3, 'awardee', '', i,
            now() - interval '1 hour' + i * interval '1 ms', CASE WHEN $4 = 'dead' THEN now() END,
            CASE WHEN $4 = 'dead' THEN 'permanent-error' END
       FROM generate_series(1, $5) i`,
    [NAME, key, waits, state, count],
  );
}

async function analyze(): Promise<void> {
  await database.query(`ANALYZE webhook_outbox`);
}

interface Plan {
  readonly scans: readonly PlanNode[];
  readonly pages: number;
}
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** The plan as it was carried out; nothing of it stays. */
async function explain(sql: string, values: readonly unknown[], setting = 'SELECT 1'): Promise<Plan> {
  const runner = database.dataSource.createQueryRunner();
  await runner.startTransaction();
  try {
    await runner.query(setting);
    const [row] = (await runner.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`, [...values])) as [
      { 'QUERY PLAN': [{ Plan: PlanNode }] },
    ];
    const root = row['QUERY PLAN'][0].Plan;
    const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];
    return {
      scans: flat(root).filter(
        (node) => node['Index Name'] !== undefined || node['Relation Name'] !== undefined,
      ),
      pages: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
    };
  } finally {
    await runner.rollbackTransaction();
    await runner.release();
  }
}

function expectIndexed({ scans }: Plan, by = 'webhook_outbox_waiting'): void {
  const kinds = scans.map((node) => node['Node Type']);
  expect(kinds).not.toContain('Seq Scan');
  const indexes = new Set(scans.map((node) => node['Index Name']).filter((index) => index !== undefined));
  const allowed = [by, 'webhook_outbox_turn', 'webhook_outbox_blocking', 'webhook_outbox_pkey'];
  expect([...indexes].filter((index) => !allowed.includes(index))).toEqual([]);
  expect([...indexes]).toContain(by);
}
