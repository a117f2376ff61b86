import type { KeyObject } from 'node:crypto';
import { verifies } from '../signing/public-key.js';
import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { Secrets, SourceDefinition } from '../../core/options/source.js';
import { EMPTY_OK } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import {
  CERTIFICATE_OPTIONS,
  CertificateSource,
  type CertificateOptions,
} from '../keys/certificate-source.js';
import { fetchText, type Fetch } from '../keys/fetch-text.js';
import { decodeStrict } from '../signing/digest.js';
import { verifyToken } from '../signing/token.js';
import { checkJson, UnbelievedJson } from '../signing/unbelieved-body.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';
import { isSnsUrl, SNS_MEMBERS, snsSignedText } from './sns-message.js';

/** Options of `sns()`. */
export interface SnsOptions extends Omit<SourceOptions, 'secrets'>, CertificateOptions {
  /** ARNs of the topics that may send here. Anyone with an AWS account can have SNS sign a message; only the topic is yours. */
  readonly topicArns: Secrets;
  /**
   * The only accepted `SignatureVersion`: '1' signs with SHA-1, '2' with SHA-256; which one is a setting of the topic. By default the
   * message says which of the two; anything else is refused.
   */
  readonly signatureVersion?: '1' | '2';
  /** Whether a SubscriptionConfirmation of such a topic is confirmed by visiting its SubscribeURL. @default true */
  readonly confirmSubscriptions?: boolean;
}

/**
 * Amazon SNS over HTTPS, without raw message delivery (that removes the signature).
 * @see https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
 * @throws ConfigurationError for an unknown option
 */
export function sns<TPayload = unknown>(options: SnsOptions): SourceDefinition<TPayload> {
  const { topicArns, ...rest } = options;
  return defineSource(
    schemeOf(options),
    { ...rest, secrets: topicArns },
    { ...CERTIFICATE_OPTIONS, confirmSubscriptions: true, signatureVersion: true },
  );
}

function schemeOf(options: SnsOptions): Scheme {
  const certificates = new CertificateSource(
    'sns',
    (url) => isSnsUrl(url) && url.pathname.endsWith('.pem'),
    options,
  );
  const { signatureVersion: pinned } = options;
  if (pinned !== undefined && pinned !== '1' && pinned !== '2')
    throw new ConfigurationError(`sns.signatureVersion: expected '1' or '2', received '${String(pinned)}'`);
  const fetch: Fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
  return {
    name: 'sns',
    secretsOption: 'topicArns',
    docs: 'https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html',
    scheme:
      'RSA with SHA-1 or SHA-256 (SignatureVersion 1 or 2), certificate from SNS, base64, of fields of the body',
    signed: { id: true, type: true, time: true },
    asks: 'vendor',
    timeUnit: 'iso8601',
    checkSecret: (arn) =>
      /^arn:aws[a-z-]*:sns:[^:\s]+:\d{12}:[^:\s]+$/.test(arn) ? undefined : 'is no ARN of a topic',
    verify: (request, topicArns) => verify(certificates, pinned, request, topicArns),
    events: eventFields({ idPath: 'MessageId', typePath: 'Type', timePath: 'Timestamp' }),
    handshake:
      options.confirmSubscriptions === false
        ? undefined
        : {
            methods: ['POST'],
            answer: () => undefined,
            perform: (request, _topicArns, verified) => confirm(fetch, request, verified),
          },
    keepHeaders: ['x-amz-sns-message-type', 'x-amz-sns-topic-arn', 'x-amz-sns-subscription-arn'],
    ackTimeoutMs: seconds(15),
    retries: {
      automatic: true,
      windowMs: minutes(60),
      sameBytes: false,
      changes: ['Signature', 'SigningCertURL'],
    },
    notes: {
      id: '`MessageId` of the body',
      unstable: '`Signature` and `SigningCertURL` may change',
      stops: '4xx except 429',
      handshake:
        'POST `SubscriptionConfirmation`, signed: its `SubscribeURL` is visited for configured topics',
      more: '`SignatureVersion` of the message chooses SHA-1 or SHA-256: `signatureVersion` pins one. By default SNS retries three times, 20 s apart. Then it drops the message, unless the subscription has a dead-letter queue. No window is prescribed: set `tolerance` to have one',
      unconfirmed: 'time-out, stop codes',
    },
  };
}

async function verify(
  certificates: CertificateSource,
  pinned: SnsOptions['signatureVersion'],
  request: WebhookRequest,
  topicArns: readonly string[],
): Promise<Verification> {
  const body = new UnbelievedJson(request.rawBody, SNS_MEMBERS);
  const topicArn = body.at('TopicArn');
  // Before the certificate is fetched: messages of other topics cost nothing.
  const { secret } = verifyToken(typeof topicArn === 'string' ? topicArn : undefined, topicArns);
  const { text, algorithm } = snsSignedText(body);
  if (pinned !== undefined && body.at('SignatureVersion') !== pinned)
    throw new SignatureRejection('malformed-signature', `SignatureVersion is not the configured ${pinned}`);
  const signature = body.at('Signature');
  const bytes = typeof signature === 'string' ? decodeStrict(signature, 'base64') : undefined;
  if (bytes === undefined) throw new SignatureRejection('malformed-signature', 'Signature is no base64');
  const signed = Buffer.from(text);
  const check = (key: KeyObject) => verifies(algorithm, signed, key, bytes);
  if (!(await certificates.verify(body.at('SigningCertURL'), check)))
    throw new SignatureRejection('wrong-signature', 'the certificate did not make this signature');
  checkJson(request.rawBody);
  return { secret, signedAt: timeOf(body) };
}

function timeOf(body: UnbelievedJson): number {
  const text = body.at('Timestamp');
  const at = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new SignatureRejection('malformed-timestamp', 'Timestamp is no time');
  return at;
}

/** The URL is part of what is signed, and still only SNS is visited: a signature is no licence to fetch anything. */
async function confirm(
  fetch: Fetch,
  request: WebhookRequest,
  verified: boolean,
): Promise<Answer | undefined> {
  if (!verified) return undefined;
  const body = new BodyReader(request.rawBody);
  const text = body.at('SubscribeURL');
  if (body.at('Type') !== 'SubscriptionConfirmation' || typeof text !== 'string') return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isSnsUrl(url)) return undefined;
  try {
    await fetchText(fetch, url.href);
  } catch (error) {
    throw new SignatureRejection('key-unavailable', 'SubscribeURL could not be visited', { cause: error });
  }
  return EMPTY_OK;
}
