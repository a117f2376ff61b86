import { DataSource } from 'typeorm';
import {
  DELETE_CLAIMS,
  DELETE_EFFECTS,
  DELETE_WATERMARKS,
  EMPTY_BODIES,
  LOCK_OLD_BODIES,
  EMPTY_EFFECTS,
  LOCK_OLD_CLAIMS,
} from '../../src/storage/desk/retention.sql.js';
import { RetentionStore } from '../../src/storage/desk/retention.store.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { makePast } from '../support/past.js';

const DAY_MS = 86_400_000;
const FIRST = '00000000-0000-0000-0000-000000000000';
const LIMIT = 100;

/** Of EXPLAIN (FORMAT JSON), what is looked at here. */
interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly Plan[];
}

const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];

describe.each([
  ['0 rows', 0, 'fresh'],
  ['20 rows', 20, 'fresh'],
  ['300,000 rows', 300_000, 'fresh'],
  ['300,000 rows and the statistics of 20', 300_000, 'stale'],
] as const)('prune statements at %s', (_what, events, statistics) => {
  let database: TestDatabase;
  let connection: DataSource;

  beforeAll(async () => {
    database = await createDatabase();
    for (const table of ['webhook_claim', 'webhook_outbox', 'webhook_outbox_data'])
      await database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
    if (statistics === 'stale') {
      await makePast(database, { source: 'former', events: 20, days: [0, 60] });
      await database.query('ANALYZE');
    }
    // Half of them are due; 'other' has as many of its own that stay.
    await makePast(database, { source: 'awardee', events: events / 2, days: [0, 60] });
    await makePast(database, { source: 'other', events: events / 2, days: [0, 60] });
    await database.query(`
      INSERT INTO webhook_outbox (id, kind, name, state, settled_at)
      SELECT gen_random_uuid(), 'effect', 'loose', 'done', now() - interval '60 days' * (g - 0.5) / ${Math.max(events / 10, 1)}::float
        FROM generate_series(1, ${events / 10}) g`);
    await database.query(`
      INSERT INTO webhook_watermark (handler, source, tenant, key_sha256, at)
      SELECT 'awardee/h', 'awardee', '', sha256(g::text::bytea), now() - interval '1 day' * (g % 40)
        FROM generate_series(1, ${events}) g`);
    if (statistics === 'fresh') await database.query('ANALYZE');
    connection = await new DataSource({ ...options(database.url), extra: { max: 1 } }).initialize();
  }, 240_000);
  afterAll(async () => {
    await connection?.destroy();
    await database?.drop();
  });

  /** Runs it as the store does, then undoes it. */
  const explain = (sql: string, parameters: unknown[]): Promise<Plan> =>
    connection.transaction(async (manager) => {
      await new RetentionStore().useIndexes(manager);
      const [row]: { 'QUERY PLAN': [{ Plan: Plan }] }[] = await manager.query(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`,
        parameters,
      );
      await manager.query('ROLLBACK');
      await manager.query('BEGIN');
      return row!['QUERY PLAN'][0].Plan;
    });
  const oldKeys = async () => {
    const keys = await database.query<{ source: string; tenant: string; event_id: string; id: string }>(
      `SELECT source, tenant, event_id, id FROM webhook_claim WHERE source = 'awardee' ORDER BY received_at LIMIT ${LIMIT}`,
    );
    const column = (of: 'source' | 'tenant' | 'event_id' | 'id') => keys.map((key) => key[of]);
    return [column('source'), column('tenant'), column('event_id'), 30 * DAY_MS, column('id')];
  };

  const STATEMENTS: readonly [
    string,
    string,
    () => Promise<unknown[]> | unknown[],
    string | undefined,
    number,
  ][] = [
    [
      'LOCK_OLD_CLAIMS',
      LOCK_OLD_CLAIMS,
      () => ['awardee', 30 * DAY_MS, LIMIT, '-infinity'],
      'webhook_claim_received_at',
      20,
    ],
    ['DELETE_CLAIMS', DELETE_CLAIMS, oldKeys, 'webhook_claim_pkey', 60],
    [
      'LOCK_OLD_BODIES',
      LOCK_OLD_BODIES,
      () => ['awardee', 30 * DAY_MS, LIMIT, '-infinity'],
      'webhook_claim_received_at',
      20,
    ],
    ['EMPTY_BODIES', EMPTY_BODIES, oldKeys, 'webhook_claim_pkey', 60],
    [
      'EMPTY_EFFECTS',
      EMPTY_EFFECTS,
      () => ['awardee', 30 * DAY_MS, LIMIT, FIRST],
      'webhook_outbox_data_payload',
      40,
    ],
    [
      'DELETE_WATERMARKS',
      DELETE_WATERMARKS,
      () => [['awardee'], [30 * DAY_MS], LIMIT, '', '', '', Buffer.of(), 60 * DAY_MS, ['awardee']],
      'webhook_watermark_pkey',
      40,
    ],
    ['DELETE_EFFECTS', DELETE_EFFECTS, () => [30 * DAY_MS, LIMIT], 'webhook_outbox_settled', 40],
  ];
  it.each(STATEMENTS)(
    '%s reads by index and no more than its limit',
    async (_name, sql, parameters, index, pages) => {
      const plan = await explain(sql, await parameters());
      const all = nodes(plan);
      expect(
        all.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name']),
      ).toEqual([]);
      const blocks = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
      // No part of a batch is compared with each row of another part, which is quadratic.
      const compared = all.map((node) => node['Rows Removed by Join Filter'] ?? 0);
      expect(Math.max(...compared)).toBeLessThanOrEqual(2 * LIMIT);
      // For each of the 100 at most so many pages, whatever the tables hold.
      expect(blocks).toBeLessThan(LIMIT * pages);
      if (events < 1_000) return;
      expect(all.map((node) => node['Index Name'])).toContain(index);
    },
  );

  it('the limit is exact, and what was found is what was due', async () => {
    await connection.transaction(async (manager) => {
      const store = new RetentionStore();
      await store.useIndexes(manager);
      const due = Math.min(LIMIT, Math.floor(events / 4));
      expect(await store.emptyBodies(manager, 'awardee', 30 * DAY_MS, LIMIT)).toEqual({
        count: due,
        looked: due,
        last: expect.any(String),
      });
      expect(await store.deleteClaims(manager, 'awardee', 30 * DAY_MS, LIMIT)).toEqual({
        count: due,
        looked: due,
        last: expect.any(String),
      });
      expect(await store.deleteEffects(manager, 30 * DAY_MS, LIMIT)).toBe(Math.min(LIMIT, events / 20));
      const { looked, count } = await store.emptyEffects(manager, 'other', 30 * DAY_MS, LIMIT);
      // A page of payloads is of all sources.
      if (events > 1_000) expect(looked).toBe(LIMIT);
      else expect(looked).toBeLessThanOrEqual(events);
      expect(count).toBeLessThanOrEqual(looked);
    });
  });
});
