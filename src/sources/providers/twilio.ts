import { createHash } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { queryValues } from '../challenge.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import { equalText } from '../signing/digest.js';
import { verifyMac, type MacAlgorithm, textKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { seconds } from '../times.js';
import { publicUrlOption } from '../url-option.js';
import { twilioEvent } from './twilio-event.js';
import { withAndWithoutPort } from './twilio-url.js';

/** Options of `twilio()`. */
export interface TwilioOptions extends SourceOptions {
  /**
   * Scheme and host (and port, credentials and path prefix, if any) under which Twilio calls you, character for character:
   * 'https://hooks.example.com'. The whole URL is signed.
   */
  readonly publicUrl: string;
  /**
   * The only accepted algorithm: 'sha256' with a shared key, 'sha1' with the auth token. By default the settings header says
   * which of the two; anything else is refused.
   */
  readonly algorithm?: 'sha1' | 'sha256';
}

/**
 * Twilio. The secret is the auth token, or a shared key. Keep primary and secondary token while rotating.
 * @see https://www.twilio.com/docs/usage/webhooks/webhooks-security
 * @throws ConfigurationError without `publicUrl`
 */
export function twilio<TPayload = unknown>(options: TwilioOptions): SourceDefinition<TPayload> {
  checkOptionNames('twilio', options, OWN);
  const publicUrl = publicUrlOption('twilio.publicUrl', options.publicUrl);
  return defineSource(schemeOf(publicUrl, options.algorithm), options, OWN);
}

const OWN = { publicUrl: true, algorithm: true } as const;

function schemeOf(publicUrl: string, pinned: TwilioOptions['algorithm']): Scheme {
  return {
    name: 'twilio',
    docs: 'https://www.twilio.com/docs/usage/webhooks/webhooks-security',
    scheme:
      'HMAC-SHA1 (shared keys: SHA256), base64, of the URL and the sorted form fields; other bodies by `bodySHA256` of the query',
    signed: { id: false, type: true, time: false },
    checkSecret: checkSecretText,
    checkHead: (head) => void signatureHeader(head, 'X-Twilio-Signature'),
    verify: (request, secrets) => verify(publicUrl + request.url, pinned, request, secrets),
    events: (request, body) => [twilioEvent(request, body)],
    methods: ['POST', 'GET'],
    keepHeaders: ['i-twilio-idempotency-token'],
    ackTimeoutMs: seconds(15),
    retries: { automatic: true, windowMs: seconds(75), sameBytes: true },
    notes: {
      id: '`I-Twilio-Idempotency-Token` header, else a hash of URL and body',
      unstable:
        'the header is not signed; no time is signed either, so that a captured request can be sent again',
      stops: '4xx',
      more: 'its settings header chooses SHA-1 or SHA-256: `algorithm` pins one. The public URL is signed: behind a proxy `publicUrl` must be the URL that Twilio calls',
      unconfirmed: 'idempotency header, retries, time-out',
    },
  };
}

function verify(
  url: string,
  pinned: TwilioOptions['algorithm'],
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const signature = signatureHeader(request, 'X-Twilio-Signature');
  const algorithm = algorithmOf(request);
  if (pinned !== undefined && algorithm !== pinned)
    throw new SignatureRejection('malformed-signature', `expected ${pinned}, the request says ${algorithm}`);
  const fields = Buffer.from(signedFields(request));
  const mac = { algorithm, encoding: 'base64', key: textKey } as const;
  const [received, other] = withAndWithoutPort(url);
  try {
    return { secret: verifyMac(mac, [received, fields], [signature], secrets) };
  } catch (error) {
    if (!(error instanceof SignatureRejection) || error.reason !== 'wrong-signature') throw error;
    return { secret: verifyMac(mac, [other, fields], [signature], secrets) };
  }
}

/** `key=…,algorithm=HMAC_SHA256`; absent or without an algorithm it is the auth token's HMAC-SHA1. Unknown ones fail. */
function algorithmOf(request: WebhookRequest): MacAlgorithm {
  const settings = request.headers.one('X-Twilio-Webhooks-Signature-Settings') ?? '';
  const named = settings
    .slice(0, 1024)
    .split(',')
    .map((part) => part.split('='))
    .find(([name, value]) => name?.trim() === 'algorithm' && value !== undefined && value.trim() !== '');
  const algorithm = named?.[1]?.trim().toUpperCase() ?? 'HMAC_SHA1';
  if (algorithm === 'HMAC_SHA1') return 'sha1';
  if (algorithm === 'HMAC_SHA256') return 'sha256';
  throw new SignatureRejection('malformed-signature', 'the settings header names an unknown algorithm');
}

/**
 * The parts of the body that are signed beside the URL: the decoded fields of a form, sorted by name, values of a repeated name sorted and
 * once each. Any other body is covered by its hash in the URL's `bodySHA256`, which must be present and right.
 */
function signedFields(request: WebhookRequest): string {
  const type = request.headers.first('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const [bodyHash] = queryValues(request, 'bodySHA256');
  if (bodyHash !== undefined) {
    if (equalText(createHash('sha256').update(request.rawBody).digest('hex'), bodyHash)) return '';
    if (type !== 'application/x-www-form-urlencoded')
      throw new SignatureRejection('wrong-signature', 'bodySHA256 is of another body');
  }
  if (type === 'application/x-www-form-urlencoded') return formFields(request.rawBody);
  if (type === '' && request.rawBody.length === 0) return '';
  throw new SignatureRejection('missing-signature', 'the URL has no bodySHA256, so nothing covers the body');
}

/** Most fields of a form, as of Express’s and PHP’s parsers. All are signed, so all are read before they are believed: a million cost 600 ms and 100 MB. */
const MAX_FIELDS = 1000;

function formFields(body: Buffer): string {
  let fields = 1;
  for (let at = body.indexOf('&'); at >= 0; at = body.indexOf('&', at + 1))
    if (++fields > MAX_FIELDS)
      throw new SignatureRejection('malformed-signature', `the form has more than ${MAX_FIELDS} fields`);
  const values = new Map<string, Set<string>>();
  for (const [name, value] of new URLSearchParams(body.toString('utf8'))) {
    const known = values.get(name);
    if (known === undefined) values.set(name, new Set([value]));
    else known.add(value);
  }
  return [...values.keys()]
    .sort()
    .map((name) =>
      [...values.get(name)!]
        .sort()
        .map((value) => name + value)
        .join(''),
    )
    .join('');
}
