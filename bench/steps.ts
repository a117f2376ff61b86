// node --import @swc-node/register/esm-register bench/steps.ts: the steps of one acknowledgement and of one handler, ours and others'. Counts
// do not depend on the load of the machine. Writes docs/performance.md.
import { Client } from 'pg';
import { writeFigures } from '../scripts/figures.js';
import type { AsyncSteps } from './support/async-steps.js';
import { machine } from './support/report.js';
import { start, type Program } from './support/program.js';
import { startServer } from './support/server.js';

const COUNT = 2_000;
const CONNECTIONS = 64;
const PAGE = 'docs/performance.md';
/** Statements of PostgreSQL's statistics, ours and the peers': those that lease jobs, that end them, and that make them for this measurement. */
const LEASES = 'due AS MATERIALIZED|UPDATE owed_event SET attempt|with j_raw as';
const ENDS = 'settled AS|UPDATE owed_event SET processed_at|delete from .*_private_jobs';
const FILLS =
  'generate_series|INSERT INTO webhook_outbox \\(id, kind, name, source|add_jobs|pg_stat_statements';

interface Contender {
  readonly name: string;
  readonly file: string;
  readonly settings: object;
  /** Does the work for so many; again at each call. */
  readonly work: (program: Program, nth: number) => Promise<unknown>;
}

const server = await startServer(['shared_preload_libraries=pg_stat_statements']);
const load = await start('programs/load.ts', {});

const receive = (program: Program, nth: number) => {
  const sent = { path: '/webhooks/bench', scheme: 'hmac', connections: CONNECTIONS, requests: COUNT };
  return load.run({ ports: [program.ready.port], prefix: `steps-${nth}-`, ...sent });
};
const drain = (work: string) => (program: Program) => program.run({ work, jobs: COUNT });
const receiver = (adapter: string) => ({ file: 'programs/receiver.ts', settings: { kind: 'ours', adapter } });

const CONTENDERS: readonly Contender[] = [
  { name: 'acknowledgement, ours, Express', ...receiver('express'), work: receive },
  { name: 'acknowledgement, ours, Fastify', ...receiver('fastify'), work: receive },
  { name: 'acknowledgement, written by hand', file: 'peers/by-hand.ts', settings: {}, work: receive },
  { name: 'handler, ours', file: 'programs/worker.ts', settings: {}, work: drain('handlers') },
  { name: 'handler, graphile-worker', file: 'peers/graphile.ts', settings: {}, work: drain('handlers') },
  {
    name: 'handler, two messages behind a lease',
    file: 'programs/worker.ts',
    settings: { relay: false },
    work: drain('leased'),
  },
];

const rows: string[][] = [];
for (const [nth, { name, file, settings, work }] of CONTENDERS.entries()) {
  const databaseUrl = await server.database(`steps_${nth}`);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('CREATE EXTENSION pg_stat_statements');
  const program = await start(file, { databaseUrl, ...settings });
  await work(program, 1);
  const counted = await program.countSteps();
  await client.query('SELECT pg_stat_statements_reset()');
  await work(program, 2);
  const steps = await counted();
  const statements = await statementsOf(client);
  rows.push([name, ...perOne(steps, statements)]);
  console.log(rows.at(-1)!.join('  '));
  await program.stop();
  await client.end();
}
await load.stop();
await server.stop();
await writeFigures(PAGE, 'steps', [table()]);

interface Statements {
  readonly count: number;
  readonly micros: number;
  readonly lease: number;
  readonly write: number;
  readonly end: number;
  readonly wal: number;
}

/** All that PostgreSQL has run in this database since the reset, without what fills it with jobs. */
async function statementsOf(client: Client): Promise<Statements> {
  const { rows: found } = await client.query<Statements>(
    `SELECT sum(calls)::float8 AS count, sum(micros)::float8 AS micros, sum(wal_bytes)::float8 AS wal,
            coalesce(sum(micros) FILTER (WHERE query ~ $1), 0)::float8 AS lease,
            coalesce(sum(micros) FILTER (WHERE query ~ 'INSERT INTO business_record'), 0)::float8 AS write,
            coalesce(sum(micros) FILTER (WHERE query ~ $2), 0)::float8 AS end
       FROM (SELECT *, (total_exec_time + total_plan_time) * 1000 AS micros FROM pg_stat_statements) all_of_them
      WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query !~ $3`,
    [LEASES, ENDS, FILLS],
  );
  return found[0]!;
}

function perOne({ promises, timers }: AsyncSteps, statements: Statements): string[] {
  const { count, micros, lease, write, end, wal } = statements;
  const each = (value: number, digits = 1) => (value / COUNT).toFixed(digits);
  const parts = lease === 0 ? '' : `${each(lease, 0)} + ${each(write, 0)} + ${each(end, 0)}`;
  return [each(promises), each(timers), each(count), each(wal, 0), each(micros, 0), parts];
}

function table(): string {
  const date = new Date().toISOString().slice(0, 10);
  return [
    `${date}, ${machine()}, PostgreSQL ${server.version}, Node ${process.version}; of ${COUNT}, after as many before them.`,
    '',
    '|     | promises | timers | statements | log, bytes | executor, µs | of it lease, write, end |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...rows.map((row) => `| ${row.join(' | ')} |`),
  ].join('\n');
}
