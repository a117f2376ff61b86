import { SignatureRejection } from '../core/errors.js';
import type { Verification } from '../core/provider.js';
import type { RequestHead, WebhookRequest } from '../core/request.js';
import { defineSource, type Scheme } from './define-source.js';
import { eventFields, type EventFields } from './events/event-fields.js';
import { verifyMac, type Mac, type KeyOf } from './signing/mac.js';
import { checkSecretText } from './signing/secret-check.js';
import { signatureHeader, versioned } from './signing/signature-text.js';
import { signedTime } from './signing/signed-time.js';
import { isWhpk, matchWhpk, whpkKey } from './signing/whpk.js';
import type { SourceFactory } from './source-options.js';
import { minutes } from './times.js';

/** A vendor that follows Standard Webhooks: its additions to the scheme and its changes. */
export interface StandardWebhooksProvider
  extends
    EventFields,
    Pick<
      Scheme,
      'name' | 'docs' | 'types' | 'retries' | 'notes' | 'ackTimeoutMs' | 'keepHeaders' | 'maxBytes'
    > {
  /** How the vendor's shared secrets become keys. */
  readonly key: KeyOf;
  /** Prefixes of the three headers; the first family that is there counts. @default ['webhook'] */
  readonly families?: readonly [string, ...string[]];
}

/** A vendor's function from its line of the table. */
export function standardWebhooksSource(provider: StandardWebhooksProvider): SourceFactory {
  const { key, families = ['webhook'], ...facts } = provider;
  const idHeaders = families.map((family) => `${family}-id`);
  const scheme: Scheme = {
    toleranceMs: minutes(5),
    timeUnit: 'seconds',
    ...facts,
    scheme: 'HMAC-SHA256, base64, of `${id}.${timestamp}.${body}` (v1); Ed25519 of the same (v1a)',
    signed: { id: true, type: true, time: true },
    signsHeaders: idHeaders,
    keepHeaders: [
      ...idHeaders,
      ...families.map((family) => `${family}-timestamp`),
      ...(facts.keepHeaders ?? []),
    ],
    notes: { id: `\`${idHeaders.join('` or `')}\` header, the same on every attempt`, ...facts.notes },
    checkSecret: (secret) => checkSecret(key, secret),
    checkHead: (head) => void signatureHeader(head, `${familyOf(head, families)}-signature`),
    verify: (request, secrets) => verifyStandardWebhook(key, families, request, secrets),
    events: (request, body) =>
      eventFields({ idHeader: `${familyOf(request, families)}-id`, ...facts })(request, body),
  };
  return (options) => defineSource(scheme, options, {});
}

/** All three headers come from one family. With several families, an unsigned id could come with the signed one. */
function familyOf(request: RequestHead, families: readonly [string, ...string[]]): string {
  return families.find((family) => request.headers.first(`${family}-signature`) !== undefined) ?? families[0];
}

/**
 * Verifies a request that is signed as Standard Webhooks has it.
 * @throws SignatureRejection
 */
export function verifyStandardWebhook(
  key: KeyOf,
  families: readonly [string, ...string[]],
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const family = familyOf(request, families);
  const header = signatureHeader(request, `${family}-signature`);
  const timestamp = request.headers.one(`${family}-timestamp`);
  const signedAt = signedTime(timestamp, 'seconds');
  const content = [`${signedId(request, `${family}-id`)}.${timestamp}.`, request.rawBody];
  // Which kind of signature counts is decided by each configured secret, never by the request.
  const byPublicKey = secrets.some(isWhpk) ? matchWhpk(content, versioned(header, 'v1a'), secrets) : -1;
  if (byPublicKey >= 0) return { secret: byPublicKey, signedAt };
  const mac: Mac = {
    algorithm: 'sha256',
    encoding: 'base64',
    key: (secret) => (isWhpk(secret) ? undefined : key(secret)),
  };
  return { secret: verifyMac(mac, content, versioned(header, 'v1'), secrets), signedAt };
}

/** An id with a dot could be read as another id, timestamp and body that give the same signed bytes. */
function signedId(request: WebhookRequest, name: string): string {
  const id = request.headers.one(name);
  if (id === undefined || id === '' || id.includes('.'))
    throw new SignatureRejection('malformed-signature', `${name} is missing, empty or holds a dot`);
  return id;
}

function checkSecret(key: KeyOf, secret: string): string | undefined {
  const wrong = checkSecretText(secret);
  if (wrong !== undefined) return wrong;
  if (secret.startsWith('whsk_')) return 'is the private half of a key pair: only whpk_… belongs here';
  const usable = isWhpk(secret) ? whpkKey(secret) : key(secret);
  return usable === undefined ? 'is not in the encoding that the vendor hands out' : undefined;
}
