import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { pairs, single } from '../signing/signature-text.js';
import { days, hours, seconds } from '../times.js';
import { LEMON_SQUEEZY_TYPES, PADDLE_TYPES } from '../types/payments.types.js';

/**
 * Paddle Billing. The secret is the notification destination's, `pdl_ntfset_…`, used as it stands.
 * @see https://developer.paddle.com/webhooks/about/signature-verification
 */
export const paddle = /* @__PURE__ */ macSource({
  name: 'paddle',
  docs: 'https://developer.paddle.com/webhooks/about/signature-verification',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('Paddle-Signature', { separator: ';', signature: 'h1', timestamp: 'ts' }),
  payload: '${timestamp}:${body}',
  timeUnit: 'seconds',
  toleranceMs: seconds(5),
  idPath: 'event_id',
  typePath: 'event_type',
  types: PADDLE_TYPES,
  timePath: 'occurred_at',
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: days(3), sameBytes: false, changes: ['notification_id'] },
  notes: {
    id: '`event_id` of the body',
    unstable: '`notification_id` is another one for each destination',
    stops: '200 is expected',
    more: 'the window of 5 s is Paddle’s own; widen `tolerance` where clocks are less exact',
    unconfirmed: '`notification_id` per destination',
  },
});

/**
 * Lemon Squeezy. The secret is the one given when the webhook was created.
 * @see https://docs.lemonsqueezy.com/help/webhooks/signing-requests
 */
export const lemonSqueezy = /* @__PURE__ */ macSource({
  name: 'lemonsqueezy',
  docs: 'https://docs.lemonsqueezy.com/help/webhooks/signing-requests',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Signature'),
  payload: '${body}',
  idKey: { hash: ['meta.event_name', 'data.type', 'data.id', 'data.attributes.updated_at'] },
  typePath: 'meta.event_name',
  types: LEMON_SQUEEZY_TYPES,
  timePath: 'data.attributes.updated_at',
  retries: { automatic: true, windowMs: seconds(155), sameBytes: false, changes: [] },
  notes: {
    id: 'hash of event name, type, id and `updated_at` of the object: the vendor sends no event id',
    stops: '200 is expected',
    unconfirmed: 'retries, the absence of an event id',
  },
});

/**
 * Razorpay. The secret is the webhook's own, not the API key's. After a change keep the old one for 24 h: retries of older
 * events are still signed with it.
 * @see https://razorpay.com/docs/webhooks/validate-test/
 */
export const razorpay = /* @__PURE__ */ macSource({
  name: 'razorpay',
  docs: 'https://razorpay.com/docs/webhooks/validate-test/',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Razorpay-Signature'),
  payload: '${body}',
  idHeader: 'X-Razorpay-Event-Id',
  typePath: 'event',
  timePath: 'created_at',
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false },
  notes: {
    id: '`x-razorpay-event-id` header',
    unstable: 'the id is not signed',
    more: 'after 24 h of failures the webhook is disabled',
  },
});

/**
 * Paystack. The secret is the API secret key, `sk_…`.
 * @see https://paystack.com/docs/payments/webhooks/
 */
export const paystack = /* @__PURE__ */ macSource({
  name: 'paystack',
  docs: 'https://paystack.com/docs/payments/webhooks/',
  algorithm: 'sha512',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Paystack-Signature'),
  payload: '${body}',
  idKey: { hash: ['event', 'data'] },
  typePath: 'event',
  timePath: 'data.created_at',
  retries: { automatic: true, windowMs: hours(72), sameBytes: false, changes: [] },
  notes: {
    id: 'hash of `event` and `data`: the vendor sends no event id',
    stops: '200 is expected',
    unconfirmed: 'retries, the absence of an event id',
  },
});

/**
 * Coinbase Commerce. The secret is the webhook shared secret.
 * @see https://github.com/coinbase/coinbase-commerce-node/blob/master/lib/Webhook.js
 */
export const coinbaseCommerce = /* @__PURE__ */ macSource({
  name: 'coinbase-commerce',
  docs: 'https://github.com/coinbase/coinbase-commerce-node/blob/master/lib/Webhook.js',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('X-CC-Webhook-Signature'),
  payload: '${body}',
  idPath: 'event.id',
  typePath: 'event.type',
  timePath: 'event.created_at',
  retries: {
    automatic: true,
    windowMs: days(3),
    sameBytes: false,
    changes: ['id', 'attempt_number', 'scheduled_for'],
  },
  notes: {
    id: '`event.id` of the body',
    unstable: '`id`, `attempt_number` and `scheduled_for` of the body are new for every attempt',
    stops: '200 is expected',
    unconfirmed: 'retries',
  },
});

/**
 * GoCardless. The secret is the webhook endpoint's. One body carries up to 250 events.
 * @see https://developer.gocardless.com/getting-started/api/staying-up-to-date-with-webhooks
 */
export const goCardless = /* @__PURE__ */ macSource({
  name: 'gocardless',
  docs: 'https://developer.gocardless.com/getting-started/api/staying-up-to-date-with-webhooks',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('Webhook-Signature'),
  payload: '${body}',
  eventsPath: 'events',
  idPath: 'id',
  typePath: ['resource_type', 'action'],
  timePath: 'created_at',
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: {
    id: '`events[].id`',
    more: 'its documentation answers a bad signature with 498; 401 works as well',
    unconfirmed: 'event fields, retries, 498',
  },
});
