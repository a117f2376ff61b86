import type { KeyObject } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { Secrets, SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import {
  CERTIFICATE_OPTIONS,
  CertificateSource,
  type CertificateOptions,
} from '../keys/certificate-source.js';
import { decodeStrict } from '../signing/digest.js';
import { verifies } from '../signing/public-key.js';
import { checkSecretText } from '../signing/secret-check.js';
import { signatureHeader } from '../signing/signature-text.js';
import { signedTime } from '../signing/signed-time.js';
import type { SourceOptions } from '../source-options.js';
import { days } from '../times.js';

/** Options of `paypal()`. */
export interface PaypalOptions extends Omit<SourceOptions, 'secrets'>, CertificateOptions {
  /** Ids of your webhooks, as the developer dashboard shows them. The id is signed and not in the request. */
  readonly webhookIds: Secrets;
}

/**
 * PayPal. There is no secret: PayPal signs with its certificate, over your webhook id.
 * @see https://developer.paypal.com/api/rest/webhooks/rest/
 */
export function paypal<TPayload = unknown>(options: PaypalOptions): SourceDefinition<TPayload> {
  const { webhookIds, ...rest } = options;
  return defineSource(schemeOf(options), { ...rest, secrets: webhookIds }, CERTIFICATE_OPTIONS);
}

function schemeOf(options: PaypalOptions): Scheme {
  const certificates = new CertificateSource('paypal', isPaypalUrl, options);
  return {
    name: 'paypal',
    secretsOption: 'webhookIds',
    docs: 'https://developer.paypal.com/api/rest/webhooks/rest/',
    scheme:
      'RSA with SHA-256, certificate from PayPal, base64, of `${transmissionId}|${transmissionTime}|${webhookId}|${crc32(body)}`',
    signed: { id: true, type: true, time: true },
    asks: 'vendor',
    timeUnit: 'iso8601',
    signsHeaders: ['paypal-transmission-id'],
    checkSecret: checkSecretText,
    checkHead: (head) => void signatureHeader(head, 'PAYPAL-TRANSMISSION-SIG'),
    verify: (request, webhookIds) => verify(certificates, request, webhookIds),
    events: eventFields({ idPath: 'id', typePath: 'event_type', timePath: 'create_time' }),
    keepHeaders: ['paypal-transmission-id', 'paypal-transmission-time'],
    retries: { automatic: true, windowMs: days(3), sameBytes: false, changes: [] },
    notes: {
      id: '`id` of the body (`WH-…`)',
      unstable: 'transmission id, time and signature are new for every attempt',
      more: 'the body is protected by CRC32 only, which finds accidents, not attacks. No window is prescribed: set `tolerance` to have one',
    },
  };
}

function isPaypalUrl(url: URL): boolean {
  return /^(?:[a-z0-9-]+\.)+paypal\.com$/.test(url.hostname);
}

async function verify(
  certificates: CertificateSource,
  request: WebhookRequest,
  webhookIds: readonly string[],
): Promise<Verification> {
  const signature = decodeStrict(signatureHeader(request, 'PAYPAL-TRANSMISSION-SIG'), 'base64');
  if (signature === undefined)
    throw new SignatureRejection('malformed-signature', 'PAYPAL-TRANSMISSION-SIG is no base64');
  if (request.headers.one('PAYPAL-AUTH-ALGO') !== 'SHA256withRSA')
    throw new SignatureRejection('malformed-signature', 'PAYPAL-AUTH-ALGO is not SHA256withRSA');
  const transmissionId = signatureHeader(request, 'PAYPAL-TRANSMISSION-ID');
  const time = request.headers.one('PAYPAL-TRANSMISSION-TIME');
  const signedAt = signedTime(time, 'iso8601');
  const checksum = crc32(request.rawBody);
  const signed = webhookIds.map((webhookId) =>
    Buffer.from([transmissionId, time, webhookId, checksum].join('|')),
  );
  let secret = -1;
  const check = (key: KeyObject) => {
    secret = signed.findIndex((bytes) => verifies('sha256', bytes, key, signature));
    return secret >= 0;
  };
  if (!(await certificates.verify(request.headers.one('PAYPAL-CERT-URL'), check)))
    throw new SignatureRejection('wrong-signature', 'PayPal did not sign this for any of the webhook ids');
  return { secret, signedAt };
}
