import type { Channel } from 'amqplib';

/**
 * RabbitMQ 4 drops a message that has come 20 times, unless the queue says otherwise; 3.x has no limit, and takes no other word for none.
 */
const DELIVERIES = 1_000_000_000;
/** The longest wait of one queue. A longer delay passes through several. */
const LONGEST_S = 4_096;

const QUORUM = { 'x-queue-type': 'quorum', 'x-delivery-limit': DELIVERIES };

/** A quorum queue: on the disks of most of its nodes before a message is confirmed. */
export async function assertQueue(channel: Channel, queue: string): Promise<void> {
  await channel.assertQueue(queue, { durable: true, arguments: QUORUM });
}

/** Where a message waits. */
export interface Wait {
  /** For so many seconds. */
  readonly seconds: number;
  /** The rest of its delay after that. */
  readonly restS: number;
}

/**
 * The largest power of two seconds in a delay, which is rounded up to seconds. All messages of a wait queue wait equally long: RabbitMQ
 * ends the wait of the first one only, and a short delay behind a long one would last as long.
 */
export function waitOf(delayS: number): Wait {
  const whole = Math.max(1, Math.ceil(delayS));
  const seconds = Math.min(LONGEST_S, 2 ** Math.floor(Math.log2(whole)));
  return { seconds, restS: whole - seconds };
}

/**
 * An exchange, and behind it the queue in which messages wait for `seconds`. Then each one goes to the queue that its routing key names,
 * and is deleted only when that queue has it.
 */
export async function assertWait(channel: Channel, exchange: string, seconds: number): Promise<void> {
  await channel.assertExchange(exchange, 'fanout', { durable: true });
  await channel.assertQueue(exchange, {
    durable: true,
    arguments: {
      ...QUORUM,
      'x-message-ttl': seconds * 1_000,
      'x-dead-letter-exchange': '',
      'x-dead-letter-strategy': 'at-least-once',
      'x-overflow': 'reject-publish',
    },
  });
  await channel.bindQueue(exchange, exchange, '');
}
