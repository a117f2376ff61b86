// What the dashboard's questions cost among many claims, and what its counting costs those who receive:
// node --import @swc-node/register/esm-register bench/desk.ts [claims]
import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { Tally } from '../src/core/telemetry/tally.js';
import { Inbox, Inspector, OnEffect, OnWebhook, Stats, hmac } from '../src/index.js';
import { createApplication } from '../test/support/application.js';
import { options } from '../test/support/database.js';
import { AWARDEE_SECRET, awardee } from '../test/support/signing.js';

const CLAIMS = Number(process.argv[2] ?? 5_000_000);
const CHUNK = 250_000;
const REPEATS = 20;
const SOURCES = ['awardee', 'billing', 'shop'];

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*', { name: 'record' })
  handle() {}

  @OnEffect('mail')
  mail() {}
}

const postgres = await startPostgres([
  'shared_buffers=1GB',
  'max_wal_size=8GB',
  'fsync=off',
  'synchronous_commit=off',
]);
process.on('uncaughtException', (error) => {
  console.error(error);
  // Gigabytes would stay behind, and a server with them.
  void postgres.stop().finally(() => process.exit(1));
});
const dataSource = await new DataSource({
  ...options(postgres.url),
  migrations: webhookInboxMigrations(),
}).initialize();
await dataSource.runMigrations();
const query = <T>(sql: string, parameters?: unknown[]) => dataSource.query<T[]>(sql, parameters);

// Thirty days of claims, evenly, under ids that carry their time; a handler row each, an effect for every fifth.
// One moment for all statements: an event's rows are found by ids that begin as its claim's does, but for the version.
const MOMENT = `'${new Date().toISOString()}'::timestamptz - interval '30 days' * (1 - i::float8 / $3)`;
const ID = (salt: string) =>
  `(lpad(to_hex((extract(epoch FROM ${MOMENT}) * 1000)::bigint), 12, '0') || '${salt === 'c' ? 7 : 8}' || substr(md5(i::text), 1, 3) || '8' || substr(md5('${salt}' || i), 4, 15))::uuid`;
