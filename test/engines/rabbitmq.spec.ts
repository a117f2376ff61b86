import amqp from 'amqplib';
import { transportContract } from '../../src/testing/index.js';
import { rabbitmq } from '../../src/transports/rabbitmq/index.js';
import { until } from '../support/application.js';
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

it('a message that is held for longer than consumer_timeout comes again by itself, with an attempt more', async () => {
  // It looks at its channels once a minute by default.
  const strict = await startRabbitmq(['consumer_timeout = 2000'], '-rabbit channel_tick_interval 1000');
  const transport = rabbitmq({ connection: strict.url });
  const attempts: number[] = [];
  try {
    const reader = await transport.consume(
      ['slow'],
      async (_, { attempt, signal }) => {
        attempts.push(attempt);
        if (attempt === 1) await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return { kind: 'ack' };
      },
      { concurrency: 1 },
    );
    await transport.publish([{ id: 'a', messageId: 'a', life: 0, effect: 'slow', payload: '{}' }]);
    await until(() => attempts.length > 1, 60_000);
    await reader.close(5_000);
    expect(attempts).toEqual([1, 2]);
  } finally {
    await transport.close();
    await strict.stop();
  }
});

/** A queue that an administrator has made otherwise. */
async function declare(queue: string): Promise<void> {
  const connection = await amqp.connect(engine.url);
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: false });
  await connection.close();
}
