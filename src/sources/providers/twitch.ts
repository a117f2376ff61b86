import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import { eventId } from '../../core/ids.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge, textAnswer } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventTime } from '../events/event-time.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { macScheme } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

const ID = 'Twitch-Eventsub-Message-Id';
const TIMESTAMP = 'Twitch-Eventsub-Message-Timestamp';

/**
 * Twitch EventSub. The secret is the one given when subscribing, 10 to 100 ASCII characters.
 * @see https://dev.twitch.tv/docs/eventsub/handling-webhook-events
 */
export function twitch<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const hmac = macScheme(
  {
    algorithm: 'sha256',
    encoding: 'hex',
    key: textKey,
    signature: single('Twitch-Eventsub-Message-Signature', 'sha256='),
    timestampHeader: TIMESTAMP,
    signedIdHeader: ID,
    payload: '${id}${timestamp}${body}',
    timeUnit: 'iso8601',
  },
  { idHeader: ID },
);

const scheme: Scheme = {
  name: 'twitch',
  docs: 'https://dev.twitch.tv/docs/eventsub/handling-webhook-events',
  ...hmac,
  checkSecret: (secret) =>
    hmac.checkSecret?.(secret) ??
    (/^[\x20-\x7e]{10,100}$/.test(secret) ? undefined : 'is not 10 to 100 ASCII characters'),
  toleranceMs: minutes(10),
  events: (request, body) => [readEvent(request, body)],
  handshake: { methods: ['POST'], answer },
  keepHeaders: [ID, TIMESTAMP, 'twitch-eventsub-message-retry', 'twitch-eventsub-message-type'],
  ackTimeoutMs: seconds(10),
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: {
    id: '`Twitch-Eventsub-Message-Id` header',
    unstable: '`Twitch-Eventsub-Message-Retry`',
    stops: 'too many failures end the subscription: event `revocation`',
    handshake: 'POST `webhook_callback_verification`, signed: the challenge as text',
    unconfirmed: 'retries, the time-out of 10 s, whether a message sent again keeps its id',
  },
};

function answer(request: WebhookRequest, _secrets: readonly string[], verified: boolean): Answer | undefined {
  const challenge = verified ? new BodyReader(request.rawBody).at('challenge') : undefined;
  return isChallenge(challenge) ? textAnswer(challenge) : undefined;
}

/** The type is taken from the body: the headers that repeat it are not signed. */
function readEvent(request: WebhookRequest, body: BodyReader): ReceivedEvent {
  const status = body.at('subscription.status');
  const revoked = typeof status === 'string' && status !== 'enabled' && body.at('event') === undefined;
  return {
    presetId: () => eventId(request.headers.one(ID), ID),
    type: revoked ? 'revocation' : eventType(body.at('subscription.type')),
    occurredAt: eventTime(request.headers.one(TIMESTAMP)),
  };
}
