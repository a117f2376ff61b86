import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventTime } from '../events/event-time.js';
import { eventType } from '../events/event-fields.js';
import { basicCredentials, verifyBasicAuth } from '../signing/basic-auth.js';
import { checkSecretText } from '../signing/secret-check.js';
import type { SourceOptions } from '../source-options.js';
import { hours } from '../times.js';

const TIMES = ['ReceivedAt', 'DeliveredAt', 'BouncedAt', 'ChangedAt', 'Date'];

/**
 * Postmark, which signs nothing: put credentials into the webhook's URL. The secret is `user:password`.
 * @see https://postmarkapp.com/developer/webhooks/webhooks-overview
 */
export function postmark<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'postmark',
  docs: 'https://postmarkapp.com/developer/webhooks/webhooks-overview',
  scheme: 'HTTP basic authentication; nothing is signed',
  signed: { id: false, type: false, time: false },
  signsBody: false,
  checkSecret: checkCredentials,
  checkHead: (head) => void basicCredentials(head.headers.one('authorization')),
  verify: (request, secrets) => verifyBasicAuth(request.headers.one('authorization'), secrets),
  events: (_request, body) => [
    {
      presetId: () =>
        contentHash(body, ['RecordType', 'MessageID', 'ID', 'Recipient', 'Email', 'OriginalLink', ...TIMES]),
      // Inbound messages have no record type.
      type: eventType(body.at('RecordType') ?? 'Inbound'),
      occurredAt: TIMES.map((path) => eventTime(body.at(path))).find((time) => time !== undefined),
    },
  ],
  maxBytes: 50 * 1024 * 1024,
  retries: { automatic: true, windowMs: hours(10.5), sameBytes: false },
  notes: {
    id: 'hash of record type, message, bounce, recipient, link and time: the vendor sends no event id',
    stops: '403',
    more: 'anyone who knows the credentials can send anything',
    unconfirmed: 'id fields, retries of types other than inbound',
  },
};

function checkCredentials(secret: string): string | undefined {
  const wrong = checkSecretText(secret);
  if (wrong !== undefined) return wrong;
  return /^[^:]+:.+$/s.test(secret) ? undefined : 'is not `user:password`';
}
