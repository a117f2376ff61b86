// npm run bench:desk [-- claims]: how long each screen of the desk waits for its answers. Five million claims, the default, take half an
// hour and 15 GB; that run writes docs/dashboard.md. It ends with 1 where a screen takes longer than GOAL_MS.
import 'reflect-metadata';
import { loadavg } from 'node:os';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { WebhooksDashboardModule } from '../src/dashboard/index.js';
import { Inspector, OnEffect, OnWebhook } from '../src/index.js';
import { createApplication, listen } from '../test/support/application.js';
import { writeFigures } from '../scripts/figures.js';
import { options } from '../test/support/database.js';
import { deskSources } from '../test/support/desk.js';
import { machine } from './support/report.js';

const FULL = 5_000_000;
const CLAIMS = Number(process.argv[2] ?? FULL);
const CHUNK = 250_000;
const REPEATS = 20;
const GOAL_MS = 200;
const PAGE = 'docs/dashboard.md';
const SOURCES = Array.from({ length: 500 }, (_, nth) => `source-${String(nth).padStart(3, '0')}`);
/** Every hundredth. */
const DEAD = Math.floor(CLAIMS / 100);

@Injectable()
class Handlers {
  @OnEffect('mail')
  mail() {}

  handle() {}
}
for (const source of SOURCES)
  OnWebhook(source, '*', { name: 'record' })(
    Handlers.prototype,
    'handle',
    Object.getOwnPropertyDescriptor(Handlers.prototype, 'handle')!,
  );

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
await fill();
const [server] = await query<{ size: string; version: string }>(
  `SELECT pg_size_pretty(pg_database_size(current_database())) AS size, current_setting('server_version') AS version`,
);

const app = await createApplication({
  databaseUrl: postgres.url,
  webhooks: {
    sources: Object.fromEntries(
      SOURCES.map((name) => [name, { ...deskSources.awardee, searchPaths: ['data.customer'] }]),
    ),
    reconcile: false,
    retention: false,
    relay: false,
  },
  providers: [Handlers],
  imports: [WebhooksDashboardModule.forRoot({ path: 'desk', allowUnauthenticated: true })],
});
const api = `${await listen(app)}/desk/api/`;
const measured = await measure(await screens());
const slow = measured.filter(({ median }) => median >= GOAL_MS);
console.log(`\n${table()}`);
if (CLAIMS >= FULL) await writeFigures(PAGE, 'desk', [figures()]);
else console.log(`\n${CLAIMS} claims: ${PAGE} is left as it is`);
for (const { screen, median } of slow)
  console.error(`${screen}: ${median.toFixed(0)} ms, expected under ${GOAL_MS} ms`);
await app.close();
await dataSource.destroy();
await postgres.stop();
process.exit(slow.length === 0 ? 0 : 1);

