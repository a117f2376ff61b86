import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { eventIdAt } from '../../core/ids.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventTime } from '../events/event-time.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { decodeStrict } from '../signing/digest.js';
import { ed25519Key, matchKey } from '../signing/public-key.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

/**
 * Discord interactions and webhook events. The secret is the application's public key, 64 hex digits.
 * An interaction wants a response within 3 s that no acknowledgement is: give it from a handler, at Discord's callback endpoint.
 * @see https://discord.com/developers/docs/interactions/overview#setting-up-an-endpoint
 * @see https://discord.com/developers/docs/events/webhook-events#responding-to-events
 */
export function discord<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const NO_CONTENT: Answer = { status: 204, body: '' };

const INTERACTIONS: Readonly<Record<number, string>> = {
  2: 'application_command',
  3: 'message_component',
  4: 'application_command_autocomplete',
  5: 'modal_submit',
};

const scheme: Scheme = {
  name: 'discord',
  docs: 'https://discord.com/developers/docs/interactions/overview#setting-up-an-endpoint',
  scheme: 'Ed25519, hex, of `${timestamp}${body}`',
  signed: { id: true, type: true, time: true },
  timeUnit: 'seconds',
  checkSecret: (secret) =>
    keyOf(secret) === undefined ? 'is not the public key of an application (64 hex digits)' : undefined,
  checkHead: (head) => void signatureHeader(head, 'X-Signature-Ed25519'),
  verify,
  events: (_request, body) => [readEvent(body)],
  handshake: { methods: ['POST'], answer },
  ack: NO_CONTENT,
  ackTimeoutMs: seconds(3),
  retries: { automatic: true, windowMs: minutes(10), sameBytes: false, changes: [] },
  notes: {
    id: '`id` of an interaction; a hash of the body of a webhook event, which has none',
    stops: 'interactions are not retried; a bad signature must get 401, which Discord probes',
    handshake: 'POST ping, signed: `{"type":1}` for interactions, 204 for webhook events',
    more: 'events are acknowledged with 204. An interaction needs its own response within 3 s: a handler sends it to Discord’s callback endpoint. No window is prescribed: set `tolerance` to have one',
  },
};

function keyOf(secret: string) {
  return ed25519Key(decodeStrict(secret.toLowerCase(), 'hex'));
}

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const signature = decodeStrict(signatureHeader(request, 'X-Signature-Ed25519'), 'hex');
  if (signature?.length !== 64)
    throw new SignatureRejection(
      'malformed-signature',
      'X-Signature-Ed25519 is not 64 bytes of lower-case hex',
    );
  const timestamp = request.headers.one('X-Signature-Timestamp');
  const signedAt = signedTime(timestamp, 'seconds');
  const content = Buffer.concat([Buffer.from(timestamp ?? ''), request.rawBody]);
  return { secret: matchKey(null, content, signature, secrets.map(keyOf)), signedAt };
}

/** Type 1 is the ping of interactions and the real event of webhook events, whose ping is 0. */
function answer(request: WebhookRequest, _secrets: readonly string[], verified: boolean): Answer | undefined {
  if (!verified) return undefined;
  const body = new BodyReader(request.rawBody);
  if (body.at('type') === 0) return NO_CONTENT;
  return body.at('type') === 1 && body.at('event') === undefined
    ? { status: 200, body: { type: 1 } }
    : undefined;
}

function readEvent(body: BodyReader): ReceivedEvent {
  if (body.at('event') !== undefined)
    return {
      presetId: () => contentHash(body, 'body'),
      type: eventType(body.at('event.type')),
      occurredAt: eventTime(body.at('event.timestamp')),
    };
  const type = body.at('type');
  return {
    presetId: () => eventIdAt(body, 'id'),
    type: eventType(typeof type === 'number' ? INTERACTIONS[type] : undefined),
  };
}
