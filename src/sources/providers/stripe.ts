import { defineSource, type Scheme } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { pairs } from '../signing/signature-text.js';
import type { SourceFactory } from '../source-options.js';
import { days, minutes } from '../times.js';
import { STRIPE_TYPES } from '../types/stripe.types.js';

const WHERE = '(Workbench, Webhooks, the endpoint, Signing secret; or what `stripe listen` prints)';
/** Their prefixes are Stripe's own. As a webhook secret a key would verify nothing, and each delivery be answered 401. */
const API_KEY = /^(sk|rk|pk)_/;

/**
 * Stripe. The secret is the endpoint's signing secret, `whsec_…`, used as it stands.
 * @see https://docs.stripe.com/webhooks/signature
 */
export const stripe: SourceFactory = (options) => defineSource(scheme, options, {});

const mac = /* @__PURE__ */ macProvider({
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
  types: STRIPE_TYPES,
  timePath: 'created',
  retries: {
    automatic: true,
    windowMs: days(3),
    manualResendMs: days(30),
    sameBytes: false,
    changes: ['pending_webhooks'],
  },
  notes: {
    id: '`id` of the body (`evt_…`), the same on retries and on a manual resend',
    unstable: '`pending_webhooks` in the body; timestamp and signature are new for every attempt',
    stops: 'redirects count as failures',
    more: 'two different events may describe one change',
    unconfirmed: 'manual resend window, pending_webhooks',
  },
});

const scheme: Scheme = {
  ...mac,
  checkSecret: (secret) => {
    const [key] = API_KEY.exec(secret) ?? [];
    return key === undefined
      ? mac.checkSecret?.(secret)
      : `is a Stripe API key (${key}…): put the signing secret of this endpoint in its place, which begins with whsec_ ` +
          WHERE;
  },
  // A warning, no refusal: a sender in a test signs with any text.
  doubtSecret: (secret) =>
    secret.startsWith('whsec_')
      ? undefined
      : 'does not begin with whsec_, as the signing secret of every Stripe endpoint does: with another text each delivery of Stripe is ' +
        `answered 401. Put the signing secret of this endpoint in its place ${WHERE}`,
};
