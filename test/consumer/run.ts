import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, type } from 'node:os';
import { join } from 'node:path';
import { createHmac } from 'node:crypto';
import { Client } from 'pg';
import { freePort } from '../../examples/support/free.port.js';
import { Application } from './application.js';
import { allPairs, IN_CI, nameOf, type Cell } from './cells.js';
import { CACHE, nodeFolder, startPostgres } from './tools.js';

/**
 * `npm run test:consumer` builds the two applications of CI; `-- --all` those that hold every pair of versions, and writes
 * the table of docs/compatibility.md; `-- nest11-express` those whose name begins so. Each is made by Nest's CLI, gets the packed tarball and the
 * README's example, builds, runs its own tests, and is sent signed webhooks over HTTP.
 */
const SECRET = 'whsec_of_the_consumer_test_that_is_long_enough';

interface Outcome {
  readonly cell: Cell;
  readonly fault?: string;
  readonly seconds: number;
}

function pack(): string {
  mkdirSync(CACHE, { recursive: true });
  const args = ['pack', '--json', '--loglevel', 'error', '--pack-destination', CACHE];
  const scripts = process.env.CONSUMER_BUILT === undefined ? [] : ['--ignore-scripts'];
  const { status, stdout, stderr } = spawnSync('npm', [...args, ...scripts], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm pack: ${stderr}`);
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [{ filename: string }];
  return join(CACHE, filename);
}

async function tryCell(cell: Cell, tarball: string): Promise<void> {
  const node = nodeFolder(cell.node);
  const application = new Application(cell, CACHE, tarball, node);
  application.make();
  application.build();
  const server = await startPostgres(cell.postgres);
  try {
    const env = { DATABASE_URL: server.url, STRIPE_WEBHOOK_SECRET: SECRET, NODE_ENV: 'test' };
    expectText(application.migrate(env, 'run'), 'has been executed successfully');
    expectText(application.migrate(env, 'show'), '[X]');
    expectText(application.migrate(env, 'revert'), 'has been reverted successfully');
    application.test(env);
    await tryBuilt(application.main, join(node, 'node'), env);
  } finally {
    await server.stop();
  }
}

/** What README says to do, from outside: the built application, a signed webhook, and the rows. */
async function tryBuilt(main: string, node: string, env: NodeJS.ProcessEnv): Promise<void> {
  const port = await freePort();
  const child = spawn(node, [main], {
    env: { ...process.env, ...env, NODE_OPTIONS: '', PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (log += String(text)));
  const ended = once(child, 'exit');
  const client = new Client({ connectionString: env.DATABASE_URL });
  try {
    await until(
      () => log.includes('successfully started'),
      () => log,
    );
    await client.connect();
    for (const expected of ['{"status":"ok"}', '{"status":"duplicate"}'])
      expectText(await sendSigned(`http://127.0.0.1:${port}/webhooks/stripe`), expected);
    const done = `SELECT 1 FROM webhook_outbox JOIN invoice ON invoice.id = 'in_built'
                   WHERE event_id = 'evt_built' AND name = 'Billing.paid' AND state = 'done'`;
    await until(
      async () => (await client.query(done)).rows.length === 1,
      () => log,
    );
  } finally {
    await client.end();
    child.kill('SIGTERM');
    await ended;
  }
}

async function sendSigned(url: string): Promise<string> {
  const object = { id: 'in_built', customer_email: 'a@example.com' };
  const time = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({ id: 'evt_built', type: 'invoice.paid', created: time, data: { object } });
  const v1 = createHmac('sha256', SECRET).update(`${time}.${body}`).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${time},v1=${v1}` };
  return (await fetch(url, { method: 'POST', headers, body })).text();
}

async function until(holds: () => boolean | Promise<boolean>, log: () => string): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds());) {
    if (Date.now() > end)
      throw new Error(`not so after a minute; the application's log:\n${log().slice(-3_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function expectText(text: string, part: string): void {
  if (!text.includes(part)) throw new Error(`expected '${part}' in:\n${text.slice(-3_000)}`);
}

async function outcomeOf(cell: Cell, tarball: string): Promise<Outcome> {
  const begun = performance.now();
  const seconds = () => Math.round((performance.now() - begun) / 1000);
  try {
    await tryCell(cell, tarball);
    return { cell, seconds: seconds() };
  } catch (error) {
    return { cell, seconds: seconds(), fault: error instanceof Error ? error.message : String(error) };
  }
}

function table(outcomes: readonly Outcome[], asked: number): string {
  const head =
    '| Nest | adapter | TypeORM | Node | PostgreSQL | result |\n| --- | --- | --- | --- | --- | --- |';
  const lines = outcomes.map(({ cell, fault }) => {
    const { nest, adapter, typeorm, node, postgres } = cell;
    const first = fault?.split('\n')[0];
    return `| ${[nest, adapter, typeorm, node, postgres, first ?? 'works'].join(' | ')} |`;
  });
  const when = new Date().toISOString().slice(0, 10);
  const machine = `${type()}, ${cpus().length} cores of ${cpus()[0]?.model ?? 'an unknown kind'}`;
  return `${when}, ${machine}: ${outcomes.length} of ${asked} applications were tried.\n\n${[head, ...lines].join('\n')}\n`;
}

const asked = process.argv.slice(2);
const all = asked.includes('--all');
const named = asked.filter((name) => !name.startsWith('--'));
const cells = (all || named.length > 0 ? allPairs() : [...IN_CI]).filter(
  (cell) => named.length === 0 || named.some((name) => nameOf(cell).startsWith(name)),
);
const tarball = pack();
const outcomes: Outcome[] = [];
for (const cell of cells) {
  const outcome = await outcomeOf(cell, tarball);
  outcomes.push(outcome);
  console.log(`${nameOf(cell)}: ${outcome.fault ?? 'works'} (${outcome.seconds} s)`);
  // A run that is ended keeps what it found.
  if (all) writeFileSync(join(CACHE, 'table.md'), table(outcomes, cells.length));
}
process.exitCode = outcomes.some(({ fault }) => fault !== undefined) ? 1 : 0;