/** Thirty days of claims, evenly, under ids that carry their time; a handler row each, an effect for every fifth. */
async function fill(): Promise<void> {
  // One moment for all statements: an event's rows are found by ids that begin as its claim's does, but for the version.
  const moment = `'${new Date().toISOString()}'::timestamptz - interval '30 days' * (1 - i::float8 / $3)`;
  const id = (salt: string) =>
    `(lpad(to_hex((extract(epoch FROM ${moment}) * 1000)::bigint), 12, '0') || '${salt === 'c' ? 7 : 8}' || substr(md5(i::text), 1, 3) || '8' || substr(md5('${salt}' || i), 4, 15))::uuid`;
  const source = `('source-' || lpad((i % ${SOURCES.length})::text, 3, '0'))`;
  const tenant = `CASE WHEN i % 50 = 0 THEN 'tenant-' || i % 7 ELSE '' END`;
  const state = `CASE WHEN i % 100 = 7 THEN 'dead' WHEN $3 - i < 1000 THEN 'pending' ELSE 'done' END`;
  const series = `generate_series($1::int, $2::int) i`;
  console.log(`filling: ${CLAIMS} claims of 30 days`);
  for (let from = 1; from <= CLAIMS; from += CHUNK) {
    const range = [from, Math.min(from + CHUNK - 1, CLAIMS), CLAIMS];
    await query(
      `INSERT INTO webhook_claim (source, tenant, event_id, id, received_at, owed, event_type, origin, verified_by, body_sha256, headers, body)
       SELECT ${source}, ${tenant}, 'evt_' || i, ${id('c')}, ${moment}, 1,
              CASE WHEN i % 100000 = 5 THEN 'rare.type' ELSE (ARRAY['invoice.paid', 'invoice.failed', 'order.created', 'grant.made'])[1 + i % 4] END,
              'delivery', 'abc123', CASE WHEN i % 3 = 0 THEN sha256(i::text::bytea) END, '{"content-type": "application/json"}',
              convert_to('{"id": "evt_' || i || '", "amount": ' || i || ', "text": "' || repeat('x', 200) || '"}', 'UTF8')
         FROM ${series}`,
      range,
    );
    await query(
      `INSERT INTO webhook_outbox (id, due_at, created_at, settled_at, attempt, kind, state, name, source, tenant, event_id, reason, error)
       SELECT ${id('h')}, ${moment}, ${moment}, CASE WHEN ${state} <> 'pending' THEN ${moment} END, 1, 'handler', ${state}, ${source} || '/record',
              ${source}, ${tenant}, 'evt_' || i, CASE WHEN ${state} = 'dead' THEN 'permanent-error' END,
              CASE WHEN ${state} = 'dead' THEN 'PermanentError: account ' || i || ' is closed: ' || (ARRAY['a', 'b', 'c'])[1 + i % 3] END
         FROM ${series}`,
      range,
    );
    await query(
      `INSERT INTO webhook_outbox (id, parent_id, due_at, created_at, settled_at, attempt, kind, state, name, source, tenant, event_id, reason)
       SELECT ${id('e')}, ${id('h')}, ${moment}, ${moment}, CASE WHEN i % 10000 <> 5 THEN ${moment} END, 1, 'effect',
              CASE WHEN i % 10000 = 5 THEN 'parked' ELSE 'done' END, 'mail', ${source}, ${tenant}, 'evt_' || i,
              CASE WHEN i % 10000 = 5 THEN 'in-doubt' END
         FROM ${series} WHERE i % 5 = 0`,
      range,
    );
    await query(
      `INSERT INTO webhook_payload_value (source, path, value, claim_id)
       SELECT ${source}, 'data.customer', 'cus_' || i / 10000, ${id('c')} FROM ${series}`,
      range,
    );
  }
  const metrics = `unnest(ARRAY['deliveries', 'handled', 'duplicates', 'retried', 'dead', 'rejected:wrong-signature', 'ack:2', 'ack:5', 'ack:20', 'ack:100']) metric`;
  // A day of every source, by ten minutes, and three days of three busy ones and of all together, by the minute.
  for (const [minutes, step, sources] of [
    [1_440, 10, SOURCES],
    [3 * 1_440, 1, ['', ...SOURCES.slice(0, 3)]],
  ] as const)
    await query(
      `INSERT INTO webhook_stat
       SELECT date_trunc('minute', now()) - m * interval '1 minute', s, metric, 1 + m % 50
         FROM generate_series(0, $1::int, $2::int) m, unnest($3::text[]) s, ${metrics} ON CONFLICT DO NOTHING`,
      [minutes, step, sources],
    );
  await query(`
    INSERT INTO webhook_duplicate SELECT source, tenant, event_id, 3, now() FROM webhook_claim ORDER BY id DESC LIMIT 100000`);
  await query(`
    INSERT INTO webhook_audit (at, actor, action, target, reason, outcome)
    SELECT now() - i * interval '1 minute', 'ann', (ARRAY['pause', 'resume'])[1 + i % 2], 'source source-' || lpad((i % 500)::text, 3, '0'), 'deploy',
           '{"changed": true}' FROM generate_series(1, 50000) i`);
  await query(`
    INSERT INTO webhook_rejection (id, at, source, reason, detail, diagnosis, explanation, bytes, content_type, header_names, method)
    SELECT gen_random_uuid(), now() - i * interval '1 minute', 'source-' || lpad((i % 500)::text, 3, '0'), 'wrong-signature', '', '', 'another secret',
           200, 'application/json', ARRAY['content-type'], 'POST' FROM generate_series(1, 10000) i`);
  await query(`
    INSERT INTO webhook_alert (at, kind, subject, facts)
    SELECT now() - i * interval '1 minute', 'dead-letters', 'source-000/record', '{}' FROM generate_series(1, 500) i`);
  console.log('vacuum');
  await query('VACUUM ANALYZE');
}

