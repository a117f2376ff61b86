import { EMPTY_OK } from '../challenge.js';
import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import { hours, seconds } from '../times.js';

/**
 * Xero. The secret is the webhook key, used as text although it looks like base64.
 * The intent to receive is checked with right and wrong signatures, which need 200 and 401, each with an empty body.
 * @see https://developer.xero.com/documentation/guides/webhooks/overview/
 */
export const xero = /* @__PURE__ */ macSource({
  name: 'xero',
  docs: 'https://developer.xero.com/documentation/guides/webhooks/overview/',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: single('x-xero-signature'),
  payload: '${body}',
  eventsPath: 'events',
  idPath: ['tenantId', 'eventCategory', 'eventType', 'resourceId', 'eventDateUtc'],
  typePath: ['eventCategory', 'eventType'],
  timePath: 'eventDateUtc',
  ack: EMPTY_OK,
  refusal: { status: 401, body: '' },
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
  notes: {
    id: 'tenant, category, type, resource and date of each event: the vendor sends no event id',
    unstable: '`entropy` of the body',
    handshake: 'intent to receive: ordinary POSTs without events, some signed wrongly',
    more: '200 and 401 need an empty body and no cookies',
    unconfirmed: 'retries, event fields, the rule on empty bodies and cookies',
  },
});
