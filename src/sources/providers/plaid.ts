import { createHash, type KeyObject } from 'node:crypto';
import type { BodyReader } from '../../core/body.js';
import { ConfigurationError, EventIdUnusable, SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import type { DedupeKey } from '../events/dedupe-key.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import type { Fetch } from '../keys/fetch-text.js';
import { isCredentials, PlaidKeys } from '../keys/plaid-keys.js';
import { equalText } from '../signing/digest.js';
import { claimTime, readJws } from '../signing/jws.js';
import { verifiesEs256 } from '../signing/public-key.js';
import { checkSecretText } from '../signing/secret-check.js';
import type { SourceOptions } from '../source-options.js';
import { hours, minutes, seconds } from '../times.js';

const HEADER = 'Plaid-Verification';

/** Options of `plaid()`. */
export interface PlaidOptions extends SourceOptions {
  /**
   * The key that makes two webhooks one event. Plaid sends no event id, and its token is new for every attempt, so no preset can
   * distinguish a retry from a new event. `{ hash: 'body' }` drops the second of two equal ones (`SYNC_UPDATES_AVAILABLE` is always equal)
   * for as long as claims are kept. `{ header: 'Plaid-Verification' }` makes each attempt an event: a retry after a lost answer is handled
   * again. That does no harm where handlers fetch the state.
   */
  readonly dedupe: DedupeKey;
  /** Which of Plaid's hosts has the keys. @default 'production' */
  readonly environment?: 'production' | 'sandbox';
  /** Fetches verification keys, for proxies and tests. @default the global fetch */
  readonly fetch?: Fetch;
}

/**
 * Plaid. The secret is `client_id:secret`, with which verification keys are fetched from Plaid.
 * @see https://plaid.com/docs/api/webhooks/webhook-verification/
 * @throws ConfigurationError without `dedupe`, or when a redelivery must repeat an event that its id cannot identify
 */
export function plaid<TPayload = unknown>(options: PlaidOptions): SourceDefinition<TPayload> {
  checkOptionNames('plaid', options, OWN);
  checkDedupe(options);
  return defineSource(schemeOf(options), options, OWN);
}

const OWN = { environment: true, fetch: true } as const;

function checkDedupe({ dedupe, retries }: PlaidOptions): void {
  if (dedupe === undefined || dedupe === 'preset')
    throw new ConfigurationError(
      `plaid.dedupe: expected a key, received ${dedupe ?? 'nothing'}. Plaid sends no event id, and its token is new for every attempt, ` +
        `so no preset can tell a retry from a new event; { header: 'Plaid-Verification' } makes each attempt an event.`,
    );
  const byToken =
    typeof dedupe !== 'function' && JSON.stringify(dedupe).toLowerCase().includes(HEADER.toLowerCase());
  if (retries === 'provider' && byToken)
    throw new ConfigurationError(
      `plaid.retries: expected 'own', received 'provider'. By this 'dedupe' a redelivery is another event, so a failed event would never be retried.`,
    );
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
    asks: 'vendor',
    timeUnit: 'seconds',
    toleranceMs: minutes(5),
    checkSecret: (secret) =>
      checkSecretText(secret) ?? (isCredentials(secret) ? undefined : 'is not `client_id:secret`'),
    checkHead: (head) => void readJws(head.headers.one(HEADER), 'ES256'),
    verify: (request, secrets) => verify(keys, request, secrets),
    events: (_request, body) => [readEvent(body)],
    ackTimeoutMs: seconds(10),
    retries: { automatic: true, windowMs: hours(24), sameBytes: false },
    notes: {
      id: 'none: `dedupe` is required',
      unstable: 'the token is new for every attempt, and two equal bodies can be two events',
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

function readEvent(body: BodyReader): ReceivedEvent {
  return {
    presetId: () => {
      throw new EventIdUnusable('Plaid sends no event id');
    },
    type: eventType([body.textAt('webhook_type'), body.textAt('webhook_code')].filter(Boolean).join('.')),
  };
}
