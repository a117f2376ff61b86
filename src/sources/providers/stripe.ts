import { macSource } from '../mac-source.js';
import { textKey } from '../signing/secret-key.js';
import { pairs } from '../signing/signature-text.js';
import { days, minutes } from '../times.js';

/**
 * Stripe. The secret is the endpoint's signing secret, `whsec_…`, used as it stands.
 * @see https://docs.stripe.com/webhooks/signature
 */
export const stripe = /* @__PURE__ */ macSource({
  name: 'stripe',
  docs: 'https://docs.stripe.com/webhooks/signature',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: pairs('Stripe-Signature', { signature: 'v1', timestamp: 't' }),
  payload: '${timestamp}.${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
  idPath: 'id',
  typePath: 'type',
  timePath: 'created',
  retries: { automatic: true, windowMs: days(3), manualResendMs: days(30), sameBytes: false },
  notes: {
    id: '`id` of the body (`evt_…`), the same on retries and on a manual resend',
    unstable: '`pending_webhooks` in the body; timestamp and signature are new for every attempt',
    stops: 'redirects count as failures',
    more: 'two different events may describe one change',
    unconfirmed: 'manual resend window, pending_webhooks',
  },
});
