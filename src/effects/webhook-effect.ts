import type { Duration } from '../core/options/duration.js';
import { HttpFailure, PermanentError } from '../core/errors.js';
import { standardWebhookSignature } from '../sources/signing/sign-standard-webhook.js';
import type { Allow, HttpResponse } from './http-client.js';
import { httpEffect, type HttpEffectContext } from './http-effect.js';

/** A webhook to send. */
export interface WebhookEffectRequest {
  /** The customer's endpoint: https, to a public address; see `allow`. */
  readonly url: string | URL;
  /**
   * All secrets that the receiver may have now. Each signs: during a rotation the old one and the new one. `whsec_` + base64
   * (HMAC-SHA256), or `whsk_` + base64 of an Ed25519 private key, whose public half the receiver has as `whpk_`.
   */
  readonly secrets: readonly string[];
  /** Such as 'invoice.paid'. */
  readonly type: string;
  /** JSON; the same at each attempt. */
  readonly data: unknown;
  /** When it happened, from the payload: it must be the same at each attempt. @default the arrival of the event that led to it */
  readonly occurredAt?: Date | string;
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For the whole call. @default '10s' */
  readonly timeout?: Duration;
  /** Opens this call to plain http or to addresses that are not public. @default { } */
  readonly allow?: Allow;
}

/** The endpoint answered 410: its owner does not want webhooks any more. Permanent; switch the endpoint off in `onDead`. */
export class EndpointGone extends PermanentError {}

/**
 * Sends one webhook as Standard Webhooks has it: `{ type, timestamp, data }`, its `webhook-id` the effect's key and so the same at each
 * attempt, its `webhook-timestamp` and `webhook-signature` new for each. The receiver dedupes by the id.
 *
 * It goes where `httpEffect` goes, and fails as it does: `Retry-After` is honoured.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 * @throws EndpointGone for 410; HttpFailure for another status that is not 2xx; DestinationRefused; PermanentError for a request that
 * can never be sent
 */
export async function webhookEffect(
  request: WebhookEffectRequest,
  context: HttpEffectContext,
): Promise<HttpResponse> {
  const { url, secrets, headers, timeout, allow } = request;
  const body = bodyOf(request, context.key);
  const timestamp = Math.floor(Date.now() / 1_000);
  const signature = standardWebhookSignature(checkedSecrets(secrets), context.key, timestamp, body);
  if (signature === undefined)
    throw new PermanentError(
      'webhookEffect: secrets: expected whsec_ + base64, or whsk_ + base64 of an Ed25519 private key, received other text',
    );
  const sent = {
    ...headers,
    'content-type': 'application/json',
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  };
  try {
    return await httpEffect({ url, headers: sent, body, timeout, allow, keyHeader: 'webhook-id' }, context);
  } catch (error) {
    if (!(error instanceof HttpFailure) || error.status !== 410) throw error;
    throw new EndpointGone(`${error.message}: the endpoint wants no more webhooks`, { cause: error });
  }
}

function bodyOf({ type, data, occurredAt }: WebhookEffectRequest, key: string): Buffer {
  if (typeof type !== 'string' || type === '')
    throw new PermanentError(`webhookEffect: type: expected text, received ${typeof type}`);
  const timestamp = occurredAt === undefined ? madeAt(key) : new Date(occurredAt);
  if (Number.isNaN(timestamp.getTime()))
    throw new PermanentError('webhookEffect: occurredAt: expected a time, received other text');
  try {
    return Buffer.from(JSON.stringify({ type, timestamp: timestamp.toISOString(), data: data ?? null }));
  } catch (error) {
    throw new PermanentError(`webhookEffect: data: ${String(error)}`, { cause: error });
  }
}

function checkedSecrets(secrets: unknown): readonly string[] {
  if (Array.isArray(secrets) && secrets.length > 0 && secrets.every((one) => typeof one === 'string'))
    return secrets;
  throw new PermanentError('webhookEffect: secrets: expected a list with at least one secret');
}

/** An outbox id begins with a time in milliseconds: that of the event's arrival, or of the enqueue. */
function madeAt(key: string): Date {
  return new Date(Number.parseInt(key.slice(0, 13).replace('-', ''), 16));
}
