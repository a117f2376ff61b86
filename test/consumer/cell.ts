import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../examples/support/free.port.js';
import { Application } from './application.js';
import type { Cell } from './cells.js';
import { AS_README_SAYS } from './readme.js';
import { clean, nodeFolder, run, type Servers } from './tools.js';

export const SECRET = 'whsec_of_the_consumer_test_that_is_long_enough';

/** Follows README in an application of these versions, from `nest new` to rows of an event that is handled. @throws Error where it ends earlier */
export async function tryCell(cell: Cell, tarball: string, servers: Servers): Promise<string> {
  const bin = nodeFolder(cell.node);
  const application = new Application(cell, tarball, bin);
  application.make();
  const database = await servers.database(cell.postgres);
  const env = { DATABASE_URL: database, STRIPE_WEBHOOK_SECRET: SECRET, ...application.env };
  expectText(application.migrate(env, 'run'), 'has been executed successfully');
  expectText(application.migrate(env, 'show'), '[X]');
  expectText(application.command(env, '--help'), 'Usage: webhook-inbox');
  expectText(application.command(env, 'status'), 'PENDING');
  // What it finds depends on TypeORM alone.
  if (!application.isChecked)
    expectText(application.generate(env), 'No changes in database schema were found');
  expectText(application.migrate(env, 'revert'), 'has been reverted successfully');
  application.test({ ...env, NODE_ENV: 'test' });
  await tryBuilt({ main: application.main, node: join(bin, 'node'), env });
  application.mark('checked');
  return application.versions();
}

interface Built {
  readonly main: string;
  readonly node: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Of Node. */
  readonly args?: readonly string[] | undefined;
}

/** Starts what was built, sends what README says to send, and looks at the rows. */
export async function tryBuilt({ main, node, env, cwd, args = [] }: Built): Promise<void> {
  const port = await freePort();
  const child = spawn(node, [...args, main], {
    cwd,
    env: { ...clean(), ...env, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (log += String(text)));
  const ended = once(child, 'exit');
  const client = new Client({ connectionString: env.DATABASE_URL });
  try {
    await client.connect();
    await until(
      () => log.includes('successfully started'),
      () => log,
    );
    const send = AS_README_SAYS.send.replace('localhost:3000', `127.0.0.1:${port}`);
    for (const expected of ['{"status":"ok"}', '{"status":"duplicate"}'])
      expectText(run('bash', ['-c', send], { cwd: '.', env }), expected);
    await until(
      () => isHandled(client),
      () => log,
    );
  } finally {
    await client.end();
    child.kill('SIGTERM');
    await ended;
  }
}

export async function isHandled(client: Client): Promise<boolean> {
  const { rows } = await client.query(`
    SELECT 1 FROM webhook_outbox JOIN invoice ON invoice.id = 'in_1'
     WHERE event_id = 'evt_1' AND name = 'stripe/Billing.paid' AND state = 'done'`);
  return rows.length === 1;
}

export async function until(holds: () => boolean | Promise<boolean>, log: () => string): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds());) {
    if (Date.now() > end)
      throw new Error(`not so after a minute; the application's log:\n${log().slice(-3_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export function expectText(text: string, part: string): void {
  if (!text.includes(part)) throw new Error(`expected '${part}' in:\n${text.slice(-3_000)}`);
}
