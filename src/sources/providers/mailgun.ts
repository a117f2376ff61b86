import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signedTime } from '../signing/signed-time.js';
import { checkJson, signedTextAt, unbelievedFields, UnbelievedJson } from '../signing/unbelieved-body.js';
import type { SourceOptions } from '../source-options.js';
import { hours, minutes } from '../times.js';
import { MAILGUN_TYPES } from '../types/mail.types.js';

/**
 * Mailgun. The secret is the webhook signing key. Only a timestamp and a random token are signed, and not the event. So anyone who has seen
 * one request can send any event inside the window.
 * @see https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks
 */
export function mailgun<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const mac: Mac = { algorithm: 'sha256', encoding: 'hex', key: textKey };

const scheme: Scheme = {
  name: 'mailgun',
  docs: 'https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks',
  scheme: 'HMAC-SHA256, hex, of `${timestamp}${token}` in the body; the event is not signed',
  signed: { id: false, type: false, time: true },
  timeUnit: 'seconds',
  signsBody: false,
  // No window is prescribed, and whether a retry is signed anew is not said: as long as retries go on.
  toleranceMs: hours(8) + minutes(5),
  checkSecret: checkSecretText,
  verify,
  events: eventFields({
    idPath: 'event-data.id',
    typePath: 'event-data.event',
    timePath: 'event-data.timestamp',
  }),
  types: MAILGUN_TYPES,
  retries: { automatic: true, windowMs: hours(8), sameBytes: false },
  notes: {
    id: '`event-data.id` of the body',
    unstable: '`signature.token` is random for every delivery',
    stops: '406; `delivered` is never retried at all',
    more: 'old form webhooks are verified too, and have no event id: give `dedupe`',
  },
};

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const isForm = request.headers
    .first('content-type')
    ?.toLowerCase()
    .startsWith('application/x-www-form-urlencoded');
  const { timestamp, token, signature } = isForm ? inForm(request.rawBody) : inJson(request.rawBody);
  if (typeof signature !== 'string' || typeof token !== 'string' || typeof timestamp !== 'string')
    throw new SignatureRejection('missing-signature', 'the body holds no timestamp, token and signature');
  const signedAt = signedTime(timestamp, 'seconds');
  const secret = verifyMac(mac, [timestamp, token], [signature], secrets);
  if (!isForm) checkJson(request.rawBody);
  return { secret, signedAt };
}

const FIELDS = ['timestamp', 'token', 'signature'] as const;
const MEMBERS = new Set(FIELDS);

/** The three, which stand in the body. */
interface Signed {
  readonly timestamp?: unknown;
  readonly token?: unknown;
  readonly signature?: unknown;
}

function inForm(bytes: Buffer): Signed {
  const fields = unbelievedFields(bytes, FIELDS);
  return Object.fromEntries(
    FIELDS.map((name) => [name, fields[name].length === 1 ? fields[name][0] : undefined]),
  );
}

function inJson(bytes: Buffer): Signed {
  const body = new UnbelievedJson(bytes, MEMBERS);
  return {
    timestamp: signedTextAt(body, 'signature.timestamp'),
    token: body.at('signature.token'),
    signature: body.at('signature.signature'),
  };
}
