import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventFields } from '../events/event-fields.js';
import { claimTime, readJws } from '../signing/jws.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

/** Options of `monday()`. */
export interface MondayOptions extends SourceOptions {
  /** Your endpoint's URL, which the token's `aud` must be. @default not compared */
  readonly audience?: string;
}

/**
 * monday.com. The secret is the app's signing secret for board webhooks, its client secret for lifecycle webhooks; give both
 * to one source that gets both. The token covers no body.
 * @see https://developer.monday.com/apps/docs/authorization-header
 */
export function monday<TPayload = unknown>(options: MondayOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options.audience), options, { audience: true });
}

const mac: Mac = { algorithm: 'sha256', encoding: 'base64url', key: textKey };

function schemeOf(audience: string | undefined): Scheme {
  return {
    name: 'monday',
    docs: 'https://developer.monday.com/apps/docs/authorization-header',
    scheme: 'JWT, HS256, in `Authorization`; the body is not signed',
    signed: { id: false, type: false, time: true },
    timeUnit: 'seconds',
    signsBody: false,
    toleranceMs: minutes(5),
    checkSecret: checkSecretText,
    verify: (request, secrets) => verify(request, secrets, audience),
    events: eventFields({
      idPath: 'event.triggerUuid',
      // An app's lifecycle webhook has its type at the root, and no id.
      idFallback: (body) => contentHash(body, 'body'),
      typePath: ['event.type', 'type'],
      timePath: 'event.triggerTime',
    }),
    handshake: { methods: ['POST'], answer },
    retries: { automatic: true, windowMs: minutes(30), sameBytes: false },
    notes: {
      id: '`event.triggerUuid` of the body; of an app’s lifecycle webhooks, which have none, a hash of the body',
      handshake: 'POST `{"challenge":"…"}`, unsigned: the same JSON',
      more: 'a person with one token can send any body until it expires. Webhooks made on a board carry no token',
      unconfirmed: 'event id, retries, that board webhooks carry no token',
    },
  };
}

function verify(
  request: WebhookRequest,
  secrets: readonly string[],
  audience: string | undefined,
): Verification {
  const { claims, signed, signature } = readJws(request.headers.one('authorization'), 'HS256');
  const secret = verifyMac(mac, [signed], [signature.toString('base64url')], secrets);
  if (audience !== undefined && claims['aud'] !== audience)
    throw new SignatureRejection('wrong-signature', 'the token is for another audience');
  return { secret, signedAt: claimTime(claims, 'iat'), expiresAt: claimTime(claims, 'exp') };
}

/** Sent while a webhook is created. The echo is exactly the JSON that came, and nothing else is in the body. */
function answer(request: WebhookRequest): Answer | undefined {
  const body = new BodyReader(request.rawBody.length > 2048 ? Buffer.alloc(0) : request.rawBody);
  const json = body.json();
  const challenge = body.at('challenge');
  if (!isChallenge(challenge) || Object.keys(Object(json)).length !== 1) return undefined;
  return { status: 200, body: { challenge } };
}
