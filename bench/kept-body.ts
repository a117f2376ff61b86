// What the partial index webhook_claim_kept_body costs those who receive: node --import @swc-node/register/esm-register bench/kept-body.ts
import 'reflect-metadata';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { options } from '../test/support/database.js';
import { makePast } from '../test/support/past.js';

const ROUNDS = 7;
const EVENTS = 20_000;
/** As the migration makes it. */
const INDEX = `CREATE INDEX IF NOT EXISTS webhook_claim_kept_body ON webhook_claim (source, received_at) WHERE body IS NOT NULL`;

const postgres = await startPostgres(['shared_buffers=256MB', 'max_wal_size=4GB', 'full_page_writes=off']);
const dataSource = await new DataSource({
  ...options(postgres.url),
  migrations: webhookInboxMigrations(),
}).initialize();
await dataSource.runMigrations();
await makePast(dataSource, { source: 'former', events: 200_000, days: [0, 30] });
await dataSource.query('VACUUM ANALYZE');

/** Inserts claims with bodies of 1 kB in batches of 100, and says what that took, in ms and bytes of WAL for one claim. */
async function insert(round: string): Promise<{ ms: number; wal: number }> {
  await dataSource.query('CHECKPOINT');
  const [{ lsn }] = await dataSource.query<[{ lsn: string }]>('SELECT pg_current_wal_insert_lsn() AS lsn');
  const startedAt = performance.now();
  for (let at = 0; at < EVENTS; at += 100) {
    await dataSource.query(
      `INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body)
       SELECT 'awardee', '', $1 || g, gen_random_uuid(), 'invoice.paid', 'delivery', 'secret 1', 1, '{"a":"b"}',
              convert_to(repeat(md5(g::text), 32), 'UTF8') FROM generate_series($2::int, $2::int + 99) g`,
      [round, at],
    );
  }
  const ms = performance.now() - startedAt;
  const [{ bytes }] = await dataSource.query<[{ bytes: string }]>(
    `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1) AS bytes`,
    [lsn],
  );
  await dataSource.query(`DELETE FROM webhook_claim WHERE source = 'awardee'`);
  await dataSource.query('VACUUM webhook_claim');
  return { ms: ms / EVENTS, wal: Number(bytes) / EVENTS };
}

const median = (list: number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]!;
const took = { with: [] as { ms: number; wal: number }[], without: [] as { ms: number; wal: number }[] };
for (let round = 0; round < ROUNDS; round += 1) {
  for (const which of ['with', 'without'] as const) {
    await dataSource.query(which === 'with' ? INDEX : 'DROP INDEX webhook_claim_kept_body');
    took[which].push(await insert(`${which}-${round}-`));
  }
}
for (const which of ['with', 'without'] as const) {
  const [ms, wal] = [took[which].map((one) => one.ms), took[which].map((one) => one.wal)].map(median);
  console.log(
    `${which} the index: ${(ms! * 1_000).toFixed(1)} µs and ${Math.round(wal!)} bytes of WAL for a claim`,
  );
}
await dataSource.query(INDEX);
const sizes = await dataSource.query(
  `SELECT indexrelname AS index, pg_size_pretty(pg_relation_size(indexrelid)) AS size FROM pg_stat_user_indexes WHERE relname = 'webhook_claim'`,
);
console.table(sizes);
/** Without it a night that empties bodies walks over the claims that it has emptied before. */
await dataSource.query(`UPDATE webhook_claim SET body = NULL WHERE received_at < now() - interval '7 days'`);
await dataSource.query('VACUUM ANALYZE webhook_claim');
for (const which of ['with', 'without'] as const) {
  if (which === 'without') await dataSource.query('DROP INDEX webhook_claim_kept_body');
  const [{ 'QUERY PLAN': plan }] = await dataSource.query<
    [{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }]
  >(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
    SELECT event_id FROM webhook_claim WHERE source = 'former' AND received_at < now() - interval '7 days' AND body IS NOT NULL
     ORDER BY received_at LIMIT 500`);
  const { Plan } = plan[0];
  const pages = Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']!;
  console.log(`a look for old bodies ${which} it: ${pages} pages, ${Plan['Actual Total Time']} ms`);
}
await dataSource.destroy();
await postgres.stop();
