import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Injectable } from '@nestjs/common';
import { OnEffect, Outbox } from '../../src/index.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { FakeSink } from '../support/fake-sink.js';

const PROGRAM = fileURLToPath(new URL('support/webhooks.process.ts', import.meta.url));
const SECRET = `whsec_${Buffer.alloc(24, 9).toString('base64')}`;
const WEBHOOKS = 200;
const KILLS = 4;

@Injectable()
class Names {
  @OnEffect('send-webhook', { destination: () => 'the other' })
  send() {}
}

const children = new Set<ChildProcess>();
let databases: TestDatabase[] = [];

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  for (const database of databases) await database.drop();
  databases = [];
});

async function start(database: TestDatabase, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = fork(PROGRAM, {
    execArgv: ['--import', '@swc-node/register/esm-register'],
    env: {
      ...process.env,
      NODE_ENV: 'production',
      NODE_OPTIONS: '',
      DATABASE_URL: database.url,
      SECRET,
      ...env,
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.add(child);
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([how]) =>
      Promise.reject(new Error(`ended before it was ready: ${String(how)}`)),
    ),
  ]);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  children.delete(child);
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function freePort(): Promise<string> {
  const server = await FakeSink.start();
  const { port } = server;
  await server.stop();
  return String(port);
}

it('webhooks sent from one application to another, both killed on the way: none is lost, none is doubled', async () => {
  const [from, to] = [await createDatabase(), await createDatabase()];
  databases = [from, to];
  const app = await createApplication({
    databaseUrl: from.url,
    webhooks: { sources: {}, relay: false, reconcile: false, retention: false },
    providers: [Names],
  });
  await from.dataSource.transaction(async (manager) => {
    for (let n = 0; n < WEBHOOKS; n += 1) await app.get(Outbox).enqueue(manager, 'send-webhook', { n });
  });
  await app.close();
  const port = await freePort();
  const startReceiver = () => start(to, { PORT: port });
  const startSender = () => start(from, { PORT: '0', TARGET: `http://127.0.0.1:${port}/webhooks/sender` });
  let [receiver, sender] = await Promise.all([startReceiver(), startSender()]);
  const claimed = async () => (await to.query(`SELECT FROM webhook_claim`)).length;
  for (let nth = 1; nth <= KILLS; nth += 1) {
    const enough = (WEBHOOKS / (KILLS + 1)) * nth;
    await until(async () => (await claimed()) >= enough, 60_000);
    if (nth % 2 === 0) {
      await kill(receiver);
      receiver = await startReceiver();
    } else {
      await kill(sender);
      sender = await startSender();
    }
  }
  const left = (database: TestDatabase) =>
    database.query(`SELECT FROM webhook_outbox WHERE state <> 'done'`).then((rows) => rows.length);
  await until(async () => (await left(from)) === 0 && (await left(to)) === 0, 60_000);
  const [received] = await to.query(
    `SELECT count(*)::int AS events, sum(applied_count)::int AS applied FROM received_event`,
  );
  expect(received).toEqual({ events: WEBHOOKS, applied: WEBHOOKS });
}, 240_000);
