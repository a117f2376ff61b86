import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import { eventId } from '../../core/ids.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge, textAnswer } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventTime } from '../events/event-time.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { macScheme } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

/**
 * Slack: Events API, slash commands and interactivity. The secret is the app's signing secret.
 * @see https://api.slack.com/authentication/verifying-requests-from-slack
 */
export function slack<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'slack',
  docs: 'https://api.slack.com/authentication/verifying-requests-from-slack',
  ...macScheme(
    {
      algorithm: 'sha256',
      encoding: 'hex',
      key: textKey,
      signature: single('X-Slack-Signature', 'v0='),
      timestampHeader: 'X-Slack-Request-Timestamp',
      payload: 'v0:${timestamp}:${body}',
      timeUnit: 'seconds',
    },
    {},
  ),
  toleranceMs: minutes(5),
  events: (_request, body) => [readEvent(body)],
  handshake: { methods: ['POST'], answer },
  keepHeaders: ['x-slack-retry-num', 'x-slack-retry-reason'],
  ackTimeoutMs: seconds(3),
  retries: { automatic: true, windowMs: minutes(6), sameBytes: false, changes: [] },
  notes: {
    id: '`event_id` of the body, `trigger_id` of commands and interactions, else a hash of the body',
    unstable: 'timestamp and signature are new for every attempt',
    stops: 'the response header `x-slack-no-retry: 1`',
    handshake: 'POST `url_verification`, signed: the challenge as text',
    more: 'commands and interactions are form bodies and are not retried',
  },
};

/** A URL verification is signed like any event, so a sender without the secret gets no echo. */
function answer(request: WebhookRequest, _secrets: readonly string[], verified: boolean): Answer | undefined {
  if (!verified) return undefined;
  const body = new BodyReader(request.rawBody);
  const challenge = body.at('challenge');
  return body.at('type') === 'url_verification' && isChallenge(challenge) ? textAnswer(challenge) : undefined;
}

function readEvent(body: BodyReader): ReceivedEvent {
  return body.json() === undefined && !body.isBrokenJson ? readForm(body) : readCallback(body);
}

function readCallback(body: BodyReader): ReceivedEvent {
  return {
    // `app_rate_limited` has none.
    presetId: () =>
      body.at('event_id') === undefined
        ? contentHash(body, 'body')
        : eventId(body.at('event_id'), 'body.event_id'),
    type: eventType(body.at('event.type') ?? body.at('type')),
    occurredAt: eventTime(body.at('event_time')),
  };
}

/** A slash command has its fields in the form, an interaction has JSON in the field `payload`. */
function readForm(body: BodyReader): ReceivedEvent {
  const form = new URLSearchParams(body.bytes.toString('utf8'));
  const payload = form.get('payload');
  const interaction = payload === null ? undefined : new BodyReader(Buffer.from(payload));
  const trigger = interaction === undefined ? form.get('trigger_id') : interaction.at('trigger_id');
  return {
    presetId: () =>
      typeof trigger === 'string' ? eventId(trigger, 'trigger_id') : contentHash(body, 'body'),
    type: interaction === undefined ? 'slash_command' : eventType(interaction.at('type')),
  };
}
