import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { hours, seconds } from '../times.js';
import { urlOption } from '../url-option.js';
import { SQUARE_TYPES } from '../types/square.types.js';

/** Options of `square()`. */
export interface SquareOptions extends SourceOptions {
  /** The notification URL exactly as it stands in the subscription, query and trailing slash included: it is signed. */
  readonly notificationUrl: string;
}

/**
 * Square. The secret is the subscription's signature key.
 * @see https://developer.squareup.com/docs/webhooks/step3validate
 * @throws ConfigurationError without `notificationUrl`
 */
export function square<TPayload = unknown>(options: SquareOptions): SourceDefinition<TPayload> {
  checkOptionNames('square', options, OWN);
  const url = urlOption('square.notificationUrl', options.notificationUrl);
  return defineSource(schemeOf(url), options, OWN);
}

const mac: Mac = { algorithm: 'sha256', encoding: 'base64', key: textKey };

const OWN = { notificationUrl: true } as const;

function schemeOf(notificationUrl: string): Scheme {
  return {
    name: 'square',
    docs: 'https://developer.squareup.com/docs/webhooks/step3validate',
    scheme: 'HMAC-SHA256, base64, of `${notificationUrl}${body}`',
    signed: { id: true, type: true, time: false },
    checkSecret: checkSecretText,
    checkHead: (head) => void signatureHeader(head, 'x-square-hmacsha256-signature'),
    verify: (request, secrets) => {
      const signature = signatureHeader(request, 'x-square-hmacsha256-signature');
      return { secret: verifyMac(mac, [notificationUrl, request.rawBody], [signature], secrets) };
    },
    events: eventFields({ idPath: 'event_id', typePath: 'type', timePath: 'created_at' }),
    types: SQUARE_TYPES,
    keepHeaders: ['square-retry-number', 'square-retry-reason', 'square-initial-delivery-timestamp'],
    ackTimeoutMs: seconds(10),
    retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
    notes: {
      id: '`event_id` of the body',
      more: 'the usual mistake is a URL that differs by a slash, the scheme or the query',
      unconfirmed: '`square-*` headers, time-out',
    },
  };
}
