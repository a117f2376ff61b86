import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';
import { PAY } from './tables.js';

interface InvoicePaid {
  readonly data: { readonly object: { readonly invoice: string; readonly amount: number } };
}

/** A slow handler, so that a backlog builds up while the provider repeats itself. */
const SLOW_MS = 100;

@Injectable()
export class ChaosBilling {
  @OnWebhook<InvoicePaid>('billing', 'invoice.paid', { retry: { base: 50, cap: 500 } })
  async paid({ source, eventId, payload }: WebhookEvent<InvoicePaid>, { manager, enqueue }: HandlerContext) {
    const { invoice, amount } = payload.data.object;
    await manager.query(PAY, [invoice, amount]);
    await sleep(SLOW_MS);
    await enqueue('tell', { source, eventId });
  }
}
