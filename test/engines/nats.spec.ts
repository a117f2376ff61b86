import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { transportContract } from '../../src/testing/index.js';
import { nats } from '../../src/transports/nats/index.js';
import { until } from '../support/application.js';
import { startNats, type Engine } from '../support/engines.js';

let engine: Engine;
beforeAll(async () => {
  engine = await startNats();
});
afterAll(() => engine.stop());

const create = () => nats({ connection: { servers: engine.url, reconnectTimeWait: 100 }, ackWait: '3s' });

describe('NATS JetStream', () => {
  const contract = transportContract({
    create,
    engine: { kill: () => engine.kill(), start: () => engine.start() },
    // A server takes 1 MB unless it is told otherwise.
    refused: async (effect) => ({
      id: 'big',
      messageId: 'big',
      life: 0,
      effect,
      payload: 'x'.repeat(1_100_000),
    }),
  });
  for (const { name, run } of contract) it(name, run);

  it('a report that is no JSON comes as text, and once', async () => {
    const transport = nats({ connection: { servers: engine.url }, name: 'unreadable' });
    const came: unknown[] = [];
    const reader = await transport.onReports(async (report) => void came.push(report));
    const connection = await connect({ servers: engine.url });
    try {
      const { streams } = await jetstreamManager(connection);
      connection.publish('unreadable.reports', '{');
      await until(() => came.length > 0);
      await until(async () => (await streams.info('unreadable')).state.messages === 0);
      expect(came).toEqual(['{']);
    } finally {
      await reader.close(0);
      await transport.close();
      await connection.close();
    }
  });
});
