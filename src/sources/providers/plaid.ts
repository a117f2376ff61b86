import { createHash, type KeyObject } from 'node:crypto';
import type { BodyReader } from '../../core/body.js';
import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { composeId } from '../events/dedupe-key.js';
import { eventType, type ReceivedEvent } from '../events/received-event.js';
import type { Fetch } from '../keys/fetch-text.js';
import { isCredentials, PlaidKeys } from '../keys/plaid-keys.js';
import { equalText } from '../signing/constant-time.js';
import { claimTime, readJws } from '../signing/jws.js';
import { verifiesEs256 } from '../signing/public-key.js';
import { checkSecretText } from '../signing/secret-check.js';
import type { SourceOptions } from '../source-options.js';
import { hours, minutes, seconds } from '../times.js';

const HEADER = 'Plaid-Verification';

export interface PlaidOptions extends SourceOptions {
  /** Which of Plaid's hosts has the keys. @default 'production' */
  readonly environment?: 'production' | 'sandbox';
  /** Fetches verification keys, for proxies and tests. @default the global fetch */
  readonly fetch?: Fetch;
}

/**
 * Plaid. The secret is `client_id:secret`, with which verification keys are fetched from Plaid.
 * @see https://plaid.com/docs/api/webhooks/webhook-verification/
 */
export function plaid<TPayload = unknown>(options: PlaidOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options), options, { environment: true, fetch: true });
}

function schemeOf({ environment = 'production', fetch }: PlaidOptions): Scheme {
  if (environment !== 'production' && environment !== 'sandbox')
    throw new ConfigurationError(
      `plaid.environment: expected 'production' or 'sandbox', received '${String(environment)}'`,
    );
  const keys = new PlaidKeys(
    `https://${environment}.plaid.com`,
    fetch ?? ((url, init) => globalThis.fetch(url, init)),
  );
  return {
    name: 'plaid',
    docs: 'https://plaid.com/docs/api/webhooks/webhook-verification/',
    scheme: 'JWT, ES256, keys from Plaid by `kid`; its claim `request_body_sha256` covers the body',
    signed: { id: true, type: true, time: true },
    toleranceMs: minutes(5),
    checkSecret: (secret) =>
      checkSecretText(secret) ?? (isCredentials(secret) ? undefined : 'is not `client_id:secret`'),
    verify: (request, secrets) => verify(keys, request, secrets),
    events: (request, body) => [readEvent(request, body)],
    ackTimeoutMs: seconds(10),
    retries: { automatic: true, windowMs: hours(24), sameBytes: false },
    notes: {
      id: 'time and body hash of the token: the vendor sends no event id, and two equal bodies can be two events',
      unstable:
        'the token is new for every attempt, so that a retry counts as a new event: handlers should fetch the state',
      stops: 'Plaid stops after more than 90 % of rejections',
      unconfirmed: 'retries, time-out',
    },
  };
}

async function verify(
  keys: PlaidKeys,
  request: WebhookRequest,
  secrets: readonly string[],
): Promise<Verification> {
  const { header, claims, signed, signature } = readJws(request.headers.one(HEADER), 'ES256');
  const bodyHash = createHash('sha256').update(request.rawBody).digest('hex');
  const claimed = claims['request_body_sha256'];
  // Costs nothing and needs no key, so a body that was changed on the way makes no fetch.
  if (typeof claimed !== 'string' || !equalText(claimed, bodyHash))
    throw new SignatureRejection('wrong-signature', 'the token is for another body');
  const signedAt = claimTime(claims, 'iat');
  if (signedAt === undefined) throw new SignatureRejection('missing-timestamp', 'the token has no iat');
  const check = (key: KeyObject) => verifiesEs256(signed, key, signature);
  const secret = await keys.verify(header['kid'], secrets, check);
  if (secret === undefined)
    throw new SignatureRejection('wrong-signature', 'Plaid’s key did not make this signature');
  return { secret, signedAt };
}

function readEvent(request: WebhookRequest, body: BodyReader): ReceivedEvent {
  return {
    presetId: () => {
      const { claims } = readJws(request.headers.one(HEADER), 'ES256');
      return composeId([String(claims['iat']), String(claims['request_body_sha256'])]);
    },
    type: eventType([body.textAt('webhook_type'), body.textAt('webhook_code')].filter(Boolean).join('.')),
  };
}
