import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { Stripe } from 'stripe';
import { secretOf } from '../support/secrets.js';
import type { PlayedSource, SentEvent } from './sent.event.js';

type Sign = (event: SentEvent, at: Date) => Record<string, string>;

/** How each provider signs. Stripe's and Standard Webhooks' own libraries do it where they can: the receiver is not to be its own judge. */
const SIGN: Readonly<Record<PlayedSource, Sign>> = {
  github: (event) => ({
    'user-agent': 'GitHub-Hookshot/example',
    'x-github-delivery': event.id,
    'x-github-event': event.type,
    'x-hub-signature-256': `sha256=${createHmac('sha256', secretOf('github')).update(event.body).digest('hex')}`,
  }),
  shopify: (event) => ({
    'x-shopify-webhook-id': event.id,
    'x-shopify-topic': event.type,
    'x-shopify-hmac-sha256': createHmac('sha256', secretOf('shopify')).update(event.body).digest('base64'),
  }),
  'standard-webhooks': (event, at) => ({
    'webhook-id': event.id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secretOf('standard-webhooks')).sign(event.id, at, event.body.toString()),
  }),
  stripe: (event, at) => ({
    'stripe-signature': Stripe.webhooks.generateTestHeaderString({
      payload: event.body.toString(),
      secret: secretOf('stripe'),
      timestamp: Math.floor(at.getTime() / 1000),
    }),
  }),
};

/** The headers of one delivery, signed at `at`. */
export function signed(event: SentEvent, at: Date): Record<string, string> {
  return { 'content-type': 'application/json', ...SIGN[event.source](event, at) };
}

/** Whether the scheme signs the time, so that an old request can be told. */
export function signsTime({ source }: SentEvent): boolean {
  return source === 'stripe' || source === 'standard-webhooks';
}
