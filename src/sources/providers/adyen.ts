import { BodyReader } from '../../core/body.js';
import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import { eventIdAt } from '../../core/ids.js';
import type { Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { composeId } from '../events/dedupe-key.js';
import { eventTime } from '../events/event-time.js';
import { eventFields, eventType, type ReceivedEvent } from '../events/event-fields.js';
import { macScheme } from '../mac-source.js';
import { verifyMac, type Mac, hexKey } from '../signing/mac.js';
import { checkSecretText } from '../signing/secret-check.js';
import { single } from '../signing/signature-text.js';
import { checkJson } from '../signing/unbelieved-body.js';
import type { SourceOptions } from '../source-options.js';
import { days, seconds } from '../times.js';
import { ADYEN_TYPES } from '../types/payments.types.js';
import { adyenItems, adyenSignedText, unbelievedItem } from './adyen-item.js';

/** Options of `adyen()`. */
export interface AdyenOptions extends SourceOptions {
  /**
   * `payments`: standard webhooks, each item of the batch signed in itself. `platform`: balance platform and management
   * webhooks, whose header `HmacSignature` covers the body.
   * @default 'payments'
   */
  readonly webhooks?: 'payments' | 'platform';
}

/**
 * Adyen. The secret is the HMAC key as generated, hex.
 * @see https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures
 */
export function adyen<TPayload = unknown>(options: AdyenOptions): SourceDefinition<TPayload> {
  const { webhooks = 'payments' } = options;
  if (webhooks !== 'payments' && webhooks !== 'platform')
    throw new ConfigurationError(
      `adyen.webhooks: expected 'payments' or 'platform', received '${String(webhooks)}'`,
    );
  return defineSource(webhooks === 'payments' ? payments : platform, options, { webhooks: true });
}

const mac: Mac = { algorithm: 'sha256', encoding: 'base64', key: hexKey };

const facts = {
  name: 'adyen',
  docs: 'https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures',
  checkSecret: (secret: string) =>
    checkSecretText(secret) ?? (hexKey(secret) === undefined ? 'is not hex of whole bytes' : undefined),
  ackTimeoutMs: seconds(10),
  retries: {
    automatic: true,
    windowMs: days(30),
    sameBytes: false,
    changes: ['eventDate', 'additionalData.hmacSignature'],
  },
  notes: {
    id: '`pspReference`, `eventCode` and `success` of each item; platform webhooks: a hash of the body',
    unstable: '`eventDate`',
    more: 'payments: only eight fields of an item are signed, without escaping. So `reason`, and a colon moved between fields, are not protected',
    unconfirmed: 'that older accounts want `[accepted]`, the absence of an id in platform webhooks',
  },
} as const;

const payments: Scheme = {
  ...facts,
  scheme: 'HMAC-SHA256, base64, key in hex, of eight fields of each item (platform: of the body)',
  signed: { id: true, type: true, time: false },
  // The rest of an item is not covered: a key from it would be anyone's choice.
  signsBody: false,
  batched: true,
  verify: verifyItems,
  types: ADYEN_TYPES,
  events: (_request, body) => adyenItems(body.bytes).map((slice) => readItem(slice)),
};

const platform: Scheme = {
  ...macScheme({ ...mac, signature: single('HmacSignature'), payload: '${body}' }, {}),
  ...facts,
  events: eventFields({ idKey: { hash: 'body' }, typePath: 'type', timePath: 'timestamp' }),
};

/** Every item must be signed, and by one key; a batch without items proves nothing. */
function verifyItems(request: WebhookRequest, secrets: readonly string[]): Verification {
  const items = adyenItems(request.rawBody);
  if (items.length === 0) throw new SignatureRejection('missing-signature', 'the body holds no signed item');
  const indexes = items.map((slice) => {
    const item = unbelievedItem(slice);
    const signature = item.at('additionalData.hmacSignature');
    if (typeof signature !== 'string')
      throw new SignatureRejection('missing-signature', 'an item is not signed');
    return verifyMac(mac, [adyenSignedText(item)], [signature], secrets);
  });
  checkJson(request.rawBody);
  return { secret: indexes[0] ?? 0 };
}

function readItem(slice: Buffer): ReceivedEvent {
  const item = new BodyReader(slice);
  const success = item.at('success');
  return {
    presetId: () =>
      composeId([
        eventIdAt(item, 'pspReference'),
        eventIdAt(item, 'eventCode'),
        String(success === true || success === 'true'),
      ]),
    type: eventType(item.at('eventCode')),
    occurredAt: eventTime(item.at('eventDate')),
    slice,
  };
}
