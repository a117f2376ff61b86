import { transportContract } from '../../src/testing/transport/transport-contract.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { startRedis, type Engine } from '../support/engines.js';

let engine: Engine;
beforeAll(async () => {
  engine = await startRedis();
});
afterAll(() => engine.stop());

const create = () => {
  const { hostname: host, port } = new URL(engine.url);
  return bullmq({ connection: { host, port: Number(port) }, lock: '3s' });
};

describe('BullMQ', () => {
  const contract = transportContract({
    create,
    engine: { kill: () => engine.kill(), start: () => engine.start() },
  });
  for (const { name, run } of contract) it(name, run);
});
