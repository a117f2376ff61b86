import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { makeCertificate } from '../certificate.js';
import { type Signer } from './signer.js';

const ed25519 = generateKeyPairSync('ed25519');
const otherEd25519 = generateKeyPairSync('ed25519');
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const otherP256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const otherRsa = generateKeyPairSync('rsa', { modulusLength: 2048 });

/** The key behind `servedCertificate`. */
export const snsPrivateKey = rsa.privateKey;

/** The certificate that the fake hosts of SNS and PayPal serve. */
export const servedCertificate = certificateOf(rsa);
/** One of another key. */
const otherCertificate = certificateOf(otherRsa);
const PLAID_KID = 'bfbd5111-8e33-4643-8ced-b2e642a72f3c';
/** What the fake host of Plaid answers. */
export const servedPlaidKey = plaidKey(p256.publicKey);

function certificateOf({ publicKey, privateKey }: { publicKey: KeyObject; privateKey: KeyObject }): string {
  return makeCertificate({ subject: 'messages.example.com', publicKey, issuerKey: privateKey, ca: true });
}

function plaidKey(key: KeyObject): string {
  const jwk = key.export({ format: 'jwk' });
  return JSON.stringify({ key: { ...jwk, alg: 'ES256', kid: PLAID_KID, use: 'sig', expired_at: null } });
}

function serving(text: string): typeof globalThis.fetch {
  return () => Promise.resolve(new Response(text));
}

function rawEd25519(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex');
}

function spki(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).toString('base64');
}

const discord: Signer = {
  provider: 'discord',
  secret: rawEd25519(ed25519.publicKey),
  otherSecret: rawEd25519(otherEd25519.publicKey),
  signsTime: true,
  body: (id) => JSON.stringify({ id, type: 2, data: {} }),
  sign: (body, at) => ({
    headers: {
      'X-Signature-Timestamp': String(at),
      'X-Signature-Ed25519': sign(
        null,
        Buffer.concat([Buffer.from(String(at)), body]),
        ed25519.privateKey,
      ).toString('hex'),
    },
  }),
};

const sendgrid: Signer = {
  provider: 'sendgrid',
  secret: spki(p256.publicKey),
  otherSecret: spki(otherP256.publicKey),
  signsTime: true,
  body: (id) => `[${JSON.stringify({ sg_event_id: id, event: 'open', timestamp: 1767225600 })}]\r\n`,
  sign: (body, at) => ({
    headers: {
      'X-Twilio-Email-Event-Webhook-Timestamp': String(at),
      'X-Twilio-Email-Event-Webhook-Signature': sign(
        'sha256',
        Buffer.concat([Buffer.from(String(at)), body]),
        p256.privateKey,
      ).toString('base64'),
    },
  }),
};

const plaid: Signer = {
  provider: 'plaid',
  secret: 'client-id:api-secret',
  otherSecret: 'client-id:other-secret',
  options: { fetch: serving(servedPlaidKey), dedupe: { path: 'item_id' } },
  otherKey: { fetch: serving(plaidKey(otherP256.publicKey)) },
  signsTime: true,
  body: (id) => JSON.stringify({ webhook_type: 'ITEM', webhook_code: 'ERROR', item_id: id }),
  sign: (body, at) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { iat: at, request_body_sha256: createHash('sha256').update(body).digest('hex') };
    const signed = `${part({ alg: 'ES256', kid: PLAID_KID, typ: 'JWT' })}.${part(claims)}`;
    const signature = sign('sha256', Buffer.from(signed), {
      key: p256.privateKey,
      dsaEncoding: 'ieee-p1363',
    });
    return { headers: { 'Plaid-Verification': `${signed}.${signature.toString('base64url')}` } };
  },
};

const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:orders';

const sns: Signer = {
  provider: 'sns',
  secret: TOPIC,
  otherSecret: 'arn:aws:sns:eu-west-1:123456789012:others',
  options: { fetch: serving(servedCertificate) },
  otherKey: { fetch: serving(otherCertificate) },
  signsTime: true,
  signsBody: false,
  body: (id) =>
    JSON.stringify({ Type: 'Notification', MessageId: id, TopicArn: TOPIC, Message: 'hello\nworld' }),
  sign: (body, at) => {
    const message = {
      ...(JSON.parse(body.toString()) as Record<string, string>),
      Timestamp: new Date(at * 1000).toISOString(),
      SignatureVersion: '2',
      SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem',
    };
    const fields: Record<string, string> = message;
    const text = ['Message', 'MessageId', 'Timestamp', 'TopicArn', 'Type']
      .map((key) => `${key}\n${fields[key]}\n`)
      .join('');
    const Signature = sign('sha256', Buffer.from(text), rsa.privateKey).toString('base64');
    return {
      headers: { 'content-type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
      body: Buffer.from(JSON.stringify({ ...message, Signature })),
    };
  },
};

const paypal: Signer = {
  provider: 'paypal',
  secret: '4JH86294D6297924G',
  otherSecret: '5KH86294D6297924G',
  options: { fetch: serving(servedCertificate) },
  otherKey: { fetch: serving(otherCertificate) },
  signsTime: true,
  body: (id) =>
    JSON.stringify({ id, event_type: 'PAYMENT.SALE.COMPLETED', create_time: '2026-01-01T00:00:00Z' }),
  sign: (body, at) => {
    const time = new Date(at * 1000).toISOString().replace('.000', '');
    const text = ['dfb3be50-fd74-11e4-8bf3-77339302725b', time, paypal.secret, crc32(body)].join('|');
    return {
      headers: {
        'PAYPAL-TRANSMISSION-ID': 'dfb3be50-fd74-11e4-8bf3-77339302725b',
        'PAYPAL-TRANSMISSION-TIME': time,
        'PAYPAL-TRANSMISSION-SIG': sign('sha256', Buffer.from(text), rsa.privateKey).toString('base64'),
        'PAYPAL-CERT-URL': 'https://api.paypal.com/v1/notifications/certs/CERT-1',
        'PAYPAL-AUTH-ALGO': 'SHA256withRSA',
      },
    };
  },
};

export const keySigners: readonly Signer[] = [discord, sendgrid, plaid, sns, paypal];
