// What an event's whole life writes: node --import @swc-node/register/esm-register bench/life.ts [lives]
import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { outboxId, uuidV7 } from '../src/core/ids.js';
import { ClaimStore } from '../src/storage/claim.store.js';
import { EffectStore } from '../src/storage/effect.store.js';
import { OutboxStore } from '../src/storage/outbox.store.js';
import { eachInTransaction } from '../src/storage/postgres/each-transaction.js';
import { SettleStore } from '../src/storage/settle.store.js';
import { options } from '../test/support/database.js';
import { countCpu } from './support/cpu.js';

const LIVES = Number(process.argv[2] ?? 2_000);
const ROUNDS = 3;
const BODY = Buffer.alloc(1_500, '{"amount":1900}');
const PAYLOAD = Buffer.from('{"invoiceId":"in_1"}');

const claims = new ClaimStore();
const effects = new EffectStore();
const outbox = new OutboxStore();
const settles = new SettleStore();

const postgres = await startPostgres(['shared_buffers=256MB', 'max_wal_size=4GB', 'autovacuum=off']);
// One connection: its process is the only one that works.
const dataSource = await new DataSource({
  ...options(postgres.url, 1),
  migrations: webhookInboxMigrations(),
}).initialize();
await dataSource.runMigrations();
await dataSource.query('CREATE EXTENSION pg_walinspect');
const { manager } = dataSource;
const owner = randomUUID();

/** One event with one handler and one effect: claimed, leased, enqueued, settled, leased, settled; each statement commits by itself. */
async function live(nth: number): Promise<void> {
  const key = { source: 'stripe', tenant: '', eventId: `evt_${owner.slice(0, 8)}_${nth}` };
  const id = uuidV7();
  const row = { id: outboxId(id, 'stripe/Billing.paid'), name: 'stripe/Billing.paid' };
  const claim = {
    ...key,
    id,
    type: 'invoice.paid',
    origin: 'delivery' as const,
    verifiedBy: 'secret 1',
    headers: { 'content-type': 'application/json' },
    body: BODY,
    rows: [row],
  };
  await eachInTransaction(dataSource, { lockTimeoutMs: 5_000, endAfterMs: 10_000 }, (statements) =>
    claims.claim(statements, [claim]),
  );
  const name = (of: string) => [{ name: of, maxAttempts: 20, limit: 1 }];
  const handler = await outbox.lease(manager, owner, 30_000, name(row.name), 1);
  const sent = {
    id: outboxId(row.id, 'send-receipt'),
    name: 'send-receipt',
    firstName: 'send-receipt',
    key: '',
  };
  await effects.enqueue(manager, [{ ...sent, parentId: row.id, event: key, payload: PAYLOAD }]);
  await settles.settle(manager, handler.leased[0]!, 'invoice marked paid');
  const effect = await outbox.lease(manager, owner, 30_000, name('send-receipt'), 1);
  await settles.settleMany(manager, [{ lease: effect.leased[0]!, result: '"re_1"' }]);
}

const lsn = async () =>
  (await dataSource.query<[{ at: string }]>('SELECT pg_current_wal_insert_lsn()::text AS at'))[0].at;
const [{ pid }] = await dataSource.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid');

await dataSource.query('ANALYZE');
let nth = 0;
for (let warm = 0; warm < 300; warm += 1) await live((nth += 1));
for (let round = 0; round < ROUNDS; round += 1) {
  await dataSource.query('CHECKPOINT');
  const from = await lsn();
  const used = countCpu({ node: [pid], postmaster: 0 });
  for (let life = 0; life < LIVES; life += 1) await live((nth += 1));
  const micros = (used().node * 1e6) / LIVES;
  const [row] = await dataSource.query<[{ entries: number; hot: number; records: number; images: number }]>(
    `SELECT (sum(count) FILTER (WHERE "resource_manager/record_type" ~ '^Btree/INSERT_(LEAF|POST)'))::float8 AS entries,
            (sum(count) FILTER (WHERE "resource_manager/record_type" ~ '^Heap/HOT_UPDATE'))::float8 AS hot,
            sum(record_size)::float8 AS records, sum(fpi_size)::float8 AS images
       FROM pg_get_wal_stats($1, pg_current_wal_flush_lsn(), true)`,
    [from],
  );
  const each = (sum: number) => (sum / LIVES).toFixed(1);
  console.log(
    `${each(row.entries)} index entries, ${each(row.hot)} updates without one; WAL ${each(row.records - LIVES * BODY.length)} bytes ` +
      `without the body, and ${each(row.images)} of page images; ${micros.toFixed(0)} µs of PostgreSQL's CPU`,
  );
}
await dataSource.destroy();
await postgres.stop();
