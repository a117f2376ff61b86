import { createHash, createHmac } from 'node:crypto';
import { hmac, jsonOf, SAMPLE_TIME, type VendorSigner } from './signer.js';

const telegram: VendorSigner = {
  provider: 'telegram',
  secret: 'telegram_secret_token',
  type: 'message',
  signsTime: false,
  signsBody: false,
  body: ({ id, type }) => JSON.stringify({ update_id: id, [type]: {} }),
  sign: (_body, { keys }) => ({ headers: { 'X-Telegram-Bot-Api-Secret-Token': keys.secret } }),
};

const okta: VendorSigner = {
  provider: 'okta',
  secret: 'okta-authentication-secret',
  type: 'user.lifecycle.create',
  signsTime: false,
  signsBody: false,
  body: ({ id, type }) =>
    JSON.stringify({ data: { events: [{ uuid: id, eventType: type, published: SAMPLE_TIME }] } }),
  sign: (_body, { keys }) => ({ headers: { Authorization: keys.secret } }),
};

const postmark: VendorSigner = {
  provider: 'postmark',
  secret: 'user:pass:word',
  type: 'Delivery',
  signsTime: false,
  signsBody: false,
  body: ({ id, type }) => JSON.stringify({ RecordType: type, MessageID: id, DeliveredAt: SAMPLE_TIME }),
  sign: (_body, { keys }) => ({
    headers: { Authorization: `Basic ${Buffer.from(keys.secret).toString('base64')}` },
  }),
};

/** A JWT that covers no body. */
const monday: VendorSigner = {
  provider: 'monday',
  secret: 'monday-signing-secret',
  type: 'create_pulse',
  signsTime: true,
  signsBody: false,
  body: ({ id, type }) => JSON.stringify({ event: { triggerUuid: id, type, triggerTime: SAMPLE_TIME } }),
  sign: (_body, { keys, at }) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ accountId: 1, iat: at, exp: at + 300 })}`;
    return { headers: { Authorization: `${signed}.${hmac('sha256', keys.secret, 'base64url', signed)}` } };
  },
};

/** The signature is a field of the body, and covers a time and a token only. */
const mailgun: VendorSigner = {
  provider: 'mailgun',
  secret: 'mailgun-signing-key',
  type: 'delivered',
  signsTime: true,
  signsBody: false,
  body: ({ id, type }) => JSON.stringify({ 'event-data': { id, event: type, timestamp: 1767225600.5 } }),
  sign: (body, { keys, at }) => {
    const token = 'f'.repeat(50);
    const signature = {
      timestamp: String(at),
      token,
      signature: hmac('sha256', keys.secret, 'hex', `${at}${token}`),
    };
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...jsonOf(body), signature })) };
  },
};

interface AdyenItem {
  readonly pspReference?: string;
  readonly originalReference?: string;
  readonly merchantAccountCode?: string;
  readonly merchantReference?: string;
  readonly amount?: { readonly value?: number; readonly currency?: string };
  readonly eventCode?: string;
  readonly success?: string;
  readonly additionalData?: object;
}

/** Each item is signed over eight of its fields, with a key in hex. */
const adyen: VendorSigner = {
  provider: 'adyen',
  secret: '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056',
  type: 'AUTHORISATION',
  signsTime: false,
  signsBody: false,
  body: ({ id, type }) =>
    JSON.stringify({
      live: 'false',
      notificationItems: [
        {
          NotificationRequestItem: {
            pspReference: id,
            merchantAccountCode: 'Shop',
            merchantReference: 'order 1',
            amount: { value: 1130, currency: 'EUR' },
            eventCode: type,
            success: 'true',
          },
        },
      ],
    }),
  sign: (body, { keys }) => {
    const notification = jsonOf(body) as { notificationItems: { NotificationRequestItem: AdyenItem }[] };
    const notificationItems = notification.notificationItems.map(({ NotificationRequestItem: item }) => ({
      NotificationRequestItem: signedItem(item, keys.secret),
    }));
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...notification, notificationItems })) };
  },
};

function signedItem(item: AdyenItem, secret: string): AdyenItem {
  const text = [
    item.pspReference,
    item.originalReference,
    item.merchantAccountCode,
    item.merchantReference,
    item.amount?.value,
    item.amount?.currency,
    item.eventCode,
    item.success,
  ].join(':');
  const hmacSignature = hmac('sha256', Buffer.from(secret, 'hex'), 'base64', text);
  return { ...item, additionalData: { ...item.additionalData, hmacSignature } };
}

/** A form whose one field is signed. */
const braintree: VendorSigner = {
  provider: 'braintree',
  secret: 'public_key:private_key',
  type: 'subscription_canceled',
  signsTime: false,
  signsBody: false,
  body: ({ id, type }) =>
    `<notification><kind>${type}</kind><timestamp type="datetime">${SAMPLE_TIME}</timestamp><subject>${id}</subject></notification>`,
  sign: (body, { keys }) => {
    const colon = keys.secret.indexOf(':');
    const payload = `${body.toString('base64')}\n`;
    const key = createHash('sha1')
      .update(keys.secret.slice(colon + 1))
      .digest();
    const signature = createHmac('sha1', key).update(payload).digest('hex');
    const form = { bt_signature: `${keys.secret.slice(0, colon)}|${signature}`, bt_payload: payload };
    return {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: Buffer.from(new URLSearchParams(form).toString()),
    };
  },
};

export const tokenSigners: readonly VendorSigner[] = [
  telegram,
  okta,
  postmark,
  monday,
  mailgun,
  adyen,
  braintree,
];
