import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { firstOf, single } from '../signing/signature-text.js';
import { hours, seconds } from '../times.js';
import { SHOPIFY_TYPES } from '../types/shopify.types.js';

/**
 * Shopify. The secret is the app's client secret (`shpss_…`), or, for webhooks made in the admin, the one shown there.
 * `dedupe: { header: 'X-Shopify-Event-Id' }` makes several topics of one action one event.
 * @see https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
 */
export const shopify = /* @__PURE__ */ macSource({
  name: 'shopify',
  docs: 'https://shopify.dev/docs/apps/build/webhooks/verify-deliveries',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: firstOf(['Shopify-Hmac-Sha256', 'X-Shopify-Hmac-Sha256'], single),
  payload: '${body}',
  refuseEmptyBody: true,
  idHeader: ['Shopify-Webhook-Id', 'X-Shopify-Webhook-Id'],
  typeHeader: ['Shopify-Topic', 'X-Shopify-Topic'],
  types: SHOPIFY_TYPES,
  keepHeaders: [
    'x-shopify-event-id',
    'x-shopify-shop-domain',
    'x-shopify-api-version',
    'x-shopify-triggered-at',
    'shopify-event-id',
    'shopify-shop-domain',
    'shopify-api-version',
    'shopify-action',
    'shopify-handle',
  ],
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(4), sameBytes: true },
  notes: {
    id: '`X-Shopify-Webhook-Id` header (`Shopify-Webhook-Id` for Events)',
    unstable:
      'id, topic and shop are in headers that no signature covers; `X-Shopify-Event-Id` is shared by all topics of one action',
    stops: 'the subscription is removed after 8 failures in a row',
  },
});
