import { Module } from '@nestjs/common';
import { CustomerHandlers } from './customer.handlers.js';
import { GrantHandlers } from './grant.handlers.js';
import { InvoiceHandlers } from './invoice.handlers.js';
import { StripeApi } from './stripe.api.js';
import { SubscriptionHandlers } from './subscription.handlers.js';

/**
 * Handlers to copy: each may run as often as it likes, since a redelivery under another id, a replay or a second event about the same
 * thing is handled as a new one. They need the sources `stripe` and `awardee`, and the tables of `Billing1796000002000`.
 */
@Module({
  providers: [
    InvoiceHandlers,
    GrantHandlers,
    SubscriptionHandlers,
    CustomerHandlers,
    {
      provide: StripeApi,
      useFactory: () => new StripeApi('https://api.stripe.com', process.env.STRIPE_API_KEY ?? ''),
    },
  ],
})
export class RepeatSafeModule {}
