import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { pairs, single } from '../signing/signature-text.js';
import { hours, minutes, seconds } from '../times.js';
import { MUX_TYPES, WORKOS_TYPES } from '../types/platforms.types.js';

/**
 * Sentry integrations. The secret is the integration's client secret.
 * @see https://docs.sentry.io/organization/integrations/integration-platform/webhooks/
 */
export const sentry = /* @__PURE__ */ macSource({
  name: 'sentry',
  docs: 'https://docs.sentry.io/organization/integrations/integration-platform/webhooks/',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('Sentry-Hook-Signature'),
  payload: '${body}',
  idHeader: 'Request-ID',
  typeHeader: 'Sentry-Hook-Resource',
  keepHeaders: ['sentry-hook-timestamp'],
  ackTimeoutMs: seconds(1),
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: '`Request-ID` header',
    unstable: 'id, resource and `Sentry-Hook-Timestamp` are not signed',
    more: 'the action (`created`, `resolved`, …) is `action` of the body',
    unconfirmed: 'retries, the time-out of 1 s',
  },
});

/**
 * PagerDuty V3 webhooks. The secret is the subscription's signing secret, used as text although it looks like base64.
 * @see https://developer.pagerduty.com/docs/verifying-webhook-signatures
 */
export const pagerDuty = /* @__PURE__ */ macSource({
  name: 'pagerduty',
  docs: 'https://developer.pagerduty.com/docs/verifying-webhook-signatures',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('X-PagerDuty-Signature', { signature: 'v1' }),
  payload: '${body}',
  idPath: 'event.id',
  typePath: 'event.event_type',
  timePath: 'event.occurred_at',
  keepHeaders: ['x-webhook-id', 'x-webhook-subscription'],
  maxBytes: 2 * 1024 * 1024,
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(48), sameBytes: false, changes: [] },
  notes: {
    id: '`event.id` of the body',
    stops: '4xx except 429 drops the event for good, so a wrong secret loses events',
    more: 'later webhooks wait behind a failing one. Three drops in a row disable the subscription for 24 h',
  },
});

/**
 * Vercel. The secret is the account webhook's, or the integration's client secret.
 * @see https://vercel.com/docs/webhooks/webhooks-api
 */
export const vercel = /* @__PURE__ */ macSource({
  name: 'vercel',
  docs: 'https://vercel.com/docs/webhooks/webhooks-api',
  algorithm: 'sha1',
  encoding: 'hex',
  key: textKey,
  signature: single('x-vercel-signature'),
  payload: '${body}',
  idPath: 'id',
  typePath: 'type',
  timePath: 'createdAt',
  ackTimeoutMs: seconds(30),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
  notes: { id: '`id` of the body', unconfirmed: 'event id' },
});

/**
 * Mux. The secret is the webhook's signing secret, used as it stands.
 * @see https://www.mux.com/docs/core/verify-webhook-signatures
 */
export const mux = /* @__PURE__ */ macSource({
  name: 'mux',
  docs: 'https://www.mux.com/docs/core/verify-webhook-signatures',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('Mux-Signature', { signature: 'v1', timestamp: 't' }),
  payload: '${timestamp}.${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
  idPath: 'id',
  typePath: 'type',
  types: MUX_TYPES,
  timePath: 'created_at',
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: ['attempts'] },
  notes: {
    id: '`id` of the body',
    unstable: '`attempts` in the body grows with each attempt',
    unconfirmed: 'retries',
  },
});

/**
 * WorkOS. The secret is the endpoint's.
 * @see https://workos.com/docs/events/data-syncing/webhooks
 */
export const workOs = /* @__PURE__ */ macSource({
  name: 'workos',
  docs: 'https://workos.com/docs/events/data-syncing/webhooks',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('WorkOS-Signature', { signature: 'v1', timestamp: 't', spaced: true }),
  payload: '${timestamp}.${body}',
  timeUnit: 'milliseconds',
  toleranceMs: minutes(3),
  idPath: 'id',
  typePath: 'event',
  types: WORKOS_TYPES,
  timePath: 'created_at',
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: { id: '`id` of the body', unconfirmed: 'retries' },
});

/**
 * Emailit. The secret is used whole, `whsec_` included.
 * @see https://emailit.com/docs/webhooks/request-signature
 */
export const emailit = /* @__PURE__ */ macSource({
  name: 'emailit',
  docs: 'https://emailit.com/docs/webhooks/request-signature.md',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Emailit-Signature'),
  timestampHeader: 'X-Emailit-Timestamp',
  payload: '${timestamp}.${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
  idKey: { hash: 'body' },
  typePath: 'type',
  retries: { automatic: true, sameBytes: false },
  notes: {
    id: 'hash of the body: no page with an event id was at hand',
    unstable: 'retries are signed again with a fresh timestamp',
    unconfirmed: 'window, event fields',
  },
});

/**
 * Podium. The secret is the webhook's.
 * @see https://docs.podium.com/docs/verifying-webhook-signatures
 */
export const podium = /* @__PURE__ */ macSource({
  name: 'podium',
  docs: 'https://docs.podium.com/docs/verifying-webhook-signatures',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('podium-signature'),
  timestampHeader: 'podium-timestamp',
  payload: '${timestamp}.${body}',
  timeUnit: 'milliseconds',
  toleranceMs: minutes(5),
  idKey: { hash: 'body' },
  typePath: 'metadata.eventType',
  retries: { automatic: true, windowMs: hours(8), sameBytes: false },
  notes: {
    id: 'hash of the body: no page with an event id was at hand',
    more: 'other events wait while one fails; after 8 h the webhook is disabled',
    unconfirmed: 'hex, window, event fields',
  },
});
