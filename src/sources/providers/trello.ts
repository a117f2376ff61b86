import type { SourceDefinition } from '../../core/options/source.js';
import { EMPTY_OK } from '../challenge.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { seconds } from '../times.js';
import { urlOption } from '../url-option.js';

/** Options of `trello()`. */
export interface TrelloOptions extends SourceOptions {
  /** The `callbackURL` exactly as the webhook was created with: it is signed. */
  readonly callbackUrl: string;
}

/**
 * Trello. The secret is the API secret of the Power-Up.
 * @see https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/
 * @throws ConfigurationError without `callbackUrl`
 */
export function trello<TPayload = unknown>(options: TrelloOptions): SourceDefinition<TPayload> {
  checkOptionNames('trello', options, OWN);
  const url = urlOption('trello.callbackUrl', options.callbackUrl);
  return defineSource(schemeOf(url), options, OWN);
}

const mac: Mac = { algorithm: 'sha1', encoding: 'base64', key: textKey };

const OWN = { callbackUrl: true } as const;

function schemeOf(callbackUrl: string): Scheme {
  return {
    name: 'trello',
    docs: 'https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/',
    scheme: 'HMAC-SHA1, base64, of `${body}${callbackURL}`',
    signed: { id: true, type: true, time: false },
    checkSecret: checkSecretText,
    checkHead: (head) => void signatureHeader(head, 'x-trello-webhook'),
    verify: (request, secrets) => {
      const signature = signatureHeader(request, 'x-trello-webhook');
      return { secret: verifyMac(mac, [request.rawBody, callbackUrl], [signature], secrets) };
    },
    events: eventFields({ idPath: 'action.id', typePath: 'action.type', timePath: 'action.date' }),
    handshake: {
      methods: ['HEAD'],
      answer: (request) => (request.method === 'HEAD' ? EMPTY_OK : undefined),
    },
    retries: { automatic: true, windowMs: seconds(210), sameBytes: false, changes: ['model'] },
    notes: {
      id: '`action.id` of the body',
      stops: '410 deletes the webhook; 30 failures in a row disable it',
      handshake: 'HEAD on creation: 200',
      unconfirmed: 'event id, 410',
    },
  };
}