const SOURCE = `(ARRAY['${SOURCES.join("','")}'])[1 + i % 3]`;
const STATE = `CASE WHEN i % 2500 = 7 THEN 'dead' WHEN $3 - i < 1000 THEN 'pending' ELSE 'done' END`;
console.log(`filling: ${CLAIMS} claims of 30 days`);
for (let from = 1; from <= CLAIMS; from += CHUNK) {
  const range = [from, Math.min(from + CHUNK - 1, CLAIMS), CLAIMS];
  await query(
    `INSERT INTO webhook_claim (source, tenant, event_id, id, received_at, owed, event_type, origin, verified_by, body_sha256, headers, body)
     SELECT ${SOURCE}, CASE WHEN i % 50 = 0 THEN 'tenant-' || i % 7 ELSE '' END, 'evt_' || i, ${ID('c')}, ${MOMENT}, 1,
            CASE WHEN i % 100000 = 5 THEN 'rare.type' ELSE (ARRAY['invoice.paid', 'invoice.failed', 'order.created', 'grant.made'])[1 + i % 4] END,
            'delivery', 'abc123', CASE WHEN i % 3 = 0 THEN sha256(i::text::bytea) END, '{"content-type": "application/json"}',
            convert_to('{"id": "evt_' || i || '", "amount": ' || i || ', "text": "' || repeat('x', 200) || '"}', 'UTF8')
       FROM generate_series($1::int, $2::int) i`,
    range,
  );
  await query(
    `INSERT INTO webhook_outbox (id, due_at, created_at, settled_at, attempt, kind, state, name, source, tenant, event_id, reason, error)
     SELECT ${ID('h')}, ${MOMENT}, ${MOMENT}, CASE WHEN ${STATE} <> 'pending' THEN ${MOMENT} END, 1, 'handler', ${STATE}, ${SOURCE} || '/record',
            ${SOURCE}, CASE WHEN i % 50 = 0 THEN 'tenant-' || i % 7 ELSE '' END, 'evt_' || i,
            CASE WHEN ${STATE} = 'dead' THEN 'permanent-error' END,
            CASE WHEN ${STATE} = 'dead' THEN 'PermanentError: account ' || i || ' is closed: ' || (ARRAY['a', 'b', 'c'])[1 + i % 3] END
       FROM generate_series($1::int, $2::int) i`,
    range,
  );
  await query(
    `INSERT INTO webhook_outbox (id, parent_id, due_at, created_at, settled_at, attempt, kind, state, name, source, tenant, event_id, reason)
     SELECT ${ID('e')}, ${ID('h')}, ${MOMENT}, ${MOMENT}, CASE WHEN i % 10000 <> 5 THEN ${MOMENT} END, 1, 'effect',
            CASE WHEN i % 10000 = 5 THEN 'parked' ELSE 'done' END, 'mail', ${SOURCE},
            CASE WHEN i % 50 = 0 THEN 'tenant-' || i % 7 ELSE '' END, 'evt_' || i, CASE WHEN i % 10000 = 5 THEN 'in-doubt' END
       FROM generate_series($1::int, $2::int) i WHERE i % 5 = 0`,
    range,
  );
}
await query(
  `
  INSERT INTO webhook_stat
  SELECT date_trunc('minute', now()) - m * interval '1 minute', s, metric, 1 + m % 50
    FROM generate_series(0, 3 * 1440) m, unnest($1::text[]) s,
         unnest(ARRAY['deliveries', 'handled', 'duplicates', 'retried', 'dead', 'rejected:wrong-signature', 'ack:2', 'ack:5', 'ack:20', 'ack:100']) metric`,
  [SOURCES],
);
await query(`
  INSERT INTO webhook_duplicate SELECT source, tenant, event_id, 3, now() FROM webhook_claim ORDER BY id DESC LIMIT 100000`);
console.log('vacuum');
await query('VACUUM ANALYZE');
const [size] = await query<{ size: string }>(
  `SELECT pg_size_pretty(pg_database_size(current_database())) AS size`,
);

const signed = hmac({
  secrets: [AWARDEE_SECRET],
  signatureHeader: 'X-Awardee-Signature',
  idHeader: 'X-Awardee-Delivery',
  typeHeader: 'X-Awardee-Event',
});
const app = await createApplication({
  databaseUrl: postgres.url,
  webhooks: {
    sources: { awardee: signed, billing: signed, shop: signed },
    reconcile: false,
    retention: false,
    relay: false,
  },
  providers: [Handlers],
});
const inspector = app.get(Inspector);
const stats = app.get(Stats);
const [middle] = await query<{ id: string; event_id: string }>(
  `SELECT id, event_id FROM webhook_claim WHERE source = 'awardee' ORDER BY received_at OFFSET $1 LIMIT 1`,
  [Math.floor(CLAIMS / 10)],
);
const [group] = (await inspector.deadGroups()).groups;

async function page(filter: string): Promise<void> {
  await inspector.events(filter);
}
async function secondPage(filter: string): Promise<void> {
  const { next } = await inspector.events(filter);
  const startedAt = performance.now();
  await inspector.events(filter, next);
  inner = performance.now() - startedAt;
}
/** Time of the part that is asked about, where a question needs another first. */
let inner: number | undefined;

