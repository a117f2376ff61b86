// The cost of a long history: node --import @swc-node/register/esm-register bench/history.ts [claims] [bytes of a body] [claims to prune]
//
// It fills empty tables with so many settled events, a handler row each. Then it measures their size, a claim, a duplicate, a look, and a
// prune beside claims that follow each other without a pause. With DATABASE_URL, 0 to prune fills only, and a later run measures.
import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { outboxId, uuidV7 } from '../src/core/ids.js';
import { ClaimStore } from '../src/storage/claim.store.js';
import { RetentionStore } from '../src/storage/desk/retention.store.js';
import { SearchStore } from '../src/storage/desk/search.store.js';
import type { NewClaim } from '../src/storage/new-claim.js';
import { BoundedRead } from '../src/storage/postgres/bounded-read.js';
import { inTransaction } from '../src/storage/postgres/connection.js';
import { eachInTransaction } from '../src/storage/postgres/each-transaction.js';
import { options } from '../test/support/database.js';
import { countCpu } from './support/cpu.js';
import { machine } from './support/report.js';

const [CLAIMS = 1_000_000, BYTES = 200, PRUNED = 100_000] = process.argv.slice(2).map(Number);
const CHUNK = 100_000;
const BATCH = 30;
const PRUNE_BATCH = 500;
const NAME = 'stripe/Billing.paid';
/** The oldest of the filled claims are 40 days old. */
const DAYS = 40;
const LIMITS = { lockTimeoutMs: 5_000, endAfterMs: 60_000 };

const postgres = await startPostgres(['shared_buffers=1GB', 'max_wal_size=4GB', 'wal_compression=off']);
const connect = (): Promise<DataSource> =>
  new DataSource({
    ...options(postgres.url),
    extra: { max: 1, idleTimeoutMillis: 0 },
    migrations: webhookInboxMigrations(),
  }).initialize();
