import { createHash, createHmac } from 'node:crypto';
import { hmac, type Signer } from './signer.js';

const OTHER = 'another-signing-key-0123456789';

const telegram: Signer = {
  provider: 'telegram',
  secret: 'telegram_secret_token',
  otherSecret: 'another_secret_token',
  signsTime: false,
  signsBody: false,
  body: (id) => JSON.stringify({ update_id: id, message: {} }),
  sign: () => ({ headers: { 'X-Telegram-Bot-Api-Secret-Token': telegram.secret } }),
};

const okta: Signer = {
  provider: 'okta',
  secret: 'okta-authentication-secret',
  otherSecret: OTHER,
  signsTime: false,
  signsBody: false,
  body: (id) =>
    JSON.stringify({
      data: { events: [{ uuid: id, eventType: 'user.lifecycle.create', published: '2026-01-01T00:00:00Z' }] },
    }),
  sign: () => ({ headers: { Authorization: okta.secret } }),
};

const postmark: Signer = {
  provider: 'postmark',
  secret: 'user:pass:word',
  otherSecret: 'user:other',
  signsTime: false,
  signsBody: false,
  body: (id) =>
    JSON.stringify({ RecordType: 'Delivery', MessageID: id, DeliveredAt: '2026-01-01T00:00:00Z' }),
  sign: () => ({ headers: { Authorization: `Basic ${Buffer.from(postmark.secret).toString('base64')}` } }),
};

/** A JWT that covers no body. */
const monday: Signer = {
  provider: 'monday',
  secret: 'monday-signing-secret',
  otherSecret: OTHER,
  signsTime: true,
  signsBody: false,
  body: (id) =>
    JSON.stringify({ event: { triggerUuid: id, type: 'create_pulse', triggerTime: '2026-01-01T00:00:00Z' } }),
  sign: (_body, at) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ accountId: 1, iat: at, exp: at + 300 })}`;
    return { headers: { Authorization: `${signed}.${hmac('sha256', monday.secret, 'base64url', signed)}` } };
  },
};

/** Time and token stand in the body and are all that is signed. */
const mailgun: Signer = {
  provider: 'mailgun',
  secret: 'mailgun-signing-key',
  otherSecret: OTHER,
  signsTime: true,
  signsBody: false,
  body: (id) => JSON.stringify({ 'event-data': { id, event: 'delivered', timestamp: 1767225600.5 } }),
  sign: (body, at) => {
    const token = 'f'.repeat(50);
    const signature = {
      timestamp: String(at),
      token,
      signature: hmac('sha256', mailgun.secret, 'hex', `${at}${token}`),
    };
    return {
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ signature, ...(JSON.parse(body.toString()) as object) })),
    };
  },
};

/** Eight fields of the item, with a key in hex. */
const adyen: Signer = {
  provider: 'adyen',
  secret: '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056',
  otherSecret: 'DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00',
  signsTime: false,
  signsBody: false,
  body: (id) =>
    JSON.stringify({
      pspReference: id,
      merchantAccountCode: 'Shop',
      merchantReference: 'order 1',
      amount: { value: 1130, currency: 'EUR' },
      eventCode: 'AUTHORISATION',
      success: 'true',
    }),
  sign: (body) => {
    const item = JSON.parse(body.toString()) as { pspReference: string };
    const text = [item.pspReference, '', 'Shop', 'order 1', 1130, 'EUR', 'AUTHORISATION', 'true'].join(':');
    const hmacSignature = hmac('sha256', Buffer.from(adyen.secret, 'hex'), 'base64', text);
    const NotificationRequestItem = { ...item, additionalData: { hmacSignature } };
    return {
      headers: {},
      body: Buffer.from(JSON.stringify({ live: 'false', notificationItems: [{ NotificationRequestItem }] })),
    };
  },
};

/** A form whose one field is signed. */
const braintree: Signer = {
  provider: 'braintree',
  secret: 'public_key:private_key',
  otherSecret: 'public_key:another_private_key',
  signsTime: false,
  signsBody: false,
  body: (id) =>
    `<notification><kind>subscription_canceled</kind><timestamp type="datetime">2026-01-01T00:00:00Z</timestamp><subject>${id}</subject></notification>`,
  sign: (body) => {
    const payload = `${body.toString('base64')}\n`;
    const key = createHash('sha1').update('private_key').digest();
    const signature = createHmac('sha1', key).update(payload).digest('hex');
    return {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: Buffer.from(
        new URLSearchParams({ bt_signature: `public_key|${signature}`, bt_payload: payload }).toString(),
      ),
    };
  },
};

export const tokenSigners: readonly Signer[] = [telegram, okta, postmark, monday, mailgun, adyen, braintree];
