import { Inject, Injectable } from '@nestjs/common';
import { OnEffect, type EffectContext } from '../../src/index.js';

export const SEND_RECEIPT = 'send-receipt';
/** URL of the mail service. */
export const MAIL_URL = Symbol('mail url');

export interface Receipt {
  readonly invoice: string;
  readonly email: string;
}

/** Sends a receipt after the commit of the handler. The mail service knows the key, and sends one mail for each. */
@Injectable()
export class ReceiptsEffect {
  constructor(@Inject(MAIL_URL) private readonly url: string) {}

  @OnEffect<Receipt>(SEND_RECEIPT)
  async send(receipt: Receipt, { key, signal }: EffectContext) {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(receipt),
      signal,
    });
    await response.text();
    // The status says whether another attempt can help.
    if (!response.ok) throw Object.assign(new Error('the mail service refused'), { status: response.status });
  }
}