/** One connection each: CPU is counted by the server's process. */
const [claiming, pruning] = [await connect(), await connect()];
await claiming.runMigrations();
const ask = <T>(sql: string, values?: unknown[]) => claiming.query<T[]>(sql, values);
const pidOf = async (dataSource: DataSource) =>
  (await dataSource.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid'))[0].pid;
const [ours, pruner] = [await pidOf(claiming), await pidOf(pruning)];
const cpuOf = (pid: number) => {
  const used = countCpu({ node: [pid], postmaster: 0 });
  return () => used().node * 1e6;
};
const walOf = async () => {
  const [row] = await ask<{ at: string }>(`SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS at`);
  return Number(row!.at);
};

/** As arrival and settling would have left them: ids by time, the provider's ids in no order. It goes on where an earlier run was ended. */
async function fill(): Promise<void> {
  const [state] = await ask<{ done: boolean; n: string }>(
    `SELECT to_regclass('webhook_claim_id') IS NOT NULL AND EXISTS (SELECT FROM webhook_claim) AS done,
            (SELECT count(*) FROM webhook_claim) AS n`,
  );
  if (state!.done) return;
  await dropIndexes();
  for (let at = Number(state!.n); at < CLAIMS; at += CHUNK) {
    await ask(
      `WITH event AS MATERIALIZED (
         SELECT 'evt_' || md5(g::text) AS event_id, now() - interval '1 day' * ${DAYS} * (1 - g / $3::float8) AS at,
                md5('c' || g) AS salt, md5('o' || g) AS tail FROM generate_series($1::int, $2::int) g
       ), known AS MATERIALIZED (
         SELECT event_id, at, lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS ms, salt, tail FROM event
       ), claim AS (
         INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body, received_at)
         SELECT 'stripe', '', event_id, (ms || '7' || left(salt, 3) || '8' || substr(salt, 4, 15))::uuid, 'invoice.paid', 'delivery',
                'secret 1', 1, '{"content-type": "application/json"}', convert_to(left(repeat(salt, 48), $4::int), 'UTF8'), at FROM known)
       INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, created_at, due_at, attempt, begun_at, leased_at, first_leased_at)
       SELECT (ms || '8' || left(salt, 3) || '8' || left(tail, 15))::uuid, 'handler', '${NAME}', 'stripe', '', event_id, 'done', at, at, at, 1, at, at, at FROM known`,
      [at, Math.min(at + CHUNK, CLAIMS) - 1, CLAIMS, BYTES],
    );
  }
  await addIndexes();
  await ask('VACUUM ANALYZE webhook_claim, webhook_outbox');
}

/** Indexes that are made at the end take a third of the time. They are denser than those of a table that has grown. */
async function dropIndexes(): Promise<void> {
  await ask(
    'CREATE TABLE IF NOT EXISTS bench_indexes (own text, name text PRIMARY KEY, text text, key text)',
  );
  await ask(
    `INSERT INTO bench_indexes SELECT i.tablename, i.indexname, i.indexdef, pg_get_constraintdef(c.oid)
       FROM pg_indexes i LEFT JOIN pg_constraint c ON c.conname = i.indexname WHERE i.tablename IN ('webhook_claim', 'webhook_outbox')`,
  );
  for (const { own, name, key } of await indexes())
    await ask(
      key === null ? `DROP INDEX IF EXISTS ${name}` : `ALTER TABLE ${own} DROP CONSTRAINT IF EXISTS ${name}`,
    );
}

const indexes = () =>
  ask<{ own: string; name: string; text: string; key: string | null }>('SELECT * FROM bench_indexes');

async function addIndexes(): Promise<void> {
  await ask(`SET maintenance_work_mem = '1GB'`);
  for (const { own, name, text, key } of await indexes())
    await ask(key === null ? text : `ALTER TABLE ${own} ADD CONSTRAINT ${name} ${key}`);
}

async function tellSizes(): Promise<void> {
  const rows = await ask<{ name: string; kind: string; bytes: string }>(
    `SELECT c.relname AS name, c.relkind AS kind, pg_relation_size(c.oid) + CASE WHEN c.relkind = 'r' AND c.reltoastrelid <> 0
            THEN pg_total_relation_size(c.reltoastrelid) ELSE 0 END AS bytes
       FROM pg_class c WHERE c.relname LIKE 'webhook\\_%' AND c.relkind IN ('r', 'i') AND pg_relation_size(c.oid) > 1000000 ORDER BY 3 DESC`,
  );
  for (const { name, kind, bytes } of rows)
    console.log(
      `  ${kind === 'r' ? 'table' : 'index'} ${name}: ${(Number(bytes) / 1e9).toFixed(2)} GB, ${(Number(bytes) / CLAIMS).toFixed(0)} bytes a claim`,
    );
  const total = rows.reduce((sum, { bytes }) => sum + Number(bytes), 0);
  console.log(`  together ${(total / 1e9).toFixed(2)} GB, ${(total / CLAIMS).toFixed(0)} bytes a claim`);
}

const store = new ClaimStore();
const run = randomBytes(4).toString('hex');
let nth = 0;

function claim(random: boolean): NewClaim {
  const id = uuidV7();
  const eventId = `evt_${random ? randomBytes(16).toString('hex') : `${run}_${String((nth += 1)).padStart(23, '0')}`}`;
  return {
    source: 'stripe',
    tenant: '',
    eventId,
    id,
    type: 'invoice.paid',
    origin: 'delivery',
    verifiedBy: 'secret 1',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(randomBytes(BYTES / 2).toString('hex')),
    rows: [{ id: outboxId(id, NAME), name: NAME }],
  };
}

const send = (claims: readonly NewClaim[]) =>
  eachInTransaction(claiming, LIMITS, (statements) => store.claim(statements, claims));

/** Batches one after the other for some seconds. */
async function claims(
  ms: number,
  size: number,
  random: boolean,
): Promise<{ micros: number; wal: number; rate: number }> {
  const cpu = cpuOf(ours);
  const wal = await walOf();
  const startedAt = performance.now();
  let count = 0;
  while (performance.now() - startedAt < ms) {
    const batch = Array.from({ length: size }, () => claim(random));
    await send(batch.sort((a, b) => (a.eventId < b.eventId ? -1 : 1)));
    count += size;
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  return { micros: cpu() / count, wal: ((await walOf()) - wal) / count, rate: count / seconds };
}

const tell = (what: string, { micros, wal, rate }: Awaited<ReturnType<typeof claims>>) =>
  console.log(
    `${what}: ${micros.toFixed(0)} µs of PostgreSQL's CPU, ${wal.toFixed(0)} bytes of WAL, ${rate.toFixed(0)} a second`,
  );

async function looks(): Promise<void> {
  const search = new SearchStore();
  const keys = await ask<{ event_id: string; id: string }>(
    `SELECT event_id, id FROM webhook_claim TABLESAMPLE SYSTEM (${Math.max(0.001, (100 * 20_000) / CLAIMS)}) LIMIT 20000`,
  );
  const some = keys.sort(() => Math.random() - 0.5).slice(0, 500);
  const each = async (what: string, look: (key: (typeof some)[number]) => Promise<unknown>) => {
    const took: number[] = [];
    for (const key of some) {
      const at = performance.now();
      await look(key);
      took.push(performance.now() - at);
    }
    took.sort((a, b) => a - b);
    console.log(`${what}: p50 ${took[250]!.toFixed(2)} ms, p99 ${took[495]!.toFixed(2)} ms`);
  };
  const repeated = ({ event_id: eventId }: (typeof some)[number]) => send([{ ...claim(true), eventId }]);
  await each('a claim that is a duplicate', repeated);
  const reads = new BoundedRead(claiming);
  await each('an event by our id, with its rows', ({ id }) =>
    reads.run(async (manager) => search.rows(manager, (await search.detail(manager, id))!)),
  );
}

/** As the nightly retention does: batches of 500, with a pause as long as each. */
async function prune(most: number): Promise<{ count: number; micros: number; seconds: number }> {
  const retention = new RetentionStore();
  const cpu = cpuOf(pruner);
  const startedAt = performance.now();
  let [count, cursor]: [number, string | undefined] = [0, undefined];
  for (;;) {
    const from = performance.now();
    const page = await inTransaction(pruning.manager, 5_000, async (manager) => {
      await retention.useIndexes(manager);
      return retention.deleteClaims(manager, 'stripe', (DAYS / 2) * 86_400_000, PRUNE_BATCH, cursor);
    });
    count += page.count;
    cursor = page.last;
    if (page.count === 0 || count >= most) break;
    await pause(performance.now() - from);
  }
  return { count, micros: cpu() / count, seconds: (performance.now() - startedAt) / 1_000 };
}

const began = performance.now();
await fill();
console.log(
  `${new Date().toISOString().slice(0, 16)}Z, ${machine()}, PostgreSQL ${(await ask<{ v: string }>(`SELECT current_setting('server_version') AS v`))[0]!.v}`,
);
console.log(
  `${CLAIMS} claims with bodies of ${BYTES} bytes, a settled handler row each; filled in ${((performance.now() - began) / 1_000).toFixed(0)} s`,
);
await tellSizes();
if (PRUNED > 0) await measure();
await Promise.all([claiming.destroy(), pruning.destroy()]);
await postgres.stop();

async function measure(): Promise<void> {
  await ask('CHECKPOINT');
  await claims(2_000, BATCH, false);
  tell('a claim, one at a time', await claims(5_000, 1, false));
  tell(`a claim, batches of ${BATCH}`, await claims(8_000, BATCH, false));
  tell(`a claim, batches of ${BATCH}, ids in no order`, await claims(8_000, BATCH, true));
  await looks();

  // The cost of a prune: alone, then beside claims.
  const walBefore = await walOf();
  const alone = await prune(PRUNED);
  const wal = ((await walOf()) - walBefore) / alone.count;
  console.log(
    `pruned ${alone.count} alone in ${alone.seconds.toFixed(1)} s: ${alone.micros.toFixed(0)} µs of PostgreSQL's CPU and ${wal.toFixed(0)} bytes of WAL a claim`,
  );
  const before = await claims(10_000, BATCH, false);
  let over = false;
  const beside: Awaited<ReturnType<typeof claims>>[] = [];
  const ingest = (async () => {
    while (!over) beside.push(await claims(2_000, BATCH, false));
  })();
  const pruned = await prune(PRUNED);
  over = true;
  await ingest;
  const after = await claims(10_000, BATCH, false);
  const mean = (of: readonly { rate: number }[]) => of.reduce((sum, { rate }) => sum + rate, 0) / of.length;
  const cpu = (of: readonly { micros: number }[]) =>
    of.reduce((sum, { micros }) => sum + micros, 0) / of.length;
  console.log(
    `pruned ${pruned.count} beside claims in ${pruned.seconds.toFixed(1)} s: ${pruned.micros.toFixed(0)} µs a claim; claims ran at ` +
      `${mean(beside).toFixed(0)} a second and ${cpu(beside).toFixed(0)} µs, without it at ${mean([before, after]).toFixed(0)} and ${cpu([before, after]).toFixed(0)}`,
  );
  const vacuumedAt = performance.now();
  await ask('VACUUM webhook_claim, webhook_outbox, webhook_outbox_data');
  console.log(`vacuum afterwards: ${((performance.now() - vacuumedAt) / 1_000).toFixed(1)} s`);
}
