import { fork } from 'node:child_process';
import { once } from 'node:events';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import {
  Outbox,
  Revivals,
  Inspector,
  WebhookLifecycle,
  type EffectMessage,
  type EffectTransport,
} from '../../src/index.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { EngineStore } from '../../src/storage/engine/engine.store.js';
import { until } from '../support/application.js';
import { type TestDatabase } from '../support/database.js';
import { startRedis, type Engine } from '../support/engines.js';
import { type TestInbox } from '../integration/support/inbox.js';
import {
  calls,
  consumerDatabase,
  enqueue,
  failures,
  inState,
  localCalls,
  permanent,
  startConsumer,
  startSender,
  timesCalled,
  type Consumer,
} from './support.js';

const why = { by: 'ann', reason: 'the address is right now' };
let redis: Engine;
let database: TestDatabase;
let nth = 0;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  redis = await startRedis();
  database = await consumerDatabase();
});
afterAll(async () => {
  await database?.drop();
  await redis?.stop();
});
beforeEach(() => {
  nth += 1;
  calls.length = 0;
  localCalls.length = 0;
  failures.clear();
});
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const transport = (): EffectTransport => {
  const { hostname: host, port } = new URL(redis.url);
  return bullmq({ connection: { host, port: Number(port) }, name: `test-${nth}`, lock: '1s' });
};

/** The sender, and what ends it with the test. */
async function sender(
  more: { effects?: string[]; unheardAfter?: string } = {},
  setup = {},
): Promise<TestInbox> {
  const inbox = await startSender([{ transport: transport(), effects: ['mail'], ...more }], setup);
  open.push({ close: () => inbox.stop() });
  return inbox;
}
async function consumer(own = transport(), grace?: string): Promise<Consumer> {
  const one = await startConsumer(own, database, grace);
  open.push(one);
  return one;
}
const applied = async (ids: readonly string[]) => {
  const rows = await database.query<{ key: string }>(`SELECT key FROM applied WHERE key = ANY($1)`, [ids]);
  return ids.map((id) => rows.filter(({ key }) => key === id).length);
};

it('an effect is handed to Redis, run by a consumer, and done with its result in the timeline of its event', async () => {
  const inbox = await sender();
  const done: string[] = [];
  inbox.app.get(WebhookLifecycle).on('effectDone', ({ name }) => done.push(name));
  await consumer();
  await inbox.deliver('e-1', 'grant.made', { to: 'ann' });
  await until(() => done.length === 1);
  const [event] = (await inbox.query<{ id: string }>(`SELECT id FROM webhook_claim`)) as [{ id: string }];
  const detail = (await inbox.app.get(Inspector).event(event.id))!;
  const [row] = detail.rows.filter(({ kind }) => kind === 'effect');
  expect(row).toMatchObject({ name: 'mail', state: 'done' });
  expect(await inbox.query(`SELECT result FROM webhook_outbox_data WHERE outbox_id = $1`, [row!.id])).toEqual(
    [{ result: '{"sent":"ann"}' }],
  );
  const history = await inbox.query(`SELECT outcome, host FROM webhook_attempt WHERE outbox_id = $1`, [
    row!.id,
  ]);
  expect(history).toEqual([{ outcome: 'done', host: expect.stringContaining(`:${process.pid}`) }]);
  expect(localCalls).toEqual([]);
  expect(
    await database.query(`SELECT effect, attempt, reported_at IS NOT NULL AS reported FROM webhook_consumed`),
  ).toEqual([{ effect: 'mail', attempt: 1, reported: true }]);
});

it('a consumer retries, reports the death, and does the effect once it is revived', async () => {
  const inbox = await sender();
  await consumer();
  failures.set('later', (attempt) => (attempt < 3 ? new Error('busy') : undefined));
  failures.set('never', () => new Error('busy'));
  failures.set('wrong', permanent);
  const ids = await enqueue(inbox, 'mail', ['later', 'never', 'wrong']);
  const [later, never, wrong] = ids as [string, string, string];
  await inState(inbox, 'done', [later]);
  await inState(inbox, 'dead', [never, wrong]);
  expect(timesCalled(ids)).toEqual([3, 3, 1]);
  const dead = await inbox.query(
    `SELECT reason, error, place IS NOT NULL AS placed FROM webhook_outbox WHERE state = 'dead' ORDER BY reason`,
  );
  expect(dead).toEqual([
    { reason: 'attempts-exhausted', error: 'busy', placed: true },
    { reason: 'permanent-error', error: 'PermanentError: no such address', placed: true },
  ]);
  await until(() => inbox.alerts.filter(({ kind }) => kind === 'dead-letter').length === 2);
  failures.clear();
  await inbox.app.get(Revivals).revive([never, wrong], why);
  await inState(inbox, 'done', ids);
  expect(await applied(ids)).toEqual([1, 1, 1]);
});

