import { Injectable } from '@nestjs/common';
import { OnEffect, type EffectContext } from '../../src/index.js';
import { Settings } from './settings.js';

export const NOTIFY = 'notify';

/** What the other side is told. */
export interface Notification {
  readonly source: string;
  readonly eventId: string;
  readonly type: string;
}

/** Not a 2xx. Status and headers are what the retry policy goes by: a 403 is final, a 503 with Retry-After is not. */
class Refused extends Error {
  constructor(
    readonly status: number,
    readonly headers: Headers,
  ) {
    super(`the notified service answered ${status}`);
  }
}

/** Tells another service about an event, once: the outbox id is the key by which it recognises a repetition. */
@Injectable()
export class NotifyEffect {
  constructor(private readonly settings: Settings) {}

  @OnEffect(NOTIFY)
  async notify(notification: Notification, { key, signal }: EffectContext) {
    if (this.settings.effectUrl === undefined) return 'EFFECT_URL is not set';
    const response = await fetch(this.settings.effectUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(notification),
      signal,
    });
    // Read to its end, so that the connection can be used again.
    await response.text();
    if (!response.ok) throw new Refused(response.status, response.headers);
    return { status: response.status };
  }
}
