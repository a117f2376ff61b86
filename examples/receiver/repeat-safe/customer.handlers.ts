import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';
import { StripeApi, type Customer } from './stripe.api.js';

interface CustomerChanged {
  readonly data: { readonly object: { readonly id: string } };
}

const KEEP = `
  INSERT INTO customer (id, email) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET email = EXCLUDED.email`;

/**
 * Takes only the id from the event, and the state from the provider: whatever came late, twice or out of order, what is written is
 * what is true now. It costs a call for each event; a burst about one customer shares one.
 */
@Injectable()
export class CustomerHandlers {
  constructor(private readonly stripe: StripeApi) {}

  @OnWebhook<CustomerChanged>('stripe', 'customer.updated', {
    hydrate: {
      key: ({ payload }) => payload.data.object.id,
      fetch(this: CustomerHandlers, { payload }, { signal }) {
        return this.stripe.customer(payload.data.object.id, signal);
      },
    },
  })
  async changed(_event: WebhookEvent<CustomerChanged>, { manager, current }: HandlerContext) {
    const { id, email, deleted } = current as Customer;
    if (deleted === true) {
      await manager.query('DELETE FROM customer WHERE id = $1', [id]);
      return 'customer is gone';
    }
    await manager.query(KEEP, [id, email]);
    return 'customer as it is now';
  }
}
