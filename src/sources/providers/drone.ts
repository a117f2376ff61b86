import { createHash } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { equalText } from '../signing/digest.js';
import { verifyMac, type Mac, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

const MAX_HEADERS = 20;

/**
 * Drone CI, an HTTP signature by HMAC (draft-cavage-http-signatures). The secret is DRONE_WEBHOOK_SECRET.
 * @see https://docs.drone.io/webhooks/overview/
 */
export function drone<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const mac: Mac = { algorithm: 'sha256', encoding: 'base64', key: textKey };

const scheme: Scheme = {
  name: 'drone',
  docs: 'https://docs.drone.io/webhooks/overview/',
  scheme: 'HTTP signature, HMAC-SHA256, base64, of `date` and `digest`; the body by its SHA-256 in `Digest`',
  signed: { id: true, type: false, time: true },
  timeUnit: 'HTTP date',
  toleranceMs: minutes(5),
  checkSecret: checkSecretText,
  checkHead: (head) => void signatureHeader(head, 'Signature'),
  verify,
  events: eventFields({ idKey: { hash: 'body' }, typeHeader: 'X-Drone-Event' }),
  keepHeaders: ['x-drone-event'],
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: 'hash of the body: the vendor sends no event id',
    more: 'the sender chooses the signed headers: `date` and `digest` must be among them, and `Digest` must be the body’s',
    unconfirmed: 'window, retries, the absence of an event id',
  },
};

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const parameters = parametersOf(signatureHeader(request, 'Signature'));
  const names = (parameters.get('headers') ?? 'date').toLowerCase().split(' ', MAX_HEADERS + 1);
  if (!names.includes('digest') || !names.includes('date') || names.length > MAX_HEADERS)
    throw new SignatureRejection('malformed-signature', 'the signature must cover date and digest');
  // Each naming would copy the header's value once more.
  if (new Set(names).size < names.length)
    throw new SignatureRejection('malformed-signature', 'a header is named twice');
  if ((parameters.get('algorithm') ?? 'hmac-sha256') !== 'hmac-sha256')
    throw new SignatureRejection('malformed-signature', 'the signature is not hmac-sha256');
  const lines = names.map((name) => `${name}: ${signedValue(request, name)}`).join('\n');
  const secret = verifyMac(mac, [lines], [parameters.get('signature') ?? ''], secrets);
  const digest = createHash('sha256').update(request.rawBody).digest('base64');
  if (!equalText(signedValue(request, 'digest'), `SHA-256=${digest}`))
    throw new SignatureRejection('wrong-signature', 'Digest is of another body');
  return { secret, signedAt: dateOf(signedValue(request, 'date')) };
}

/** `name="value"` pairs and nothing else; a value holds no quotes, and no name comes twice. */
function parametersOf(header: string): Map<string, string> {
  const parameters = new Map<string, string>();
  let read = 0;
  for (const [pair, name = '', value = ''] of header.matchAll(/(?:^|, ?)([a-zA-Z]{1,20})="([^"]*)"/g)) {
    if (parameters.has(name))
      throw new SignatureRejection('malformed-signature', 'a parameter is there twice');
    parameters.set(name, value);
    read += pair.length;
  }
  if (read !== header.length)
    throw new SignatureRejection('malformed-signature', 'the Signature header is no list of name="value"');
  return parameters;
}

function signedValue(request: WebhookRequest, name: string): string {
  const value =
    name === '(request-target)'
      ? `${request.method.toLowerCase()} ${request.url}`
      : request.headers.one(name);
  if (value === undefined) throw new SignatureRejection('missing-signature', 'a signed header is absent');
  return value;
}

/** RFC 7231's one format: Date.parse alone takes much else. */
function dateOf(text: string): number {
  const at = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(at)) throw new SignatureRejection('malformed-timestamp', 'Date is no HTTP date');
  return at;
}
