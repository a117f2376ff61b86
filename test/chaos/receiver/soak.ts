import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';
import { APPLY } from './tables.js';

/** As little as a handler does: what is to be seen is what the package itself leaves behind. */
@Injectable()
export class ChaosSoak {
  @OnWebhook('soaked', '*', { retry: { base: 50, cap: 500 } })
  async soaked({ source, eventId }: WebhookEvent, { manager, enqueue }: HandlerContext) {
    await manager.query(APPLY, [source, eventId, process.env.NAME, 'UTC', new Date()]);
    await enqueue('tell', { source, eventId });
    return 'recorded';
  }
}
