import amqp from 'amqplib';
import { transportContract } from '../../src/testing/index.js';
import { rabbitmq } from '../../src/transports/rabbitmq/index.js';
import { startRabbitmq, type Engine } from '../support/engines.js';

let engine: Engine;
beforeAll(async () => {
  engine = await startRabbitmq();
});
afterAll(() => engine.stop());

const create = () => rabbitmq({ connection: engine.url });

describe('RabbitMQ', () => {
  const contract = transportContract({
    create,
    engine: { kill: () => engine.kill(), start: () => engine.start() },
    refused: async (effect) => {
      await declare(`webhook-inbox.effects.${effect}`);
      return { id: 'refused', messageId: 'refused', life: 0, effect, payload: '{}' };
    },
  });
  for (const { name, run } of contract) it(name, run);
});

/** A queue that an administrator has made otherwise. */
async function declare(queue: string): Promise<void> {
  const connection = await amqp.connect(engine.url);
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: false });
  await connection.close();
}
