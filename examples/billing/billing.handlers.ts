import { Injectable } from '@nestjs/common';
// In your application: 'nestjs-webhook-inbox'.
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { Invoice, Subscription } from './billing.entities.js';
import { SEND_RECEIPT } from './receipts.effect.js';

interface InvoicePaid {
  readonly data: { readonly object: { readonly id: string; readonly customer_email: string | null } };
}

interface SubscriptionChanged {
  readonly data: { readonly object: { readonly id: string; readonly status: string } };
}

@Injectable()
export class BillingHandlers {
  /**
   * The first `paid_at` stays: another event about the same invoice moves nothing. `businessRecord` names the entity, so the
   * reconciler runs the handler again where the record of a handled event is gone.
   */
  @OnWebhook<InvoicePaid>('stripe', 'invoice.paid', {
    businessRecord: { entity: Invoice, where: ({ payload }) => ({ id: payload.data.object.id }) },
  })
  async paid(event: WebhookEvent<InvoicePaid>, { manager, enqueue }: HandlerContext) {
    const { id, customer_email: email } = event.payload.data.object;
    // The event's own time, never now: a run that is repeated writes the same.
    const paidAt = event.occurredAt ?? event.receivedAt;
    const insert = manager.createQueryBuilder().insert().into(Invoice).values({ id, email, paidAt });
    const { raw } = (await insert.orIgnore().returning('id').execute()) as { raw: unknown[] };
    if (raw.length === 0) return 'was paid before';
    if (email !== null) await enqueue(SEND_RECEIPT, { invoice: id, email });
    return 'paid';
  }

  /** Stripe does not keep the order. An update that is older than the last one sets nothing. */
  @OnWebhook<SubscriptionChanged>('stripe', 'customer.subscription.*', {
    skipStale: { key: ({ payload }) => payload.data.object.id },
  })
  async changed({ payload }: WebhookEvent<SubscriptionChanged>, { manager }: HandlerContext) {
    const { id, status } = payload.data.object;
    await manager.upsert(Subscription, { id, status }, ['id']);
    return `subscription is ${status}`;
  }
}
