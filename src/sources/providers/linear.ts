import { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { hours, minutes, seconds } from '../times.js';

/**
 * Linear. The secret is the webhook's signing secret. The time that counts is the signed `webhookTimestamp` of the body; the
 * header `Linear-Timestamp` is not signed and ignored. Retries go on for 7 h and may carry the first time: with
 * `tolerance: '425m'` they are accepted when the first delivery was lost.
 * @see https://linear.app/developers/webhooks
 */
export function linear<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const hmac = /* @__PURE__ */ macProvider({
  name: 'linear',
  docs: 'https://linear.app/developers/webhooks',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('Linear-Signature'),
  payload: '${body}',
  toleranceMs: minutes(1),
  idHeader: 'Linear-Delivery',
  typePath: ['type', 'action'],
  timePath: 'createdAt',
  keepHeaders: ['linear-event'],
  ackTimeoutMs: seconds(5),
  retries: { automatic: true, windowMs: hours(7), sameBytes: true, sameTimestamp: true },
  notes: {
    id: '`Linear-Delivery` header',
    unstable: 'the id is not signed',
    stops: '200 is expected',
    more: 'a retry may carry the first attempt’s time, outside the window of 60 s. It is a duplicate if its event is known. Widen `tolerance` to accept it when the first was lost',
    unconfirmed: 'retries, time-out, whether a retry keeps id and bytes',
  },
});

const scheme: Scheme = {
  ...hmac,
  signed: { ...hmac.signed, time: true },
  timeUnit: 'milliseconds',
  verify: async (request, secrets) => ({
    ...(await hmac.verify(request, secrets)),
    signedAt: signedTimeOf(request),
  }),
};

function signedTimeOf(request: WebhookRequest): number {
  const at = new BodyReader(request.rawBody).at('webhookTimestamp');
  if (at === undefined || at === null)
    throw new SignatureRejection('missing-timestamp', 'the body has no webhookTimestamp');
  if (!Number.isSafeInteger(at))
    throw new SignatureRejection('malformed-timestamp', 'webhookTimestamp is not a whole number');
  return Number(at);
}
