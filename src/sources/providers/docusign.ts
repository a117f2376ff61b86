import type { RequestHead } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventTime } from '../events/event-time.js';
import { eventType } from '../events/event-fields.js';
import { macScheme } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { signatureHeader, type SignatureText } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { days, seconds } from '../times.js';

/** Headers that are read: DocuSign numbers them from 1, one for each active key of the account. */
const MAX_KEYS = 10;

/**
 * DocuSign Connect. The secret is an HMAC key as shown, used as text. There is one header for each active key.
 * @see https://developers.docusign.com/platform/webhooks/connect/hmac/
 */
export function docuSign<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'docusign',
  docs: 'https://developers.docusign.com/platform/webhooks/connect/hmac/',
  ...macScheme({ algorithm: 'sha256', encoding: 'base64', key: textKey, signature, payload: '${body}' }, {}),
  events: (_request, body) => [
    {
      presetId: () =>
        body.json() === undefined && !body.isBrokenJson
          ? contentHash(body, 'body')
          : contentHash(body, ['event', 'generatedDateTime', 'data.envelopeId', 'data.recipientId']),
      type: eventType(body.at('event')),
      occurredAt: eventTime(body.at('generatedDateTime')),
    },
  ],
  maxBytes: 25 * 1024 * 1024,
  ackTimeoutMs: seconds(100),
  retries: { automatic: true, windowMs: days(15), sameBytes: false, changes: ['retryCount'] },
  notes: {
    id: 'hash of event, envelope, recipient and `generatedDateTime`; of the body when it is XML',
    unstable: '`retryCount` in the body',
    more: 'the first 10 signature headers are read',
    unconfirmed: 'retries, time-out, the absence of an event id',
  },
};

function signature(request: RequestHead): SignatureText {
  const signatures = [signatureHeader(request, 'X-DocuSign-Signature-1')];
  for (let i = 2; i <= MAX_KEYS; i++) {
    const next = request.headers.one(`X-DocuSign-Signature-${i}`);
    if (next === undefined) break;
    signatures.push(next);
  }
  return { signatures };
}
