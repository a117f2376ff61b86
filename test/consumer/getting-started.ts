import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../examples/support/free.port.js';
import { change } from './application.js';
import { expectText, isHandled, until } from './cell.js';
import type { Cell } from './cells.js';
import { AS_GETTING_STARTED_SAYS as SAID } from './readme.js';
import { CACHE, clean, nodeFolder, run, type Servers } from './tools.js';

const NODE = '22';

type Env = Readonly<Record<string, string>>;

/** Does what docs/getting-started.md says, with its commands as they are printed, up to its own test. @throws Error where it ends earlier */
export async function tryGettingStarted(
  nest: Cell['nest'],
  tarball: string,
  servers: Servers,
): Promise<string> {
  const bin = nodeFolder(NODE);
  const folder = join(CACHE, 'getting-started', `nest${nest}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const env = { ...settings(), DATABASE_URL: await servers.database('18') };
  const shell = (text: string, cwd: string, more: Env = {}) =>
    run('bash', ['-ec', text], { cwd, bin, env: { ...env, ...more } });
  shell(installing(nest, tarball), folder, { npm_config_yes: 'true', npm_config_prefer_offline: 'true' });
  const shop = join(folder, 'shop');
  writeFileSync(join(shop, 'src/app.module.ts'), SAID.module);
  change(shop, 'src/main.ts', (text) => text.replace(/^.*app\.listen/m, `  ${SAID.hooks}$&`));
  await send(shop, bin, env);
  const spec = nest === '12' ? SAID.spec.replace('./app.module', './app.module.js') : SAID.spec;
  writeFileSync(join(shop, 'src/billing.spec.ts'), spec);
  shell(SAID.test, shop);
  return `npm, Nest ${nest}, commands as printed`;
}

/** The lines that the page exports, but for the database, which is one of ours. */
function settings(): Env {
  const lines = [...SAID.install.matchAll(/^export (\w+)=(.*)$/gm)];
  return Object.fromEntries(lines.map(([, name, value]) => [name!, value!]));
}

function installing(nest: Cell['nest'], tarball: string): string {
  const printed = SAID.install.replaceAll(/^export .*\n/gm, '');
  const [made, installed] = SAID.nest11;
  const lines =
    nest === '12'
      ? printed
      : printed.replace(/^npx @nestjs\/cli new .*$/m, made!).replace(/^npm install .*$/m, installed!);
  return lines.replace('install nestjs-webhook-inbox ', `install ${tarball} `);
}

/** Starts the application, sends what the page sends, twice, and waits for the handler and its effect. */
async function send(shop: string, bin: string, env: Env): Promise<void> {
  const port = await freePort();
  const child = spawn('bash', ['-c', SAID.start], {
    cwd: shop,
    env: { ...clean(), ...env, PATH: `${bin}:${process.env.PATH}`, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: the watcher and the application end with it.
    detached: true,
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (log += String(text)));
  const ended = once(child, 'exit');
  const client = new Client({ connectionString: env.DATABASE_URL });
  const has = (text: string) =>
    until(
      () => log.includes(text),
      () => log,
    );
  try {
    await client.connect();
    await has('successfully started');
    const lines = SAID.send.replace('localhost:3000', `127.0.0.1:${port}`).trim().split('\n');
    const answers = run('bash', ['-ec', [...lines, lines.at(-1)].join('\n')], { cwd: shop, env });
    expectText(answers, '{"status":"ok"}\n{"status":"duplicate"}');
    await until(
      () => isHandled(client),
      () => log,
    );
    await has('receipt for in_1 to a@example.com, idempotency key ');
  } finally {
    await client.end();
    process.kill(-child.pid!, 'SIGTERM');
    await ended;
  }
}
