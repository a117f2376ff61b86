import { escape } from 'node:querystring';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { eventFields } from '../events/event-fields.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

const TIMESTAMP = 'x-contentful-timestamp';
const SIGNED_HEADERS = 'x-contentful-signed-headers';
const MAX_SIGNED_HEADERS = 50;

/**
 * Contentful app requests and signed webhooks. The secret is the 64-character signing secret of the space or app.
 * @see https://www.contentful.com/developers/docs/webhooks/request-verification/
 */
export function contentful<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const mac: Mac = { algorithm: 'sha256', encoding: 'hex', key: textKey };

const scheme: Scheme = {
  name: 'contentful',
  docs: 'https://www.contentful.com/developers/docs/webhooks/request-verification/',
  scheme: 'HMAC-SHA256, hex, of method, encoded path, signed headers and body, each on a line',
  signed: { id: false, type: false, time: true },
  timeUnit: 'milliseconds',
  // The vendor's time to live is exclusive: at 30 s a request is old. Ours are inclusive.
  toleranceMs: seconds(30) - 1,
  checkSecret: checkSecretText,
  checkHead: (head) => void signatureHeader(head, 'x-contentful-signature'),
  verify,
  events: eventFields({
    idHeader: 'X-Contentful-Idempotency-Key',
    idFallback: (body) => contentHash(body, 'body'),
    typeHeader: 'X-Contentful-Topic',
    timePath: 'sys.updatedAt',
  }),
  keepHeaders: ['x-contentful-idempotency-key', 'x-contentful-topic', 'x-contentful-webhook-name', TIMESTAMP],
  ackTimeoutMs: seconds(30),
  retries: { automatic: true, windowMs: minutes(2), sameBytes: false },
  notes: {
    id: '`X-Contentful-Idempotency-Key` header, else a hash of the body: requests of apps have none',
    unstable: 'signed only where `x-contentful-signed-headers` names it',
    stops: 'all but 429 and 5xx',
    more: 'the query is escaped twice in what is signed; the window of 30 s is the SDK’s default',
    unconfirmed: 'topic and id headers, retries, time-out',
  },
};

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const signature = signatureHeader(request, 'x-contentful-signature');
  const signedAt = signedTime(request.headers.one(TIMESTAMP), 'milliseconds');
  const head = [request.method, canonicalPath(request.url), canonicalHeaders(request), ''].join('\n');
  return { secret: verifyMac(mac, [head, request.rawBody], [signature], secrets), signedAt };
}

/** `name:value` of each header in the list, sorted by name. The list is the sender's choice, so it must cover time and itself. */
function canonicalHeaders(request: WebhookRequest): string {
  const names = signatureHeader(request, SIGNED_HEADERS)
    .split(',')
    .map((name) => name.trim().toLowerCase());
  if (!names.includes(TIMESTAMP) || !names.includes(SIGNED_HEADERS) || names.length > MAX_SIGNED_HEADERS)
    throw new SignatureRejection('malformed-signature', `${SIGNED_HEADERS} leaves out the time or itself`);
  return [...new Set(names)]
    .sort()
    .map((name) => `${name}:${signedValue(request, name).trim()}`)
    .join(';');
}

function signedValue(request: WebhookRequest, name: string): string {
  const value = request.headers.one(name);
  if (value === undefined)
    throw new SignatureRejection('missing-signature', `${SIGNED_HEADERS} names an absent header`);
  return value;
}

function canonicalPath(url: string): string {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const query = at < 0 ? '' : url.slice(at + 1);
  try {
    return encodeURI(query === '' ? path : `${path}?${escape(query)}`);
  } catch (error) {
    throw new SignatureRejection('malformed-signature', 'the URL cannot be encoded', { cause: error });
  }
}
