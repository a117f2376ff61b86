import { createHash } from 'node:crypto';
import type { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { eventTime } from '../events/event-time.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { unbelievedFields } from '../signing/unbelieved-body.js';

/** Longest field of signatures that is read, in characters: twenty pairs fit. */
const MAX_SIGNATURE = 4096;

/** A challenge of the handshake. It is base64 as well, so that `braintreeForm` refuses it as a payload: anyone can have one signed. */
export function isBraintreeChallenge(text: string): boolean {
  return /^[a-f0-9]{20,32}$/.test(text);
}

/**
 * The two fields of a notification, each there once.
 * @throws SignatureRejection
 */
export function braintreeForm(body: Buffer): { signature: string; payload: string } {
  const form = unbelievedFields(body, ['bt_signature', 'bt_payload']);
  const [signature, ...moreSignatures] = form.bt_signature;
  const [payload, ...morePayloads] = form.bt_payload;
  if (!signature || !payload)
    throw new SignatureRejection('missing-signature', 'bt_signature or bt_payload is missing');
  if (moreSignatures.length > 0 || morePayloads.length > 0)
    throw new SignatureRejection('malformed-signature', 'bt_signature or bt_payload is there twice');
  if (signature.length > MAX_SIGNATURE)
    throw new SignatureRejection('malformed-signature', `bt_signature has ${signature.length} characters`);
  // A plus that the client did not encode arrives as a space, and another text was signed.
  if (!/^[A-Za-z0-9+=/\n]+$/.test(payload))
    throw new SignatureRejection('malformed-signature', 'bt_payload is no base64');
  if (isBraintreeChallenge(payload.trimEnd()))
    throw new SignatureRejection('wrong-signature', 'bt_payload is a challenge, which is signed for anyone');
  return { signature, payload };
}

/** The XML of a stored notification. */
export function braintreeXml(body: Buffer): string {
  return Buffer.from(braintreeForm(body).payload, 'base64').toString('utf8');
}

/** Only kind and time are read out of the XML, by their tags; parsing it is left to the handler and its SDK. */
export function braintreeEvent(body: BodyReader): ReceivedEvent {
  const { payload } = braintreeForm(body.bytes);
  const xml = Buffer.from(payload, 'base64').toString('utf8').slice(0, 4096);
  return {
    presetId: () => `content:${createHash('sha256').update(payload).digest('hex')}`,
    type: eventType(/<kind>([a-z_0-9]{1,100})<\/kind>/.exec(xml)?.[1]),
    occurredAt: eventTime(/<timestamp[^>]{0,40}>([0-9TZ:.+-]{1,40})<\/timestamp>/.exec(xml)?.[1]),
  };
}
