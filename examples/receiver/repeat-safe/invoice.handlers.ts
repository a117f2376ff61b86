import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';

interface InvoicePaid {
  readonly data: { readonly object: { readonly id: string } };
}

/** The first paid_at stays: an event that is replayed next year, or a second one about the same invoice, moves nothing. */
const PAID = `
  INSERT INTO invoice (id, status, paid_at) VALUES ($1, 'paid', $2)
      ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status, paid_at = coalesce(invoice.paid_at, EXCLUDED.paid_at)`;

/** An upsert that keeps first values. */
@Injectable()
export class InvoiceHandlers {
  @OnWebhook<InvoicePaid>('stripe', 'invoice.paid')
  async paid({ payload, occurredAt, receivedAt }: WebhookEvent<InvoicePaid>, { manager }: HandlerContext) {
    // The event's own time, never now: a run that is repeated must write what the first one wrote.
    await manager.query(PAID, [payload.data.object.id, occurredAt ?? receivedAt]);
    return 'invoice paid';
  }
}
