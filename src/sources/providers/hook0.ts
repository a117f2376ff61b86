import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

const ID = 'X-Event-Id';
const TYPE = 'X-Event-Type';
const MAX_HEADERS = 50;

/** A version of Hook0's signature. */
export type Hook0Version = 'v0' | 'v1';

/** Options of `hook0()`. */
export interface Hook0Options extends SourceOptions {
  /**
   * Versions that are accepted. v1 counts where both are present. v0 covers no header: where the sender sends both, an attacker who strips
   * v1 can change the id. Give ['v1'] then, which also requires that the id's header is covered. @default ['v0', 'v1']
   */
  readonly versions?: readonly Hook0Version[];
}

/**
 * Hook0, and vendors that send through it. The secret is the subscription's.
 * @see https://documentation.hook0.com/docs/verifying-webhook-signatures
 */
export function hook0<TPayload = unknown>(options: Hook0Options): SourceDefinition<TPayload> {
  const { versions = ['v0', 'v1'] } = options;
  if (versions.length === 0 || versions.some((version) => version !== 'v0' && version !== 'v1'))
    throw new ConfigurationError(`hook0.versions: expected some of v0, v1, received ${versions.join(', ')}`);
  return defineSource(schemeOf(versions), options, { versions: true });
}

const mac: Mac = { algorithm: 'sha256', encoding: 'hex', key: textKey };

function schemeOf(versions: readonly Hook0Version[]): Scheme {
  const headersSigned = !versions.includes('v0');
  return {
    name: 'hook0',
    docs: 'https://documentation.hook0.com/docs/verifying-webhook-signatures',
    scheme:
      'HMAC-SHA256, hex, of `${timestamp}.${headerNames}.${headerValues}.${body}` (v1) or `${timestamp}.${body}` (v0)',
    signed: { id: headersSigned, type: headersSigned, time: true },
    timeUnit: 'seconds',
    signsHeaders: headersSigned ? [ID.toLowerCase(), TYPE.toLowerCase()] : [],
    toleranceMs: minutes(5),
    checkSecret: checkSecretText,
    checkHead: (head) => void signatureHeader(head, 'X-Hook0-Signature'),
    verify: (request, secrets) => verify(versions, request, secrets),
    events: eventFields({ idHeader: ID, typeHeader: TYPE }),
    keepHeaders: [ID, TYPE],
    retries: { automatic: true, sameBytes: false, changes: [] },
    notes: {
      id: '`X-Event-Id` header, signed with v1 alone',
      more: 'header values are joined by dots, so a dot moved between two of them signs the same text',
      unconfirmed: 'id and type headers, retries',
    },
  };
}

function verify(
  versions: readonly Hook0Version[],
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const parts = readParts(signatureHeader(request, 'X-Hook0-Signature'));
  const timestamp = parts.get('t');
  const signedAt = signedTime(timestamp, 'seconds');
  const names = headerNames(parts.get('h'));
  const values = names.map((name) => signedValue(request, name));
  const v1 = versions.includes('v1') ? parts.get('v1') : undefined;
  if (v1 !== undefined) {
    if (!versions.includes('v0') && ![ID, TYPE].every((name) => names.includes(name.toLowerCase())))
      throw new SignatureRejection('malformed-signature', `${ID} and ${TYPE} are not signed`);
    const content = [`${timestamp}.${names.join(' ')}.${values.join('.')}.`, request.rawBody];
    return { secret: verifyMac(mac, content, [v1], secrets), signedAt };
  }
  const v0 = versions.includes('v0') ? parts.get('v0') : undefined;
  if (v0 === undefined)
    throw new SignatureRejection('missing-signature', 'no signature of an accepted version');
  return { secret: verifyMac(mac, [`${timestamp}.`, request.rawBody], [v0], secrets), signedAt };
}

function readParts(header: string): Map<string, string> {
  const parts = new Map<string, string>();
  for (const part of header.split(',')) {
    const at = part.indexOf('=');
    const name = at < 0 ? part : part.slice(0, at);
    if (parts.has(name)) throw new SignatureRejection('malformed-signature', 'a part is there twice');
    parts.set(name, at < 0 ? '' : part.slice(at + 1));
  }
  return parts;
}

function headerNames(list: string | undefined): string[] {
  const names = list === undefined || list === '' ? [] : list.toLowerCase().split(' ');
  if (names.length > MAX_HEADERS)
    throw new SignatureRejection('malformed-signature', `${names.length} headers are named`);
  // Each naming would copy the header's value once more.
  if (new Set(names).size < names.length)
    throw new SignatureRejection('malformed-signature', 'a header is named twice');
  return names;
}

function signedValue(request: WebhookRequest, name: string): string {
  const value = request.headers.one(name);
  if (value === undefined) throw new SignatureRejection('missing-signature', 'a named header is absent');
  return value;
}