const questions: Record<string, () => Promise<unknown>> = {
  'overview, hour': () => stats.overview('hour'),
  'overview, day': () => stats.overview('day'),
  events: () => page(''),
  'events, second page': () => secondPage(''),
  'events source:awardee': () => page('source:awardee'),
  'events source:awardee, second page': () => secondPage('source:awardee'),
  'events type:invoice.*': () => page('type:invoice.*'),
  'events type:rare.type (walks as far as it may)': () => page('type:rare.type'),
  'events type:no.such source:shop': () => page('type:no.such source:shop'),
  'events state:dead': () => page('state:dead'),
  'events state:dead, second page': () => secondPage('state:dead'),
  'events state:dead source:shop type:invoice.*': () => page('state:dead source:shop type:invoice.*'),
  'events state:pending': () => page('state:pending'),
  'events state:parked': () => page('state:parked'),
  'events state:processed': () => page('state:processed'),
  'events state:skipped (none: walks as far as it may)': () => page('state:skipped'),
  'events tenant:tenant-3': () => page('tenant:tenant-3'),
  'events after:20d before:19d': () => page('after:20d before:19d'),
  'events id: the provider’s': () => page(`id:${middle!.event_id}`),
  'events id: ours': () => page(`id:${middle!.id}`),
  event: () => inspector.event(middle!.id),
  body: () => inspector.body(middle!.id),
  effects: () => inspector.effects(''),
  'effects name and state': () => inspector.effects('effect:mail state:done'),
  'effects state:dead (none)': () => inspector.effects('state:dead'),
  'effects state:parked': () => inspector.effects('state:parked'),
  'dead letters, grouped': () => inspector.deadGroups(),
  'dead letters of a group': () => inspector.deadGroup(group!.fingerprint),
  rejections: () => inspector.rejections(),
  sources: () => inspector.sources(),
  relays: () => inspector.relays(),
  alerts: () => inspector.alerts(),
  audit: () => inspector.audit(),
};

console.log(`\n${CLAIMS} claims, ${size!.size}; milliseconds: first, median of ${REPEATS}, largest`);
for (const [name, ask] of Object.entries(questions)) {
  const took: number[] = [];
  for (let i = 0; i < REPEATS; i += 1) {
    inner = undefined;
    const startedAt = performance.now();
    await ask();
    took.push(inner ?? performance.now() - startedAt);
  }
  const [first] = took;
  took.sort((a, b) => a - b);
  const figures = [first!, took[REPEATS / 2]!, took.at(-1)!].map((ms) => ms.toFixed(1).padStart(8)).join('');
  console.log(`${figures}  ${name}`);
}

// Receiving with the counting and without it, in turns, so that what else the machine does falls on both.
const inbox = app.get(Inbox);
const tally = app.get(Tally);
const counting = {
  received: tally.received.bind(tally),
  answered: tally.answered.bind(tally),
  duplicate: tally.duplicate.bind(tally),
};
let next = 0;
async function receive(ms: number): Promise<number> {
  const end = performance.now() + ms;
  let count = 0;
  const worker = async () => {
    while (performance.now() < end) {
      next += 1;
      const { headers, body } = awardee(`new-${next}`, 'grant.made', { some: 'payload' });
      await inbox.receive('awardee', { headers, rawBody: body });
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  return count / (ms / 1_000);
}
const rates: { with: number[]; without: number[] } = { with: [], without: [] };
await receive(3_000);
for (let turn = 0; turn < 12; turn += 1) {
  const off = turn % 2 === 0;
  Object.assign(
    tally,
    off
      ? {
          received: () => undefined,
          answered: () => undefined,
          duplicate: () => undefined,
        }
      : counting,
  );
  (off ? rates.without : rates.with).push(await receive(4_000));
}
Object.assign(tally, counting);
const median = (of: number[]) => of.toSorted((a, b) => a - b)[Math.floor(of.length / 2)]!;
console.log(
  `\nreceived a second, medians of six turns: ${median(rates.with).toFixed(0)} with the counting, ${median(rates.without).toFixed(0)} without`,
);
const ROUNDS = 1_000_000;
const startedAt = performance.now();
for (let i = 0; i < ROUNDS; i += 1) {
  tally.received('awardee', 'abc123');
  tally.answered('awardee', 'ok', performance.now() - startedAt);
}
console.log(`counting a delivery: ${(((performance.now() - startedAt) / ROUNDS) * 1_000).toFixed(2)} µs`);
tally.drain();

await app.close();
await dataSource.destroy();
await postgres.stop();
