import { createHash } from 'node:crypto';
import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { RequestHead, WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import { contentHashWithout } from '../events/content-hash.js';
import { eventFields, type KeyedFields } from '../events/event-fields.js';
import { equalBytes, decodeStrict } from '../signing/digest.js';
import { usableKeys, verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { hours, minutes, seconds } from '../times.js';
import { publicUrlOption } from '../url-option.js';

/** A version of HubSpot's signature. */
export type HubspotVersion = 'v1' | 'v2' | 'v3';

/** Options of `hubspot()`. */
export interface HubspotOptions extends SourceOptions {
  /** Scheme and host under which HubSpot calls you, 'https://hooks.example.com': the whole URL is signed. */
  readonly publicUrl: string;
  /**
   * Versions that are accepted. The highest that the request carries counts. v1 and v2 have no time, and HubSpot sends v1 beside v3. With
   * both accepted, an attacker who has captured a request can strip v3 and send it again for ever. @default ['v3']
   */
  readonly versions?: readonly HubspotVersion[];
}

/**
 * HubSpot. The secret is the app's client secret. One body carries up to 100 events.
 * @see https://developers.hubspot.com/docs/api/webhooks/validating-requests
 * @throws ConfigurationError without `publicUrl`
 */
export function hubspot<TPayload = unknown>(options: HubspotOptions): SourceDefinition<TPayload> {
  checkOptionNames('hubspot', options, OWN);
  const { versions = ['v3'] } = options;
  if (versions.length === 0 || versions.some((version) => !['v1', 'v2', 'v3'].includes(version)))
    throw new ConfigurationError(
      `hubspot.versions: expected some of v1, v2, v3, received ${versions.join(', ')}`,
    );
  const publicUrl = publicUrlOption('hubspot.publicUrl', options.publicUrl);
  return defineSource(schemeOf(publicUrl, versions), options, OWN);
}

const OWN = { publicUrl: true, versions: true } as const;

function schemeOf(publicUrl: string, versions: readonly HubspotVersion[]): Scheme {
  return {
    name: 'hubspot',
    docs: 'https://developers.hubspot.com/docs/api/webhooks/validating-requests',
    scheme:
      'HMAC-SHA256, base64, of `${method}${url}${body}${timestamp}` (v3); on request SHA-256 of secret and content (v1, v2)',
    signed: { id: true, type: true, time: versions.includes('v3') },
    timeUnit: 'milliseconds',
    toleranceMs: minutes(5),
    checkSecret: checkSecretText,
    checkHead: (head) => checkHead(versions, head),
    verify: (request, secrets) => verify(publicUrl, versions, request, secrets),
    batched: true,
    events: (request, body) => (Array.isArray(body.json()) ? readBatch : readOne)(request, body),
    ackTimeoutMs: seconds(5),
    retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: CHANGES },
    notes: {
      id: '`eventId`, `subscriptionId`, `objectId` and `occurredAt` of each event: `eventId` alone is not promised to be unique; where one of them is absent, as in a workflow’s CRM object, a hash of the content',
      unstable: '`attemptNumber` changes on retry',
      stops: 'workflow actions are not retried on 4xx',
      more: 'v1 and v2 sign no time and are off by default',
    },
  };
}

/** Fields that HubSpot changes in an event on a retry. */
const CHANGES = ['attemptNumber'];

const FIELDS: KeyedFields = {
  idPath: ['eventId', 'subscriptionId', 'objectId', 'occurredAt'],
  idFallback: (body) => contentHashWithout(body, CHANGES),
  typePath: 'subscriptionType',
  timePath: 'occurredAt',
};
const readBatch = /* @__PURE__ */ eventFields({ ...FIELDS, eventsPath: '' });
/** A workflow's action sends a CRM object, which stands alone. */
const readOne = /* @__PURE__ */ eventFields(FIELDS);

const mac: Mac = { algorithm: 'sha256', encoding: 'base64', key: textKey };

function checkHead(versions: readonly HubspotVersion[], { headers }: RequestHead): void {
  const names = ['X-HubSpot-Signature-v3', 'X-HubSpot-Signature'];
  if (names.every((name) => headers.first(name) === undefined)) throw noneAccepted(versions);
}

function noneAccepted(versions: readonly HubspotVersion[]): SignatureRejection {
  const text = `no signature of an accepted version (${versions.join(', ')})`;
  return new SignatureRejection('missing-signature', text);
}

function verify(
  publicUrl: string,
  versions: readonly HubspotVersion[],
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const url = publicUrl + request.url;
  if (versions.includes('v3') && request.headers.first('X-HubSpot-Signature-v3') !== undefined) {
    const timestamp = request.headers.one('X-HubSpot-Request-Timestamp');
    const signedAt = signedTime(timestamp, 'milliseconds');
    const content = [request.method, decodeSigned(url), request.rawBody, timestamp ?? ''];
    const signature = signatureHeader(request, 'X-HubSpot-Signature-v3');
    return { secret: verifyMac(mac, content, [signature], secrets), signedAt };
  }
  const version = request.headers.one('X-HubSpot-Signature-Version');
  if (version === 'v2' && versions.includes('v2'))
    return verifyHash([request.method, url, request.rawBody], request, secrets);
  if (version === 'v1' && versions.includes('v1')) return verifyHash([request.rawBody], request, secrets);
  throw noneAccepted(versions);
}

/** Checks v1 and v2, which are plain SHA-256 with the secret in front, and no HMAC. */
function verifyHash(
  content: readonly (string | Buffer)[],
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const signature = decodeStrict(signatureHeader(request, 'X-HubSpot-Signature'), 'hex');
  if (signature === undefined)
    throw new SignatureRejection('malformed-signature', 'X-HubSpot-Signature is no hex');
  const matches = usableKeys(textKey, secrets).filter(([, key]) => {
    const hash = createHash('sha256').update(key);
    for (const part of content) hash.update(part);
    return equalBytes(hash.digest(), signature);
  });
  if (matches[0] === undefined)
    throw new SignatureRejection('wrong-signature', 'no secret made this signature');
  return { secret: matches[0][0] };
}

/** The escapes that HubSpot decodes before it signs a URL, and no others. */
const SIGNED_AS: Readonly<Record<string, string>> = {
  '%3A': ':',
  '%2F': '/',
  '%3F': '?',
  '%40': '@',
  '%21': '!',
  '%24': '$',
  '%27': "'",
  '%28': '(',
  '%29': ')',
  '%2A': '*',
  '%2C': ',',
  '%3B': ';',
};

function decodeSigned(url: string): string {
  return url.replace(/%[0-9A-F]{2}/gi, (escape) => SIGNED_AS[escape.toUpperCase()] ?? escape);
}