it('a broker that is down blocks nothing else, loses nothing and uses no attempt up', async () => {
  const inbox = await sender();
  await consumer();
  await enqueue(inbox, 'mail', ['before']).then((ids) => inState(inbox, 'done', ids));
  await redis.kill();
  const ids = await enqueue(
    inbox,
    'mail',
    Array.from({ length: 30 }, (_, index) => `to ${index}`),
  );
  const local = await enqueue(inbox, 'local', ['a', 'b', 'c']);
  await inState(inbox, 'done', local);
  await until(async () => (await inbox.query(`SELECT FROM webhook_outbox WHERE attempt > 1`)).length > 0);
  await redis.start();
  await inState(inbox, 'done', ids);
  expect(await applied(ids)).toEqual(ids.map(() => 1));
  const used = await inbox.query<{ most: number }>(
    `SELECT max(attempt - attempt_base) AS most FROM webhook_outbox`,
  );
  expect(used).toEqual([{ most: 1 }]);
}, 120_000);

it('a relay that dies between the confirm and the settle publishes again under the same id', async () => {
  const own = transport();
  const published: string[] = [];
  const watched: EffectTransport = {
    ...bound(own),
    publish: (messages) => {
      published.push(...messages.map(({ messageId }) => messageId));
      return own.publish(messages);
    },
  };
  const inbox = await startSender([{ transport: watched, effects: ['mail'] }]);
  open.push({ close: () => inbox.stop() });
  const store = inbox.app.get(EngineStore);
  const handOver = store.handOver.bind(store);
  store.handOver = async () => {
    store.handOver = handOver;
    throw new Error('killed');
  };
  const ids = await enqueue(inbox, 'mail', ['ann']);
  await inState(inbox, 'handed', ids);
  expect(published).toEqual([ids[0], ids[0]]);
  await consumer();
  await inState(inbox, 'done', ids);
  expect(timesCalled(ids)).toEqual([1]);
});

it('an effect that the engine may have is not cancelled, and a report of done ends it though it is dead by then', async () => {
  const own = transport();
  const unconfirmed: EffectTransport = {
    ...bound(own),
    publish: async (messages) => {
      await own.publish(messages);
      throw new Error('no confirm');
    },
  };
  const inbox = await startSender([{ transport: unconfirmed, effects: ['mail'] }]);
  open.push({ close: () => inbox.stop() });
  const ids = await enqueue(inbox, 'mail', ['ann']);
  await until(
    async () => (await inbox.query(`SELECT FROM webhook_outbox WHERE attempt_base > 0`)).length > 0,
  );
  const cancelled = () => inbox.app.get(Outbox).cancel(inbox.dataSource.manager, 'mail', { id: ids[0]! });
  expect(await cancelled()).toBe('running');
  await inbox.query(
    `UPDATE webhook_outbox SET state = 'dead', reason = 'last-attempt-lost', leased_by = NULL, settled_at = now()`,
  );
  await consumer();
  await inState(inbox, 'done', ids);
  expect(timesCalled(ids)).toEqual([1]);
});

it('no number of lost hand-overs makes an effect dead', async () => {
  const inbox = await sender();
  const id = await inbox.dataSource.transaction(async (manager) => {
    const enqueued = await inbox.app.get(Outbox).enqueue(manager, 'mail', { to: 'ann' });
    await manager.query('UPDATE webhook_outbox SET attempt = 50 WHERE id = $1', [enqueued.id]);
    return enqueued.id;
  });
  await inState(inbox, 'handed', [id]);
  await consumer();
  await inState(inbox, 'done', [id]);
});

it('copies of a message, at once and later, are applied once', async () => {
  const inbox = await sender();
  const own = transport();
  open.push(own);
  const ids = await enqueue(inbox, 'mail', ['ann']);
  await inState(inbox, 'handed', ids);
  const copy = (messageId: string): EffectMessage => {
    return { id: ids[0]!, messageId, life: 0, effect: 'mail', payload: '{"to":"ann"}' };
  };
  await own.publish([copy('copy-1'), copy('copy-2')]);
  await consumer();
  await inState(inbox, 'done', ids);
  await own.publish([copy('copy-3')]);
  await until(async () => (await queued()) === 0);
  expect(await applied(ids)).toEqual([1]);
  expect(timesCalled(ids)).toEqual([1]);
  expect(await inbox.query(`SELECT outcome FROM webhook_attempt`)).toEqual([{ outcome: 'done' }]);
});

