import { standardWebhooksSource } from '../standard-webhooks-source.js';
import { textKey, whsecKey } from '../signing/mac.js';
import { days, hours, minutes, seconds } from '../times.js';
import { RESEND_TYPES } from '../types/mail.types.js';
import { POLAR_TYPES } from '../types/payments.types.js';
import { CLERK_TYPES, OPENAI_TYPES } from '../types/platforms.types.js';

const svixRetries = { automatic: true, windowMs: hours(27.6), sameBytes: true } as const;
const svixNotes = {
  unstable: 'timestamp and signature are new for every attempt',
  stops: 'the response header `webhook-delivery: abort-message`',
} as const;

/**
 * Standard Webhooks, the scheme that many vendors share. Secrets are `whsec_` + base64 (v1, HMAC), or `whpk_` + base64 of an
 * Ed25519 public key (v1a); a secret of one kind is never tried against signatures of the other.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export const standardWebhooks = /* @__PURE__ */ standardWebhooksSource({
  name: 'standard-webhooks',
  docs: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md',
  key: whsecKey,
  typePath: 'type',
  timePath: 'timestamp',
  retries: { automatic: true, windowMs: hours(75.6), sameBytes: false, changes: [] },
  notes: {
    stops: '410 disables the endpoint; 429, 502 and 504 slow it down',
    more: 'the retry window is the one that the specification recommends',
  },
});

/**
 * Svix. Secrets are `whsec_` + base64, or `whpk_` + base64. Reads `svix-*` headers, and `webhook-*` where those are absent.
 * @see https://docs.svix.com/receiving/verifying-payloads/how-manual
 */
export const svix = /* @__PURE__ */ standardWebhooksSource({
  name: 'svix',
  docs: 'https://docs.svix.com/receiving/verifying-payloads/how-manual',
  key: whsecKey,
  families: ['svix', 'webhook'],
  typePath: 'type',
  ackTimeoutMs: seconds(15),
  retries: svixRetries,
  notes: { ...svixNotes, more: 'the sender chooses the place of the type, by convention `type`' },
});

/**
 * Clerk, which sends through Svix. The secret is `whsec_` + base64.
 * @see https://clerk.com/docs/guides/development/webhooks/overview
 */
export const clerk = /* @__PURE__ */ standardWebhooksSource({
  name: 'clerk',
  docs: 'https://clerk.com/docs/guides/development/webhooks/overview',
  key: whsecKey,
  families: ['svix', 'webhook'],
  typePath: 'type',
  types: CLERK_TYPES,
  timePath: 'timestamp',
  ackTimeoutMs: seconds(15),
  retries: svixRetries,
  notes: svixNotes,
});

/**
 * Resend, which sends through Svix. The secret is `whsec_` + base64.
 * @see https://resend.com/docs/webhooks/verify-webhooks-requests
 */
export const resend = /* @__PURE__ */ standardWebhooksSource({
  name: 'resend',
  docs: 'https://resend.com/docs/webhooks/retries-and-replays',
  key: whsecKey,
  families: ['svix', 'webhook'],
  typePath: 'type',
  types: RESEND_TYPES,
  timePath: 'created_at',
  ackTimeoutMs: seconds(15),
  retries: svixRetries,
  notes: { ...svixNotes, more: 'a person can have failed and succeeded messages sent again' },
});

/**
 * OpenAI. The secret is `whsec_` + base64.
 * @see https://platform.openai.com/docs/guides/webhooks
 */
export const openai = /* @__PURE__ */ standardWebhooksSource({
  name: 'openai',
  docs: 'https://platform.openai.com/docs/guides/webhooks',
  key: whsecKey,
  typePath: 'type',
  types: OPENAI_TYPES,
  timePath: 'created_at',
  retries: { automatic: true, windowMs: hours(72), sameBytes: false, changes: [] },
  notes: { stops: '3xx count as failures', unconfirmed: 'retries' },
});

/**
 * Replicate. The secret is `whsec_` + base64, from its API.
 * @see https://replicate.com/docs/topics/webhooks/verify-webhook
 */
export const replicate = /* @__PURE__ */ standardWebhooksSource({
  name: 'replicate',
  docs: 'https://replicate.com/docs/topics/webhooks/verify-webhook',
  key: whsecKey,
  typePath: 'status',
  timePath: 'created_at',
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: { more: 'the type is the prediction’s `status`', unconfirmed: 'retries' },
});

/**
 * Polar. The secret is used as text, not decoded.
 * @see https://polar.sh/docs/integrate/webhooks/delivery
 */
export const polar = /* @__PURE__ */ standardWebhooksSource({
  name: 'polar',
  docs: 'https://polar.sh/docs/integrate/webhooks/delivery',
  key: textKey,
  typePath: 'type',
  types: POLAR_TYPES,
  timePath: 'timestamp',
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: { unconfirmed: 'retries' },
});

/**
 * BigCommerce. The secret is the app's client secret, used as text.
 * @see https://developer.bigcommerce.com/docs/integrations/webhooks
 */
export const bigCommerce = /* @__PURE__ */ standardWebhooksSource({
  name: 'bigcommerce',
  docs: 'https://developer.bigcommerce.com/docs/integrations/webhooks',
  key: textKey,
  typePath: 'scope',
  timePath: 'created_at',
  retries: { automatic: true, windowMs: days(2) + minutes(30), sameBytes: false, changes: [] },
  notes: {
    stops: '200 is expected; below 90 % of successes the domain is blocked for 3 minutes',
    more: "`hash` of the body is the same for the same content: `dedupe: { path: 'hash' }` drops repeats",
    unconfirmed: 'whether a retry keeps `webhook-id`',
  },
});
