import { randomUUID } from 'node:crypto';
import type { Random } from '../random.js';
import type { SentEvent } from '../sent.event.js';

const TYPES = ['user.created', 'user.updated', 'invoice.paid', 'message.bounced'];

/** Events of a sender that follows Standard Webhooks: the id is in a header, type and time are in the body. */
export function standardEvents(count: number, random: Random): SentEvent[] {
  return Array.from({ length: count }, () => {
    const type = random.pick(TYPES);
    const event = {
      type,
      timestamp: new Date(Date.now() - random.int(0, 3_600_000)).toISOString(),
      data: { id: random.int(1, 999), note: random.pick(['plain', 'Grüße', '日本', '🦉']) },
    };
    return {
      source: 'standard-webhooks',
      id: `msg_${randomUUID().replaceAll('-', '')}`,
      type,
      body: Buffer.from(JSON.stringify(event)),
    };
  });
}
