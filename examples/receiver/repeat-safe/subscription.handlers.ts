import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';

interface SubscriptionChanged {
  readonly data: { readonly object: { readonly id: string; readonly status: string } };
}

const SET_STATUS = `
  INSERT INTO subscription (id, status) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status`;

/** Sets a state, where toggling or counting would depend on how often it runs; and what is older than the last one sets nothing. */
@Injectable()
export class SubscriptionHandlers {
  @OnWebhook<SubscriptionChanged>('stripe', 'customer.subscription.*', {
    skipStale: { key: ({ payload }) => payload.data.object.id },
  })
  async changed({ payload }: WebhookEvent<SubscriptionChanged>, { manager }: HandlerContext) {
    const { id, status } = payload.data.object;
    await manager.query(SET_STATUS, [id, status]);
    return `subscription ${status}`;
  }
}
