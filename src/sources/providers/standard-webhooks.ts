import { standardWebhooksSource } from '../standard-webhooks-source.js';
import { whsecKey } from '../signing/secret-key.js';
import { hours } from '../times.js';

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
  retries: { automatic: true, windowMs: hours(75.6), sameBytes: true },
  notes: {
    stops: '410 disables the endpoint; 429, 502 and 504 slow it down',
    more: 'the retry window is what the specification recommends',
  },
});
