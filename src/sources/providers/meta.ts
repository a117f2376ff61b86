import type { Answer } from '../../core/answer.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge, queryValue, textAnswer } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { macScheme } from '../mac-source.js';
import { equalText } from '../signing/digest.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { days, seconds } from '../times.js';
import { metaEvents, type MetaEventUnit } from './meta-events.js';

/** Options of `meta()`. */
export interface MetaOptions extends SourceOptions {
  /** The verify token that you entered with the callback URL. @default subscriptions are not confirmed */
  readonly verifyToken?: string;
  /**
   * The unit of an event: each message or status of a WhatsApp change, so that a bad one does not hold up the others. Or the whole change,
   * which also holds `metadata` and `contacts`. @default 'item'
   */
  readonly eventUnit?: MetaEventUnit;
}

/**
 * Meta: WhatsApp, Messenger, Instagram, Pages. The secret is the app secret. One body carries several messages, statuses or
 * changes; each is an event.
 * @see https://developers.facebook.com/docs/graph-api/webhooks/getting-started
 */
export function meta<TPayload = unknown>(options: MetaOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options), options, { verifyToken: true, eventUnit: true });
}

function schemeOf({ verifyToken, eventUnit = 'item' }: MetaOptions): Scheme {
  return {
    name: 'meta',
    docs: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started',
    ...macScheme(
      {
        algorithm: 'sha256',
        encoding: 'hex',
        key: textKey,
        signature: single('X-Hub-Signature-256', 'sha256='),
        payload: '${body}',
      },
      {},
    ),
    batched: true,
    events: (_request, body) => metaEvents(body, eventUnit),
    handshake:
      verifyToken === undefined
        ? undefined
        : { methods: ['GET'], answer: (request) => confirm(request, verifyToken) },
    maxBytes: 3 * 1024 * 1024,
    ackTimeoutMs: seconds(5),
    retries: { automatic: true, windowMs: days(7), sameBytes: false, changes: [] },
    notes: {
      id: 'WhatsApp: message id, or status id and status; Messenger: `mid`; else a hash of the change',
      unstable: 'events may be batched otherwise on retry',
      handshake:
        'GET `hub.challenge`, with your verify token: the challenge as text; again whenever URL or token are edited',
      more: 'an event’s payload is the message, status or change itself. The rest of the body is left out, unless `eventUnit` is `change`',
      unconfirmed: 'retries (WhatsApp 7 d, others 36 h), time-out, body limit',
    },
  };
}

function confirm(request: WebhookRequest, verifyToken: string): Answer | undefined {
  if (request.method !== 'GET' || queryValue(request, 'hub.mode') !== 'subscribe') return undefined;
  const challenge = queryValue(request, 'hub.challenge');
  const token = queryValue(request, 'hub.verify_token');
  if (!isChallenge(challenge) || token === undefined || !equalText(token, verifyToken)) return undefined;
  return textAnswer(challenge);
}
