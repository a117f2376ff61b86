import { randomUUID } from 'node:crypto';
import type { Random } from '../random.js';
import type { SentEvent } from '../sent.event.js';

const OBJECTS = {
  'invoice.paid': 'invoice',
  'invoice.payment_failed': 'invoice',
  'charge.succeeded': 'charge',
  'charge.refunded': 'charge',
  'customer.subscription.updated': 'subscription',
  'payment_intent.succeeded': 'payment_intent',
};

export function stripeEvents(count: number, random: Random): SentEvent[] {
  return Array.from({ length: count }, () => {
    const id = `evt_${randomUUID().replaceAll('-', '')}`;
    const [type, object] = random.pick(Object.entries(OBJECTS));
    const event = {
      id,
      object: 'event',
      api_version: '2026-07-29.basil',
      created: Math.floor(Date.now() / 1000) - random.int(0, 3600),
      type,
      livemode: false,
      pending_webhooks: 1,
      data: {
        object: {
          id: `${object}_${random.int(1, 999)}`,
          object,
          amount: random.int(50, 99_999),
          currency: 'eur',
          ...(object === 'subscription' ? { status: random.pick(['active', 'past_due']) } : {}),
        },
      },
    };
    return { source: 'stripe', id, type, body: Buffer.from(JSON.stringify(event)) };
  });
}
