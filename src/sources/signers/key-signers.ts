import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { makeCertificate } from './certificate.js';
import {
  jsonOf,
  SAMPLE_TIME,
  type KeyPair,
  type Signing,
  type TestKeys,
  type VendorSigner,
} from './signer.js';

const PLAID_KID = 'bfbd5111-8e33-4643-8ced-b2e642a72f3c';
const TRANSMISSION = 'dfb3be50-fd74-11e4-8bf3-77339302725b';
const CERTIFICATE_HOST = 'messages.example.com';

export const ed25519 = (): KeyPair => generateKeyPairSync('ed25519');
export const p256 = (): KeyPair => generateKeyPairSync('ec', { namedCurve: 'P-256' });
export const rsa = (): KeyPair => generateKeyPairSync('rsa', { modulusLength: 2048 });

/** A vendor whose certificate or key the source fetches. */
function published(secret: string, { privateKey }: KeyPair, text: string): TestKeys {
  return { secret, privateKey, published: text, fetch: () => Promise.resolve(new Response(text)) };
}

function certificateOf({ publicKey, privateKey }: KeyPair): string {
  return makeCertificate({ subject: CERTIFICATE_HOST, publicKey, issuerKey: privateKey, ca: true });
}

/** `signWebhook` has checked that the keys hold it. */
function signature(algorithm: string | null, { keys }: Signing, ...parts: (string | Buffer)[]): Buffer {
  return sign(algorithm, Buffer.concat(parts.map((part) => Buffer.from(part))), keys.privateKey!);
}

const discord: VendorSigner = {
  provider: 'discord',
  makeKeys: ({ publicKey, privateKey } = ed25519()) => ({
    secret: spki(publicKey).subarray(-32).toString('hex'),
    privateKey,
  }),
  type: 'application_command',
  signsTime: true,
  body: ({ id, type }) => JSON.stringify(discordBody(id, type)),
  sign: (body, signing) => {
    const at = String(signing.at);
    return {
      headers: {
        'X-Signature-Timestamp': at,
        'X-Signature-Ed25519': signature(null, signing, at, body).toString('hex'),
      },
    };
  },
};

const INTERACTIONS = new Map([
  ['application_command', 2],
  ['message_component', 3],
  ['application_command_autocomplete', 4],
  ['modal_submit', 5],
]);

/** An interaction where the type is one of theirs, and otherwise a webhook event. */
function discordBody(id: string, type: string): object {
  const interaction = INTERACTIONS.get(type);
  if (interaction !== undefined) return { id, type: interaction, data: {} };
  return { version: 1, type: 1, event: { type, timestamp: SAMPLE_TIME, data: { id } } };
}

function spki(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' });
}

const sendgrid: VendorSigner = {
  provider: 'sendgrid',
  makeKeys: ({ publicKey, privateKey } = p256()) => ({
    secret: spki(publicKey).toString('base64'),
    privateKey,
  }),
  type: 'open',
  signsTime: true,
  body: ({ id, type }) => `[${JSON.stringify({ sg_event_id: id, event: type, timestamp: 1767225600 })}]\r\n`,
  sign: (body, signing) => {
    const at = String(signing.at);
    return {
      headers: {
        'X-Twilio-Email-Event-Webhook-Timestamp': at,
        'X-Twilio-Email-Event-Webhook-Signature': signature('sha256', signing, at, body).toString('base64'),
      },
    };
  },
};

const plaid: VendorSigner = {
  provider: 'plaid',
  makeKeys: (pair = p256()) => {
    const jwk = pair.publicKey.export({ format: 'jwk' });
    const key = { ...jwk, alg: 'ES256', kid: PLAID_KID, use: 'sig', expired_at: null };
    return published('client-id:api-secret', pair, JSON.stringify({ key }));
  },
  type: 'ITEM.ERROR',
  signsTime: true,
  body: ({ id, type }) => {
    const [webhook_type, webhook_code] = type.split('.');
    return JSON.stringify({ webhook_type, webhook_code, item_id: id });
  },
  sign: (body, { keys, at }) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { iat: at, request_body_sha256: createHash('sha256').update(body).digest('hex') };
    const signed = `${part({ alg: 'ES256', kid: PLAID_KID, typ: 'JWT' })}.${part(claims)}`;
    const key = { key: keys.privateKey!, dsaEncoding: 'ieee-p1363' } as const;
    const jwt = `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
    return { headers: { 'Plaid-Verification': jwt } };
  },
};

const sns: VendorSigner = {
  provider: 'sns',
  makeKeys: (pair = rsa()) =>
    published('arn:aws:sns:eu-west-1:123456789012:orders', pair, certificateOf(pair)),
  type: 'Notification',
  signsTime: true,
  signsBody: false,
  takesType: false,
  body: ({ id, type }) => JSON.stringify({ Type: type, MessageId: id, Message: 'hello\nworld' }),
  sign: (body, signing) => {
    const message: Record<string, unknown> = {
      TopicArn: signing.keys.secret,
      ...jsonOf(body),
      Timestamp: new Date(signing.at * 1000).toISOString(),
      SignatureVersion: '2',
      SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem',
    };
    const text = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
      .filter((key) => message[key] !== undefined)
      .map((key) => `${key}\n${String(message[key])}\n`)
      .join('');
    const Signature = signature('sha256', signing, text).toString('base64');
    return {
      headers: { 'content-type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
      body: Buffer.from(JSON.stringify({ ...message, Signature })),
    };
  },
};

const paypal: VendorSigner = {
  provider: 'paypal',
  makeKeys: (pair = rsa()) => published('4JH86294D6297924G', pair, certificateOf(pair)),
  type: 'PAYMENT.SALE.COMPLETED',
  signsTime: true,
  body: ({ id, type }) => JSON.stringify({ id, event_type: type, create_time: SAMPLE_TIME }),
  sign: (body, signing) => {
    const time = new Date(signing.at * 1000).toISOString().replace('.000', '');
    const text = [TRANSMISSION, time, signing.keys.secret, crc32(body)].join('|');
    return {
      headers: {
        'PAYPAL-TRANSMISSION-ID': TRANSMISSION,
        'PAYPAL-TRANSMISSION-TIME': time,
        'PAYPAL-TRANSMISSION-SIG': signature('sha256', signing, text).toString('base64'),
        'PAYPAL-CERT-URL': 'https://api.paypal.com/v1/notifications/certs/CERT-1',
        'PAYPAL-AUTH-ALGO': 'SHA256withRSA',
      },
    };
  },
};

export const keySigners: readonly VendorSigner[] = [discord, sendgrid, plaid, sns, paypal];
