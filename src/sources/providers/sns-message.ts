import { SignatureRejection } from '../../core/errors.js';
import type { UnbelievedJson } from '../signing/unbelieved-body.js';

/** Keys in the order in which they are signed; a notification without a subject leaves it out. */
const NOTIFICATION = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'];
const CONFIRMATION = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];

/** Members that are read before a message is believed. */
export const SNS_MEMBERS = new Set([
  ...NOTIFICATION,
  ...CONFIRMATION,
  'Signature',
  'SignatureVersion',
  'SigningCertURL',
]);

/**
 * The text that SNS signed, and with which hash.
 * @throws SignatureRejection when a field is missing or no text, or the version is unknown
 */
export function snsSignedText(body: Pick<UnbelievedJson, 'at'>): {
  text: string;
  algorithm: 'sha1' | 'sha256';
} {
  const version = body.at('SignatureVersion');
  if (version !== '1' && version !== '2')
    throw new SignatureRejection('malformed-signature', 'SignatureVersion is neither 1 nor 2');
  const text = keysOf(body.at('Type'))
    .map((key) => line(key, body.at(key)))
    .join('');
  return { text, algorithm: version === '1' ? 'sha1' : 'sha256' };
}

/** Whether a URL is of SNS itself: other hosts of amazonaws.com are customers' (S3). */
export function isSnsUrl(url: URL): boolean {
  return (
    url.protocol === 'https:' &&
    url.username === '' &&
    url.password === '' &&
    url.port === '' &&
    /^sns\.[a-z0-9-]{3,}\.amazonaws\.com(?:\.cn)?$/.test(url.hostname)
  );
}

function keysOf(type: unknown): readonly string[] {
  if (type === 'Notification') return NOTIFICATION;
  if (type === 'SubscriptionConfirmation' || type === 'UnsubscribeConfirmation') return CONFIRMATION;
  throw new SignatureRejection('malformed-signature', 'Type is not one that SNS sends');
}

function line(key: string, value: unknown): string {
  if (key === 'Subject' && (value === undefined || value === null)) return '';
  if (typeof value !== 'string') throw new SignatureRejection('malformed-signature', `${key} is no text`);
  return `${key}\n${value}\n`;
}
