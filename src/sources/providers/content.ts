import { contentHash } from '../events/content-hash.js';
import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { pairs, single } from '../signing/signature-text.js';
import { hours, minutes, seconds } from '../times.js';

/**
 * Sanity GROQ-powered webhooks. The secret is the webhook's.
 * @see https://www.sanity.io/docs/content-lake/webhook-best-practices
 */
export const sanity = /* @__PURE__ */ macSource({
  name: 'sanity',
  docs: 'https://github.com/sanity-io/webhook-toolkit',
  algorithm: 'sha256',
  encoding: 'base64url',
  key: textKey,
  signature: pairs('sanity-webhook-signature', { signature: 'v1', timestamp: 't' }),
  payload: '${timestamp}.${body}',
  timeUnit: 'milliseconds',
  idHeader: 'idempotency-key',
  idFallback: (body) => contentHash(body, 'body'),
  typeHeader: 'sanity-operation',
  keepHeaders: ['sanity-document-id', 'sanity-dataset', 'sanity-project-id'],
  retries: { automatic: true, windowMs: minutes(2), sameBytes: false },
  notes: {
    id: '`idempotency-key` header, else a hash of the body',
    unstable: 'the id is not signed',
    stops: 'only 429 and 5xx are retried',
    more: 'no window is prescribed: set `tolerance` to have one',
    unconfirmed: 'id and operation headers',
  },
});

/**
 * Typeform. The secret is the webhook's. Base64 follows `sha256=`, not hex.
 * @see https://www.typeform.com/developers/webhooks/secure-your-webhooks/
 */
export const typeform = /* @__PURE__ */ macSource({
  name: 'typeform',
  docs: 'https://www.typeform.com/developers/webhooks/secure-your-webhooks/',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: single('Typeform-Signature', 'sha256='),
  payload: '${body}',
  idPath: 'event_id',
  typePath: 'event_type',
  timePath: 'form_response.submitted_at',
  ackTimeoutMs: seconds(30),
  retries: { automatic: true, windowMs: hours(10), sameBytes: false, changes: [] },
  notes: {
    id: '`event_id` of the body',
    stops: '404 and 410 disable the webhook',
    unconfirmed: 'event id, retries, time-out',
  },
});

/**
 * Calendly. The secret is the subscription's signing key.
 * @see https://developer.calendly.com/api-docs/ZG9jOjM2MzE2MDM4-webhook-signatures
 */
export const calendly = /* @__PURE__ */ macSource({
  name: 'calendly',
  docs: 'https://developer.calendly.com/api-docs/ZG9jOjM2MzE2MDM4-webhook-signatures',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('Calendly-Webhook-Signature', { signature: 'v1', timestamp: 't' }),
  payload: '${timestamp}.${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
  idKey: { hash: ['event', 'created_at', 'payload.uri'] },
  typePath: 'event',
  timePath: 'created_at',
  retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
  notes: {
    id: 'hash of `event`, `created_at` and `payload.uri`: the vendor sends no event id',
    more: 'its sample uses a window of 3 minutes; after 24 h of failures the subscription is disabled',
    unconfirmed: 'the absence of an event id',
  },
});

/**
 * Zendesk. The secret is the webhook's signing secret, used as text.
 * @see https://developer.zendesk.com/documentation/webhooks/verifying/
 */
export const zendesk = /* @__PURE__ */ macSource({
  name: 'zendesk',
  docs: 'https://developer.zendesk.com/documentation/webhooks/verifying/',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: single('X-Zendesk-Webhook-Signature'),
  timestampHeader: 'X-Zendesk-Webhook-Signature-Timestamp',
  payload: '${timestamp}${body}',
  timeUnit: 'iso8601',
  toleranceMs: minutes(5),
  idHeader: 'X-Zendesk-Webhook-Invocation-Id',
  typePath: 'type',
  timePath: 'time',
  keepHeaders: ['x-zendesk-webhook-id', 'x-zendesk-account-id'],
  methods: ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'],
  ackTimeoutMs: seconds(12),
  retries: { automatic: true, windowMs: minutes(5), sameBytes: false },
  notes: {
    id: '`X-Zendesk-Webhook-Invocation-Id` header',
    unstable: 'the id is not signed',
    stops: 'most answers but 409, 429 and 503; a circuit breaker opens at 70 % errors',
    more: 'you write the body of a trigger’s webhook, so its type may be anywhere: see `dedupe` and `hmac()`',
    unconfirmed: 'window, retries, time-out',
  },
});

/**
 * Intercom. The secret is the app's client secret.
 * @see https://developers.intercom.com/docs/webhooks/webhook-notifications
 */
export const intercom = /* @__PURE__ */ macSource({
  name: 'intercom',
  docs: 'https://developers.intercom.com/docs/webhooks/webhook-notifications',
  algorithm: 'sha1',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Hub-Signature', 'sha1='),
  payload: '${body}',
  idPath: 'id',
  // The ping of the developer hub.
  idFallback: (body) => contentHash(body, 'body'),
  typePath: 'topic',
  timePath: 'created_at',
  ackTimeoutMs: seconds(5),
  retries: {
    automatic: true,
    windowMs: minutes(1),
    sameBytes: false,
    changes: ['delivery_status', 'delivery_attempts', 'delivered_at', 'first_sent_at'],
  },
  handshake: {
    methods: ['HEAD'],
    answer: (request) => (request.method === 'HEAD' ? { status: 200, body: '' } : undefined),
  },
  notes: {
    id: '`id` of the body (`notif_…`), else a hash of the body: a ping has none',
    unstable: '`delivery_attempts` and `first_sent_at` of the body',
    stops: '410 disables the webhook, 429 slows it down',
    handshake: 'HEAD when the URL is saved: 200',
    unconfirmed: 'retries, HEAD',
  },
});
