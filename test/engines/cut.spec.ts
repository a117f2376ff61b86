import type { EffectTransport } from '../../src/index.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { nats } from '../../src/transports/nats/index.js';
import { rabbitmq } from '../../src/transports/rabbitmq/index.js';
import { until } from '../support/application.js';
import type { TestDatabase } from '../support/database.js';
import { startNats, startRabbitmq, startRedis, type Engine } from '../support/engines.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  calls,
  consumerDatabase,
  enqueue,
  inState,
  startConsumer,
  startSender,
  timesCalled,
} from './support.js';

const ENGINES: readonly (readonly [string, () => Promise<Engine>, (url: string) => EffectTransport])[] = [
  [
    'BullMQ',
    startRedis,
    (url) => {
      const { hostname: host, port } = new URL(url);
      return bullmq({ connection: { host, port: Number(port) }, lock: '3s' });
    },
  ],
  ['NATS', startNats, (url) => nats({ connection: { servers: url, reconnectTimeWait: 200 }, ackWait: '3s' })],
  ['RabbitMQ', startRabbitmq, (url) => rabbitmq({ connection: url })],
];

describe.each(ENGINES)('a network that is cut on the way to %s', (_name, start, transportAt) => {
  let engine: Engine;
  let database: TestDatabase;
  const open: { close(): Promise<unknown> }[] = [];

  beforeAll(async () => {
    [engine, database] = await Promise.all([start(), consumerDatabase()]);
  });
  afterAll(async () => {
    await database?.drop();
    await engine?.stop();
  });
  beforeEach(() => (calls.length = 0));
  afterEach(async () => {
    for (const one of open.splice(0).toReversed()) await one.close();
  });

  async function cable(): Promise<TcpProxy> {
    const proxy = await TcpProxy.start(engine.url);
    open.push({ close: () => proxy.stop() });
    return proxy;
  }
  async function sender(url: string) {
    const inbox = await startSender([{ transport: transportAt(url), effects: ['mail'] }]);
    open.push({ close: () => inbox.stop() });
    return inbox;
  }
  async function consumer(url: string) {
    const one = await startConsumer(transportAt(url), database);
    open.push(one);
    return one;
  }
  const names = (count: number) => Array.from({ length: count }, (_, index) => `to ${index}`);
  /** Lost ones and doubled ones show as other numbers than 1. */
  async function expectAppliedOnce(ids: readonly string[]) {
    const rows = await database.query<{ key: string }>(`SELECT key FROM applied WHERE key = ANY($1)`, [ids]);
    expect(ids.map((id) => rows.filter(({ key }) => key === id).length)).toEqual(ids.map(() => 1));
  }

  it('the relay publishes again by itself, and blocks nothing meanwhile', async () => {
    const way = await cable();
    const inbox = await sender(way.url);
    await consumer(engine.url);
    const ids = await enqueue(inbox, 'mail', names(5));
    await inState(inbox, 'done', ids);

    way.silence();
    ids.push(...(await enqueue(inbox, 'mail', names(30))));
    await inState(inbox, 'done', await enqueue(inbox, 'local', names(3)));
    // The relay has given up waiting for the engine's answer.
    await until(
      async () => (await inbox.query(`SELECT FROM webhook_outbox WHERE attempt > 1`)).length > 0,
      60_000,
    );
    way.allowNew();
    ids.push(...(await enqueue(inbox, 'mail', names(5))));
    await inState(inbox, 'done', ids);
    await expectAppliedOnce(ids);
    expect(timesCalled(ids)).toEqual(ids.map(() => 1));
  });

  it('the work of a consumer that is cut off goes to another, and it works again by itself', async () => {
    const way = await cable();
    const inbox = await sender(engine.url);
    await consumer(way.url);
    const ids = await enqueue(inbox, 'mail', names(40));
    await until(() => calls.length > 0);
    way.silence();
    const other = await consumer(engine.url);
    await inState(inbox, 'done', ids);
    await other.close();
    open.splice(open.indexOf(other), 1);

    const late = await enqueue(inbox, 'mail', names(10));
    await inState(inbox, 'handed', late);
    way.allowNew();
    await inState(inbox, 'done', late);
    await expectAppliedOnce([...ids, ...late]);
  });
});
