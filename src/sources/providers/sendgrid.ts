import type { KeyObject } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { decodeStrict } from '../signing/digest.js';
import { matchKey, publicKeyFromText } from '../signing/public-key.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { hours, seconds } from '../times.js';
import { SENDGRID_TYPES } from '../types/mail.types.js';

const SIGNATURE = 'X-Twilio-Email-Event-Webhook-Signature';
const TIMESTAMP = 'X-Twilio-Email-Event-Webhook-Timestamp';

/**
 * SendGrid event webhook. The secret is the verification key shown with the webhook, base64 of an EC public key.
 * @see https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
 */
export function sendGrid<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'sendgrid',
  docs: 'https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features',
  scheme: 'ECDSA P-256 with SHA-256, base64 of DER, of `${timestamp}${body}`',
  signed: { id: true, type: true, time: true },
  timeUnit: 'seconds',
  checkSecret: (secret) =>
    ecKey(secret) === undefined
      ? 'is not the verification key of an event webhook (base64, MFkw…)'
      : undefined,
  checkHead: (head) => void signatureHeader(head, SIGNATURE),
  verify,
  batched: true,
  events: eventFields({ eventsPath: '', idPath: 'sg_event_id', typePath: 'event', timePath: 'timestamp' }),
  types: SENDGRID_TYPES,
  ackTimeoutMs: seconds(10),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
  notes: {
    id: '`sg_event_id` of each event',
    unstable: 'events may be batched otherwise on retry; signatures are malleable, so they are never a key',
    stops: '2xx only, 4xx are retried',
    more: 'no window is prescribed: set `tolerance` to have one',
    unconfirmed: 'retries, time-out',
  },
};

function ecKey(secret: string): KeyObject | undefined {
  const key = publicKeyFromText(secret);
  return key?.asymmetricKeyType === 'ec' ? key : undefined;
}

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const signature = decodeStrict(signatureHeader(request, SIGNATURE), 'base64');
  if (signature === undefined)
    throw new SignatureRejection('malformed-signature', `${SIGNATURE} is no base64`);
  const timestamp = request.headers.one(TIMESTAMP);
  const signedAt = signedTime(timestamp, 'seconds');
  const content = Buffer.concat([Buffer.from(timestamp ?? ''), request.rawBody]);
  return { secret: matchKey('sha256', content, signature, secrets.map(ecKey)), signedAt };
}