it('a consumer that is killed between its commit and its report does not call again', async () => {
  const inbox = await sender();
  const process = fork(fileURLToPath(new URL('consumer.process.ts', import.meta.url)), {
    execArgv: ['--import', '@swc-node/register/esm-register'],
    env: { ...env, DATABASE_URL: database.url, REDIS_URL: redis.url, QUEUES: `test-${nth}` },
  });
  const ended = once(process, 'exit');
  const ids = await enqueue(inbox, 'mail', ['ann']);
  expect(await ended).toEqual([null, 'SIGKILL']);
  expect(await applied(ids)).toEqual([1]);
  await inState(inbox, 'handed', ids);
  await consumer();
  await inState(inbox, 'done', ids);
  expect(timesCalled(ids)).toEqual([0]);
  expect(await applied(ids)).toEqual([1]);
}, 120_000);

it('effects that nobody reports raise an alert, are handed over again, and bear late reports of both', async () => {
  const inbox = await sender({ unheardAfter: '1s' });
  const ids = await enqueue(inbox, 'mail', ['ann']);
  const alert = await until(() => inbox.alerts.find(({ kind }) => kind === 'unheard'));
  expect(alert).toEqual({ kind: 'unheard', name: 'mail', rows: 1 });
  await inState(inbox, 'handed', ids);
  expect(await inbox.query(`SELECT DISTINCT outcome FROM webhook_attempt`)).toEqual([{ outcome: 'unheard' }]);
  const [used] = await inbox.query<{ used: number }>(
    `SELECT attempt - attempt_base AS used FROM webhook_outbox`,
  );
  expect(used!.used).toBeLessThanOrEqual(1);
  const own = transport();
  open.push(own);
  const at = new Date().toISOString();
  const done = {
    id: ids[0]!,
    effect: 'mail',
    life: 0,
    outcome: 'done',
    attempts: 1,
    begunAt: at,
    endedAt: at,
    host: 'h:1',
  } as const;
  await own.report({ ...done, result: '"first"' });
  await own.report({ ...done, result: '"second"' });
  await own.report({ ...done, outcome: 'dead', error: 'late' });
  await own.report({ ...done, id: '00000000-0000-4000-8000-000000000000' });
  await inState(inbox, 'done', ids);
  await until(async () => (await queued('reports')) === 0);
  expect(await inbox.query(`SELECT state, error FROM webhook_outbox`)).toEqual([
    { state: 'done', error: null },
  ]);
  expect(await inbox.query(`SELECT result FROM webhook_outbox_data`)).toEqual([{ result: '"first"' }]);
});

it('a death that is reported of a former life does not end the present one', async () => {
  const inbox = await sender();
  failures.set('wrong', permanent);
  const first = await consumer();
  const ids = await enqueue(inbox, 'mail', ['wrong']);
  await inState(inbox, 'dead', ids);
  await first.close();
  open.splice(open.indexOf(first), 1);
  await inbox.app.get(Revivals).revive(ids, why);
  await inState(inbox, 'handed', ids);
  const own = transport();
  open.push(own);
  const at = new Date().toISOString();
  const dead = {
    id: ids[0]!,
    effect: 'mail',
    outcome: 'dead',
    attempts: 1,
    begunAt: at,
    endedAt: at,
    host: 'h:1',
  } as const;
  await own.report({ ...dead, life: 0 });
  await until(async () => (await queued('reports')) === 0);
  expect(await inbox.query(`SELECT state FROM webhook_outbox`)).toEqual([{ state: 'handed' }]);
  await own.report({ ...dead, life: 1 });
  await inState(inbox, 'dead', ids);
});

it('an effect moves from the relay to the engine and back, and each is done once', async () => {
  const names = Array.from({ length: 20 }, (_, index) => `to ${index}`);
  const first = await startSender([], { webhooks: { relay: { pollInterval: '100ms', effects: 1 } } });
  const { database: own } = first;
  const ids = [...(await enqueue(first, 'mail', names))];
  const next = async (before: TestInbox, effects: string[]) => {
    await before.app.close();
    const inbox = await startSender([{ transport: transport(), effects }], { database: own });
    ids.push(...(await enqueue(inbox, 'mail', names)));
    return inbox;
  };
  await consumer();
  const second = await next(first, ['mail']);
  const third = await next(second, []);
  await inState(third, 'done', ids);
  expect(timesCalled(ids)).toEqual(ids.map(() => 1));
  await third.app.close();
  await own.drop();
}, 120_000);

/** Jobs that Redis has. */
async function queued(what = 'effect-mail'): Promise<number> {
  const { Queue } = await import('bullmq');
  const { hostname: host, port } = new URL(redis.url);
  const queue = new Queue(`test-${nth}-${what}`, { connection: { host, port: Number(port) } });
  const counts = await queue.getJobCounts();
  await queue.close();
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** The methods of a transport, to be replaced one by one. */
function bound(own: EffectTransport): EffectTransport {
  return {
    name: own.name,
    keepsOrder: own.keepsOrder,
    publish: (messages) => own.publish(messages),
    consume: (effects, handle, given) => own.consume(effects, handle, given),
    report: (report) => own.report(report),
    onReports: (handle) => own.onReports(handle),
    close: () => own.close(),
  };
}
