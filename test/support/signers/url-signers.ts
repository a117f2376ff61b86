import { createHash } from 'node:crypto';
import { hmac, ORIGIN, URL_PATH, type Signer } from './signer.js';

const URL = ORIGIN + URL_PATH;
const OTHER = 'another-signing-key-0123456789';

const square: Signer = {
  provider: 'square',
  secret: 'square-signature-key',
  otherSecret: OTHER,
  options: { notificationUrl: URL },
  signsTime: false,
  body: (id) => JSON.stringify({ event_id: id, type: 'payment.created' }),
  sign: (body) => ({
    headers: { 'x-square-hmacsha256-signature': hmac('sha256', square.secret, 'base64', URL, body) },
  }),
};

const trello: Signer = {
  provider: 'trello',
  secret: 'trello-api-secret',
  otherSecret: OTHER,
  options: { callbackUrl: URL },
  signsTime: false,
  body: (id) => JSON.stringify({ action: { id, type: 'updateCard' } }),
  sign: (body) => ({ headers: { 'x-trello-webhook': hmac('sha1', trello.secret, 'base64', body, URL) } }),
};

const hubspot: Signer = {
  provider: 'hubspot',
  secret: 'hubspot-client-secret',
  otherSecret: OTHER,
  options: { publicUrl: ORIGIN },
  signsTime: true,
  body: (id) =>
    JSON.stringify([
      {
        eventId: id,
        subscriptionId: 1,
        objectId: 2,
        occurredAt: 1767225600000,
        subscriptionType: 'contact.creation',
      },
    ]),
  sign: (body, at) => {
    const timestamp = String(at * 1000);
    const signature = hmac('sha256', hubspot.secret, 'base64', 'POST', URL, body, timestamp);
    return { headers: { 'X-HubSpot-Signature-v3': signature, 'X-HubSpot-Request-Timestamp': timestamp } };
  },
};

/** Form fields sorted by name behind the URL. */
const twilio: Signer = {
  provider: 'twilio',
  secret: 'twilio-auth-token',
  otherSecret: OTHER,
  options: { publicUrl: ORIGIN },
  signsTime: false,
  body: (id) =>
    new URLSearchParams({ MessageSid: id, Body: 'héllo & goodbye', SmsStatus: 'received' }).toString(),
  sign: (body, _at, id) => {
    const fields = [...new URLSearchParams(body.toString())].sort(([a], [b]) => (a < b ? -1 : 1));
    const text = URL + fields.map(([name, value]) => name + value).join('');
    return {
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'X-Twilio-Signature': hmac('sha1', twilio.secret, 'base64', text),
        'I-Twilio-Idempotency-Token': id,
      },
    };
  },
};

const contentful: Signer = {
  provider: 'contentful',
  secret: 'c'.repeat(63) + 'd',
  otherSecret: 'e'.repeat(63) + 'd',
  signsTime: true,
  body: () => '{"sys":{"id":"x"}}',
  sign: (body, at, id) => {
    const signed = [
      'x-contentful-idempotency-key',
      'x-contentful-signed-headers',
      'x-contentful-timestamp',
      'x-contentful-topic',
    ];
    const headers: Record<string, string> = {
      'x-contentful-idempotency-key': id,
      'x-contentful-signed-headers': signed.join(','),
      'x-contentful-timestamp': String(at * 1000),
      'x-contentful-topic': 'ContentManagement.Entry.publish',
    };
    const text = [
      'POST',
      URL_PATH,
      signed.map((name) => `${name}:${headers[name]}`).join(';'),
      body.toString(),
    ].join('\n');
    return {
      headers: { ...headers, 'x-contentful-signature': hmac('sha256', contentful.secret, 'hex', text) },
    };
  },
};

const drone: Signer = {
  provider: 'drone',
  secret: 'drone-webhook-secret',
  otherSecret: OTHER,
  signsTime: true,
  body: (id) => JSON.stringify({ event: 'build', build: { id } }),
  sign: (body, at) => {
    const date = new Date(at * 1000).toUTCString();
    const digest = `SHA-256=${createHash('sha256').update(body).digest('base64')}`;
    const signature = hmac('sha256', drone.secret, 'base64', `date: ${date}\ndigest: ${digest}`);
    return {
      headers: {
        Date: date,
        Digest: digest,
        Signature: `keyId="hmac-key",algorithm="hmac-sha256",signature="${signature}",headers="date digest"`,
        'X-Drone-Event': 'build',
      },
    };
  },
};

const hook0: Signer = {
  provider: 'hook0',
  secret: 'hook0-subscription-secret',
  otherSecret: OTHER,
  signsTime: true,
  body: () => '{"a":1}',
  sign: (body, at, id) => {
    const names = 'x-event-id x-event-type';
    const signature = hmac('sha256', hook0.secret, 'hex', `${at}.${names}.${id}.thing.made.`, body);
    return {
      headers: {
        'X-Event-Id': id,
        'X-Event-Type': 'thing.made',
        'X-Hook0-Signature': `t=${at},h=${names},v1=${signature}`,
      },
    };
  },
};

const twitch: Signer = {
  provider: 'twitch',
  secret: 'twitch-subscription-secret',
  otherSecret: OTHER,
  signsTime: true,
  body: () =>
    JSON.stringify({ subscription: { id: 's', type: 'channel.follow', status: 'enabled' }, event: {} }),
  sign: (body, at, id) => {
    const timestamp = new Date(at * 1000).toISOString().replace('Z', '000000Z');
    return {
      headers: {
        'Twitch-Eventsub-Message-Id': id,
        'Twitch-Eventsub-Message-Timestamp': timestamp,
        'Twitch-Eventsub-Message-Signature': `sha256=${hmac('sha256', twitch.secret, 'hex', id, timestamp, body)}`,
      },
    };
  },
};

/** The time stands in the body, so the body is made when it is signed. */
const linear: Signer = {
  provider: 'linear',
  secret: 'lin_wh_0123456789',
  otherSecret: OTHER,
  signsTime: true,
  body: () => JSON.stringify({ type: 'Issue', action: 'create', data: {} }),
  sign: (body, at, id) => {
    const whole = Buffer.from(
      JSON.stringify({ ...(JSON.parse(body.toString()) as object), webhookTimestamp: at * 1000 }),
    );
    return {
      headers: { 'Linear-Delivery': id, 'Linear-Signature': hmac('sha256', linear.secret, 'hex', whole) },
      body: whole,
    };
  },
};

export const urlSigners: readonly Signer[] = [
  square,
  trello,
  hubspot,
  twilio,
  contentful,
  drone,
  hook0,
  twitch,
  linear,
];
