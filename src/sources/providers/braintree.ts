import { createHash } from 'node:crypto';
import type { Answer } from '../../core/answer.js';
import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { queryValue, textAnswer } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { digestOf, usableKeys, verifyMac, type Mac } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import type { SourceOptions } from '../source-options.js';
import { hours, seconds } from '../times.js';
import {
  braintreeEvent,
  braintreeForm,
  braintreeXml,
  isBraintreeChallenge,
} from './braintree-notification.js';

/**
 * Braintree. The secret is `publicKey:privateKey` of an API key. The payload of an event is its XML.
 * @see https://developer.paypal.com/braintree/docs/guides/webhooks/parse/node
 */
export function braintree<TPayload = string>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'braintree',
  docs: 'https://developer.paypal.com/braintree/docs/guides/webhooks/parse/node',
  scheme: 'HMAC-SHA1, hex, key SHA-1 of the private key, of the form field `bt_payload`',
  signed: { id: true, type: true, time: false },
  // The form around it is not signed.
  signsBody: false,
  checkSecret: (secret) =>
    checkSecretText(secret) ?? (/^[^:|]+:.+$/.test(secret) ? undefined : 'is not `publicKey:privateKey`'),
  verify,
  events: (_request, body) => [braintreeEvent(body)],
  parse: braintreeXml,
  handshake: { methods: ['GET'], answer },
  ackTimeoutMs: seconds(30),
  retries: { automatic: true, windowMs: hours(24), sameBytes: false },
  notes: {
    id: 'hash of the signed `bt_payload`: the vendor sends no event id',
    handshake: 'GET `?bt_challenge=`, unsigned: public key and HMAC, of the first of `secrets`, as text',
    more: 'the challenge is answered for anyone, with the key of the events. So only 20 to 32 hex digits are signed, and a payload of such digits is refused',
    unconfirmed: 'retries, time-out',
  },
};

function keysOf(secret: string): { publicKey: string; privateKey: string } {
  const at = secret.indexOf(':');
  return { publicKey: secret.slice(0, Math.max(at, 0)), privateKey: at < 0 ? '' : secret.slice(at + 1) };
}

/** The HMAC's key is the SHA-1 of the private key's text. */
const mac: Mac = {
  algorithm: 'sha1',
  encoding: 'hex',
  key: (secret) => {
    const { privateKey } = keysOf(secret);
    return privateKey === '' ? undefined : createHash('sha1').update(privateKey).digest();
  },
};

/** Of the pairs `publicKey|signature`, the first of each of our public keys counts. */
function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  const { signature, payload } = braintreeForm(request.rawBody);
  const pairs = signature.split('&', 20).map((pair) => pair.split('|'));
  let failure = new SignatureRejection('wrong-signature', 'no signature is for a configured public key');
  for (const [index] of usableKeys(mac.key, secrets)) {
    const secret = secrets[index]!;
    const { publicKey } = keysOf(secret);
    const found =
      publicKey === ''
        ? undefined
        : pairs.find(([name, digest]) => name === publicKey && digest !== undefined);
    if (found?.length !== 2) continue;
    for (const content of [payload, `${payload}\n`]) {
      try {
        verifyMac(mac, [content], [found[1]!], [secret]);
        return { secret: index };
      } catch (error) {
        if (!(error instanceof SignatureRejection)) throw error;
        failure = error;
      }
    }
  }
  throw failure;
}

/** Made with the key of the deliveries, for anyone: `braintreeForm` refuses a payload that is a challenge. */
function answer(request: WebhookRequest, secrets: readonly string[]): Answer | undefined {
  const challenge = request.method === 'GET' ? queryValue(request, 'bt_challenge') : undefined;
  const [secret = ''] = secrets;
  const key = mac.key(secret);
  if (challenge === undefined || key === undefined || !isBraintreeChallenge(challenge)) return undefined;
  return textAnswer(`${keysOf(secret).publicKey}|${digestOf('sha1', key, [challenge]).toString('hex')}`);
}
