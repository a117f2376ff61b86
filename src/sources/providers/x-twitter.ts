import type { Answer } from '../../core/answer.js';
import type { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isToken, queryValue } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { macScheme } from '../mac-source.js';
import { digestOf, textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';

/**
 * X (Twitter) Account Activity. The secret is the consumer secret.
 * @see https://docs.x.com/x-api/webhooks/introduction
 */
export function xTwitter<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const hmac = /* @__PURE__ */ macScheme(
  {
    algorithm: 'sha256',
    encoding: 'base64',
    key: textKey,
    signature: single('X-Twitter-Webhooks-Signature', 'sha256='),
    payload: '${body}',
  },
  {},
);

const scheme: Scheme = {
  name: 'x-twitter',
  docs: 'https://docs.x.com/x-api/webhooks/introduction',
  ...hmac,
  verify: (request, secrets) => {
    refuseToken(request.rawBody);
    return hmac.verify(request, secrets);
  },
  events: (_request, body) => [readEvent(body)],
  handshake: { methods: ['GET'], answer },
  retries: { automatic: true, sameBytes: false },
  notes: {
    id: 'hash of the body: the vendor sends no event id',
    handshake: 'GET `?crc_token=`, unsigned: HMAC of the token, by the first of `secrets`, as JSON',
    more: 'the challenge is answered for anyone, with the key of the events. So only tokens of letters, digits and `-_=+/.` are signed, and a delivery whose body is such a token is refused',
    unconfirmed: 'event fields, retries',
  },
};

/**
 * Anyone can have a token signed by the challenge. Bare numbers and words are JSON too, so that one would be a delivery.
 * @throws SignatureRejection
 */
function refuseToken(body: Buffer): void {
  if (isToken(body.toString('latin1', 0, 257)))
    throw new SignatureRejection(
      'wrong-signature',
      'the body is a challenge token, which is signed for anyone',
    );
}

function answer(request: WebhookRequest, secrets: readonly string[]): Answer | undefined {
  const token = request.method === 'GET' ? queryValue(request, 'crc_token') : undefined;
  const key = textKey(secrets[0] ?? '');
  if (key === undefined || !isToken(token)) return undefined;
  return {
    status: 200,
    body: { response_token: `sha256=${digestOf('sha256', key, [token]).toString('base64')}` },
  };
}

function readEvent(body: BodyReader): ReceivedEvent {
  const json = body.json();
  const names = typeof json === 'object' && json !== null ? Object.keys(json) : [];
  return {
    presetId: () => contentHash(body, 'body'),
    type: eventType(names.find((name) => name.endsWith('_events') || name.endsWith('_event'))),
  };
}
