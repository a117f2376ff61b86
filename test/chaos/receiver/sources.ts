import { hmac, stripe, type HmacOptions, type WebhooksOptions } from '../../../src/index.js';
import { AWARDEE_SECRET, STRIPE_SECRET } from '../../support/signing.js';

/** The sources of a run, each with a policy of its own. `routed` is handled by a route with `@UseWebhook`. */
export const SOURCES = [
  'own',
  'keyed',
  'batched',
  'inline',
  'patient',
  'routed',
  'charged',
  'completed',
  'timed',
  'recalled',
  'sent',
] as const;
export type ChaosSource = (typeof SOURCES)[number] | 'soaked';

/** Attempts that no run of kills uses up: a dead row would be a finding. */
export const MAX_ATTEMPTS = 30;

const source = (options: Partial<HmacOptions> = {}) =>
  hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    idHeader: 'X-Awardee-Delivery',
    typeHeader: 'X-Awardee-Event',
    retriesSameBytes: true,
    maxAttempts: MAX_ATTEMPTS,
    ...options,
  });

/** @param keptMs how long claims of the soak are kept */
export function chaosSources(keptMs?: number): WebhooksOptions['sources'] {
  return {
    own: source(),
    keyed: source(),
    batched: source(),
    inline: source(),
    patient: source({ retries: 'provider', ackTimeout: '5s' }),
    routed: source({ ackTimeout: '5s' }),
    charged: source(),
    completed: source(),
    recalled: source(),
    sent: source(),
    // Its provider signs the time, and the receiver's clock has to be right within five minutes.
    timed: stripe({ secrets: [STRIPE_SECRET], maxAttempts: MAX_ATTEMPTS }),
    // For days that pass in minutes.
    soaked: source({ retryWindow: '1s', manualResendWindow: '1s', retention: keptMs }),
    // For senders whom nobody believes.
    packed: source({ encodings: ['gzip'], maxBytes: 25 * 1024 * 1024 }),
    // For storms of duplicates.
    billing: stripe({ secrets: [STRIPE_SECRET] }),
  };
}
