import { transportContract } from '../../src/testing/index.js';
import { nats } from '../../src/transports/nats/index.js';
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
});