/** The questions of each screen, as the page asks them: together. */
async function screens(): Promise<Record<string, readonly string[]>> {
  const inspector = app.get(Inspector);
  const [middle] = await query<{ id: string; event_id: string }>(
    `SELECT id, event_id FROM webhook_claim WHERE source = 'source-007' ORDER BY received_at OFFSET $1 LIMIT 1`,
    [Math.floor(CLAIMS / SOURCES.length / 2)],
  );
  const [group] = (await inspector.deadGroups()).groups;
  const found = (list: string, filter: string, after?: string) =>
    `${list}?${new URLSearchParams({ q: filter, ...(after && { after }) }).toString()}`;
  const second = async (filter: string) => {
    const { next } = await inspector.events(filter);
    return found('events', filter, next);
  };
  const filters = [
    'source:source-007',
    'type:invoice.*',
    'type:rare.type',
    'type:no.such source:source-007',
    'state:dead',
    'state:dead source:source-007 type:invoice.*',
    'state:pending',
    'state:parked',
    'state:processed',
    'state:skipped',
    'tenant:tenant-3',
    'after:20d before:19d',
    'data.customer:cus_9',
    `id:${middle!.event_id}`,
    `id:${middle!.id}`,
  ];
  return {
    'overview, hour': ['overview?range=hour', 'alerts'],
    'overview, day': ['overview?range=day', 'alerts'],
    events: ['events'],
    'events, second page': [await second('')],
    'events `state:dead`, second page': [await second('state:dead')],
    ...Object.fromEntries(
      filters.map((filter) => [
        `events \`${filter.replace(/^id:\d.*-.*/, 'id:<ours>')}\``,
        [found('events', filter)],
      ]),
    ),
    'one event': [`events/${middle!.id}`],
    effects: ['effects', 'destinations'],
    'effects `effect:mail state:done`': [found('effects', 'effect:mail state:done'), 'destinations'],
    'effects `state:parked`': [found('effects', 'state:parked'), 'destinations'],
    'dead letters, in groups': ['dead'],
    'dead letters `source:source-007`': [found('dead', 'source:source-007')],
    'dead letters of a group': [`dead/${group!.fingerprint}`],
    rejections: ['rejections'],
    sources: ['sources', 'paused'],
    'sources, by a part of the name': ['sources?q=42', 'paused'],
    relays: ['relays', 'paused'],
    audit: ['audit'],
  };
}

interface Measured {
  readonly screen: string;
  readonly first: number;
  readonly median: number;
  readonly largest: number;
}

/** The menu's counts are part of every screen. */
async function measure(asked: Record<string, readonly string[]>): Promise<Measured[]> {
  const results: Measured[] = [];
  for (const [screen, paths] of Object.entries(asked)) {
    const took: number[] = [];
    for (let nth = 0; nth < REPEATS; nth += 1) {
      const startedAt = performance.now();
      await Promise.all([...paths, 'counts'].map(ask));
      took.push(performance.now() - startedAt);
    }
    const [first] = took;
    took.sort((a, b) => a - b);
    results.push({ screen, first: first!, median: took[REPEATS / 2]!, largest: took.at(-1)! });
    console.log(`${took[REPEATS / 2]!.toFixed(0).padStart(6)} ms  ${screen}`);
  }
  return results;
}

async function ask(path: string): Promise<void> {
  const response = await fetch(api + path);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text.slice(0, 300)}`);
}

function figures(): string {
  const date = new Date().toISOString().slice(0, 10);
  const load = loadavg()[0]!.toFixed(1);
  return [
    `Measured on ${date} by \`npm run bench:desk\` on ${machine()}, PostgreSQL ${server!.version}, under a load of ${load}. ` +
      `The tables held ${CLAIMS.toLocaleString('en')} claims of thirty days (${server!.size}), a handler row each, ` +
      `${(CLAIMS / 5).toLocaleString('en')} effects, ${DEAD.toLocaleString('en')} dead rows, ${SOURCES.length} sources and 50,000 audit rows. ` +
      `A screen's time is from its questions, which are asked together over HTTP, to its last answer, in milliseconds: of ${REPEATS} times.`,
    table(),
  ].join('\n\n');
}

function table(): string {
  const rows = measured.map(({ screen, ...times }) => [
    screen,
    ...[times.median, times.first, times.largest].map((ms) => ms.toFixed(0)),
  ]);
  const all = [['screen', 'median', 'first', 'largest'], ...rows];
  const widths = [0, 1, 2, 3].map((at) => Math.max(...all.map((row) => row[at]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((text, at) => text.padEnd(widths[at]!)).join(' | ')} |`;
  return [
    line(all[0]!),
    `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`,
    ...rows.map(line),
  ].join('\n');
}
