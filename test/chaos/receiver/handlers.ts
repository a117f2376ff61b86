import { Controller, HttpCode, Injectable, Post } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import {
  Event,
  OnEffect,
  OnWebhook,
  Outbox,
  TxManager,
  UseWebhook,
  type BatchContext,
  type BatchEvent,
  type EffectContext,
  type HandlerContext,
  type ProbeAnswer,
  type WebhookEvent,
} from '../../../src/index.js';
import { webhookEffect } from '../../../src/effects/index.js';
import { passing } from '../../support/fail-points.js';
import { MAX_ATTEMPTS } from './sources.js';
import { APPLY, COMPLETE } from './tables.js';

/** What the provider of a run sends. */
export interface Body {
  readonly resource: string;
}
/** What the sink is told. */
export interface Told {
  readonly source: string;
  readonly eventId: string;
}

export const retry = { base: 50, cap: 500, maxAttempts: MAX_ATTEMPTS };

const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
/** Of this very process: its clock may jump while it runs. */
const self = `${process.env.NAME ?? ''} ${process.pid}`;

/** Every source has the same work: a record, counted, and an effect. */
async function apply(manager: EntityManager, { source, eventId }: Told): Promise<void> {
  await passing('business record', () => manager.query(APPLY, [source, eventId, self, timeZone, new Date()]));
  // As long as a few more statements would take: a handler that ends at once is seldom met at work.
  await new Promise((resolve) => setTimeout(resolve, 30));
}

async function work(effect: string, event: WebhookEvent, { manager, enqueue }: HandlerContext) {
  await apply(manager, event);
  await enqueue(effect, { source: event.source, eventId: event.eventId });
}

@Injectable()
export class OwnHandler {
  @OnWebhook('own', '*', { retry, name: 'own', was: ['own-of-before'] })
  async own(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
  }
}

/** The same handler before it was renamed. */
@Injectable()
export class FormerOwnHandler {
  @OnWebhook('own', '*', { retry, name: 'own-of-before' })
  async own(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
  }
}

/** A handler that a later version adds: events that came just before it is there get it too. */
@Injectable()
export class ExtraHandler {
  @OnWebhook('own', '*', { retry, name: 'extra' })
  async extra(event: WebhookEvent, context: HandlerContext) {
    const told = { source: 'extra', eventId: event.eventId };
    await apply(context.manager, told);
    await context.enqueue('tell', told);
  }
}

@Injectable()
export class ChaosHandlers {
  @OnWebhook<Body>('keyed', '*', { retry, key: ({ payload }) => payload.resource })
  async keyed(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
  }

  @OnWebhook('batched', '*', { retry, batch: 5 })
  async batched(events: readonly BatchEvent[], { manager }: BatchContext) {
    for (const event of events) {
      await apply(manager, event);
      await event.enqueue('tell', { source: event.source, eventId: event.eventId });
    }
  }

  @OnWebhook('inline', '*', { retry, inline: true })
  async inline(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
  }

  @OnWebhook('patient', '*', { retry })
  async patient(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
    // With a result, the settle is a statement of its own before the COMMIT.
    return 'recorded';
  }

  @OnWebhook('timed', '*', { retry })
  async timed(event: WebhookEvent, context: HandlerContext) {
    await work('tell', event, context);
  }

  /** Schedules an effect that another one calls back. */
  @OnWebhook('recalled', '*', { retry })
  async recalled(event: WebhookEvent, context: HandlerContext) {
    await apply(context.manager, event);
    const told = { source: event.source, eventId: event.eventId };
    const { id } = await context.enqueue('remind', told, { delayMs: REMIND_MS });
    await context.enqueue('tell-and-recall', { ...told, reminder: id });
  }

  @OnWebhook('sent', '*', { retry })
  async sent(event: WebhookEvent, context: HandlerContext) {
    await work('send', event, context);
  }

  @OnWebhook('charged', '*', { retry })
  async charged(event: WebhookEvent, context: HandlerContext) {
    await work('charge', event, context);
  }

  @OnWebhook('completed', '*', { retry })
  async completed(event: WebhookEvent, context: HandlerContext) {
    await work('tell-and-complete', event, context);
    // With a result, the settle is a statement of its own before the COMMIT.
    return 'recorded';
  }
}

/** Longer than a run: what is not called back is pending at its end. */
const REMIND_MS = 3_600_000;
const SENT_SECRET = `whsec_${Buffer.from('a secret of the chaos programme').toString('base64')}`;

@Injectable()
export class ChaosEffects {
  constructor(private readonly outbox: Outbox) {}

  @OnEffect('tell', { retry })
  async tell(told: Told, context: EffectContext) {
    await post('idempotent', told, context);
  }

  /** At a rate that all instances share; and a destination that fails waits. */
  @OnEffect('tell-and-complete', { retry, rate: '40/s' })
  async tellAndComplete(told: Told, context: EffectContext) {
    if (context.previous === undefined) await post('idempotent', told, context);
    await context.complete(({ manager }) => manager.query(COMPLETE, [told.eventId]));
  }

  @OnEffect('remind', { retry })
  async remind(told: Told, context: EffectContext) {
    await post('idempotent', told, context);
  }

  @OnEffect('tell-and-recall', { retry })
  async tellAndRecall(told: Told & { readonly reminder: string }, context: EffectContext) {
    if (context.previous === undefined) await post('idempotent', told, context);
    await context.complete(({ manager }) => this.outbox.cancel(manager, 'remind', { id: told.reminder }));
  }

  /** A signed webhook, to one of some endpoints. */
  @OnEffect<Told>('send', { retry, destination: ({ eventId }) => `endpoint-${eventId.at(-1)}` })
  async send(data: Told, context: EffectContext) {
    await passing('call of an effect', async () => {
      const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };
      const url = `${process.env.SINK_URL}/idempotent`;
      await webhookEffect({ url, secrets: [SENT_SECRET], type: 'happened', data, allow }, context);
    });
  }

  /** At a sink that ignores keys; the probe knows nothing, but has each call's begin recorded. */
  @OnEffect('charge', { retry, probe: async (): Promise<ProbeAnswer> => 'unknown' })
  async charge(told: Told, context: EffectContext) {
    await post('raw', told, context);
  }
}

/** A route of the application's own, inside the claim's transaction. */
@Controller('hooks')
export class ChaosRoute {
  constructor(private readonly outbox: Outbox) {}

  @Post('routed')
  @HttpCode(200)
  @UseWebhook('routed')
  async routed(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
    await apply(manager, event);
    await this.outbox.enqueue(manager, 'tell', { source: event.source, eventId: event.eventId });
    return 'recorded';
  }
}

export async function post(kind: 'idempotent' | 'raw', told: Told, { key, signal, attempt }: EffectContext) {
  await passing('call of an effect', async () => {
    const response = await fetch(`${process.env.SINK_URL}/${kind}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ ...told, attempt }),
      signal,
    });
    await response.text();
    if (!response.ok) throw Object.assign(new Error('refused'), { status: response.status });
  });
}
