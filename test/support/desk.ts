import { Injectable } from '@nestjs/common';
import { hmac, stripe } from '../../src/index.js';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { AWARDEE_SECRET, STRIPE_SECRET } from './signing.js';

/** A switch that tests turn: whether the world is broken. */
export const world = { grantsFail: false, mailFails: false, chargesHang: false, sent: [] as unknown[] };

/** Handlers and effects to look at. */
@Injectable()
export class DeskHandlers {
  @OnWebhook('awardee', 'grant.*')
  async grant(event: WebhookEvent<{ amount?: number }>, { manager, enqueue }: HandlerContext) {
    if (world.grantsFail)
      throw new PermanentError(
        `account 'acct_${event.eventId}' is closed since 2026-01-0${event.eventId.length}`,
      );
    await manager.query(
      `INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)
           ON CONFLICT (source, event_id) DO UPDATE SET applied_count = received_event.applied_count + 1`,
      [event.source, event.eventId, event.type],
    );
    await enqueue('mail', { amount: event.payload?.amount ?? 0 });
    return 'granted';
  }

  @OnWebhook('stripe', 'invoice.paid')
  async paid() {
    return 'invoice marked paid';
  }

  @OnWebhook('awardee', 'charge.*')
  async charge(event: WebhookEvent, { enqueue }: HandlerContext) {
    await enqueue('charge', { event: event.eventId });
  }

  /** The service it calls honours no key, so that a call without an end is for a person. */
  @OnEffect('charge', { inDoubt: 'park' })
  async charged(payload: unknown) {
    if (world.chargesHang) throw new Error('socket hang up');
    world.sent.push(payload);
  }

  @OnEffect('mail')
  async mail(payload: unknown) {
    if (world.mailFails) throw new PermanentError('mailbox unavailable');
    world.sent.push(payload);
    return { sent: true };
  }
}

export const deskSources = {
  awardee: hmac({
    searchPaths: ['data.customer'],
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    idHeader: 'X-Awardee-Delivery',
    typeHeader: 'X-Awardee-Event',
  }),
  stripe: stripe({ secrets: [STRIPE_SECRET] }),
};
