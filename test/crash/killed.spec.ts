import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { FakeSink } from '../support/fake-sink.js';
import { send } from '../support/http.js';
import { awardee } from '../support/signing.js';

const PROGRAM = fileURLToPath(new URL('support/receiver.process.ts', import.meta.url));

let database: TestDatabase;
let sink: FakeSink;
let children: ChildProcess[] = [];

beforeEach(async () => {
  database = await createDatabase();
  sink = await FakeSink.start();
});
afterEach(async () => {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
  children = [];
  await sink?.stop();
  await database?.drop();
});

interface ReceiverProcess {
  readonly origin: string;
  /** The signal that ended it, or its status. */
  readonly ended: Promise<string>;
  kill(): void;
  stop(): Promise<string>;
}

/** Of a process that is killed. The others keep theirs for longer than a busy machine holds them up: nobody calls in their place. */
const ENDS_SOON = { lease: '1500ms' };

/** @param setup `relay`: whether it runs handlers and effects, or only receives */
async function start({ relay = 'on', lease = '30s' } = {}): Promise<ReceiverProcess> {
  const child = fork(PROGRAM, {
    execArgv: ['--import', '@swc-node/register/esm-register'],
    env: {
      ...process.env,
      NODE_ENV: 'production',
      NODE_OPTIONS: '',
      DATABASE_URL: database.url,
      SINK_URL: sink.origin,
      RELAY: relay,
      LEASE: lease,
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.push(child);
  const ended = once(child, 'exit').then(([status, signal]) => String(signal ?? status));
  const early = ended.then((how) =>
    Promise.reject(new Error(`a receiver ended before it was ready: ${how}`)),
  );
  early.catch(() => undefined);
  const [origin] = (await Promise.race([once(child, 'message'), early])) as [string];
  return {
    origin,
    ended,
    kill: () => void child.kill('SIGKILL'),
    stop: () => {
      child.send('stop');
      return ended;
    },
  };
}

async function deliver(origin: string, id: string, type = 'grant.made') {
  const { headers, body } = awardee(id, type, {});
  const { status, text } = await send(origin, { path: '/webhooks/awardee', headers, body });
  return `${status} ${text}`;
}

const settled = () =>
  until(
    async () => (await database.query(`SELECT FROM webhook_outbox WHERE state = 'pending'`)).length === 0,
    60_000,
  );
const records = () => database.query(`SELECT event_id, applied_count FROM received_event ORDER BY event_id`);
const rows = () => database.query(`SELECT kind, state, attempt, lost FROM webhook_outbox ORDER BY kind DESC`);
const keys = () => sink.requests.map(({ headers }) => headers['idempotency-key']);

describe('R03 a process is killed', () => {
  it('between the commit of the claim and the handler: another process does the work, once', async () => {
    const first = await start({ relay: 'off' });
    expect(await deliver(first.origin, 'd-1')).toBe('200 {"status":"ok"}');
    first.kill();
    expect(await first.ended).toBe('SIGKILL');
    expect(await records()).toEqual([]);

    const second = await start();
    await settled();
    expect(await second.stop()).toBe('0');
    expect(await records()).toEqual([{ event_id: 'd-1', applied_count: 1 }]);
    expect(keys()).toHaveLength(1);
  }, 120_000);

  it('inside the handler, after its writes: they are gone, and are made again, once', async () => {
    const first = await start(ENDS_SOON);
    expect(await deliver(first.origin, 'd-1', 'dies.in-handler')).toBe('200 {"status":"ok"}');
    expect(await first.ended).toBe('SIGKILL');
    expect(await records()).toEqual([]);
    expect(keys()).toEqual([]);

    const second = await start();
    await settled();
    expect(await second.stop()).toBe('0');
    expect(await records()).toEqual([{ event_id: 'd-1', applied_count: 1 }]);
    expect(await rows()).toMatchObject([
      { kind: 'handler', state: 'done', attempt: 2 },
      { kind: 'effect', attempt: 1 },
    ]);
    expect(keys()).toHaveLength(1);
  }, 120_000);

  it('R19 between an effect’s call and its settle: it is called again under the same key', async () => {
    const first = await start(ENDS_SOON);
    expect(await deliver(first.origin, 'd-1', 'dies.after-effect')).toBe('200 {"status":"ok"}');
    expect(await first.ended).toBe('SIGKILL');
    expect(keys()).toHaveLength(1);

    const second = await start();
    await settled();
    expect(await second.stop()).toBe('0');
    expect(await records()).toEqual([{ event_id: 'd-1', applied_count: 1 }]);
    expect(await rows()).toMatchObject([
      { kind: 'handler', attempt: 1 },
      { kind: 'effect', state: 'done', attempt: 2 },
    ]);
    expect(keys()).toHaveLength(2);
    expect(new Set(keys()).size).toBe(1);
  }, 120_000);
});

describe('R34 three processes', () => {
  it('get 50 equal deliveries at once: one record, one effect, and every sender is told 200', async () => {
    const receivers = await Promise.all([start(), start(), start()]);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => deliver(receivers[index % 3]!.origin, 'd-1')),
    );
    await settled();
    expect(await Promise.all(receivers.map((receiver) => receiver.stop()))).toEqual(['0', '0', '0']);
    expect(answers.filter((answer) => answer === '200 {"status":"ok"}')).toHaveLength(1);
    expect(answers.filter((answer) => answer === '200 {"status":"duplicate"}')).toHaveLength(49);
    expect(await records()).toEqual([{ event_id: 'd-1', applied_count: 1 }]);
    expect(keys()).toHaveLength(1);
  }, 120_000);
});
