import { createHash } from 'node:crypto';
import { hmac, jsonOf, SAMPLE_SECONDS, twoParts, type VendorSigner } from './signer.js';

const square: VendorSigner = {
  provider: 'square',
  secret: 'square-signature-key',
  type: 'payment.created',
  signsTime: false,
  signsUrl: true,
  body: ({ id, type }) => JSON.stringify({ event_id: id, type }),
  sign: (body, { keys, url }) => ({
    headers: { 'x-square-hmacsha256-signature': hmac('sha256', keys.secret, 'base64', url, body) },
  }),
};

const trello: VendorSigner = {
  provider: 'trello',
  secret: 'trello-api-secret',
  type: 'updateCard',
  signsTime: false,
  signsUrl: true,
  body: ({ id, type }) => JSON.stringify({ action: { id, type } }),
  sign: (body, { keys, url }) => ({
    headers: { 'x-trello-webhook': hmac('sha1', keys.secret, 'base64', body, url) },
  }),
};

const hubspot: VendorSigner = {
  provider: 'hubspot',
  secret: 'hubspot-client-secret',
  type: 'contact.creation',
  signsTime: true,
  signsUrl: true,
  body: ({ id, type }) =>
    JSON.stringify([
      {
        eventId: id,
        subscriptionId: 1,
        objectId: 2,
        occurredAt: SAMPLE_SECONDS * 1000,
        subscriptionType: type,
      },
    ]),
  sign: (body, { keys, at, url }) => {
    const timestamp = String(at * 1000);
    const signature = hmac('sha256', keys.secret, 'base64', 'POST', url, body, timestamp);
    return { headers: { 'X-HubSpot-Signature-v3': signature, 'X-HubSpot-Request-Timestamp': timestamp } };
  },
};

/** The fields of the form, sorted by name, follow the URL. */
const twilio: VendorSigner = {
  provider: 'twilio',
  secret: 'twilio-auth-token',
  type: 'message.received',
  signsTime: false,
  signsUrl: true,
  body: ({ id, type }) => {
    const [kind, status] = twoParts(type);
    return new URLSearchParams(
      kind === 'call'
        ? { CallSid: id, CallStatus: status }
        : { MessageSid: id, Body: 'héllo & goodbye', SmsStatus: status },
    ).toString();
  },
  encode: (body) => {
    const form = new URLSearchParams();
    for (const [name, value] of Object.entries(body)) form.append(name, String(value));
    return form.toString();
  },
  sign: (body, { keys, id, url }) => {
    const fields = [...new URLSearchParams(body.toString())].sort(([a], [b]) => (a < b ? -1 : 1));
    const text = url + fields.map(([name, value]) => name + value).join('');
    return {
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'X-Twilio-Signature': hmac('sha1', keys.secret, 'base64', text),
        'I-Twilio-Idempotency-Token': id,
      },
    };
  },
};

const contentful: VendorSigner = {
  provider: 'contentful',
  secret: 'c'.repeat(63) + 'd',
  type: 'ContentManagement.Entry.publish',
  signsTime: true,
  signsUrl: true,
  body: () => '{"sys":{"id":"x"}}',
  sign: (body, { keys, id, type, at, url }) => {
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
      'x-contentful-topic': type,
    };
    const { pathname, search } = new URL(url);
    const named = signed.map((name) => `${name}:${headers[name]}`).join(';');
    const text = ['POST', pathname + search, named, body.toString()].join('\n');
    return { headers: { ...headers, 'x-contentful-signature': hmac('sha256', keys.secret, 'hex', text) } };
  },
};

const drone: VendorSigner = {
  provider: 'drone',
  secret: 'drone-webhook-secret',
  type: 'build',
  signsTime: true,
  body: ({ id, type }) => JSON.stringify({ event: type, build: { id } }),
  sign: (body, { keys, type, at }) => {
    const date = new Date(at * 1000).toUTCString();
    const digest = `SHA-256=${createHash('sha256').update(body).digest('base64')}`;
    const signature = hmac('sha256', keys.secret, 'base64', `date: ${date}\ndigest: ${digest}`);
    return {
      headers: {
        Date: date,
        Digest: digest,
        Signature: `keyId="hmac-key",algorithm="hmac-sha256",signature="${signature}",headers="date digest"`,
        'X-Drone-Event': type,
      },
    };
  },
};

const hook0: VendorSigner = {
  provider: 'hook0',
  secret: 'hook0-subscription-secret',
  type: 'thing.made',
  signsTime: true,
  body: () => '{"a":1}',
  sign: (body, { keys, id, type, at }) => {
    const names = 'x-event-id x-event-type';
    const signature = hmac('sha256', keys.secret, 'hex', `${at}.${names}.${id}.${type}.`, body);
    return {
      headers: {
        'X-Event-Id': id,
        'X-Event-Type': type,
        'X-Hook0-Signature': `t=${at},h=${names},v1=${signature}`,
      },
    };
  },
};

const twitch: VendorSigner = {
  provider: 'twitch',
  secret: 'twitch-subscription-secret',
  type: 'channel.follow',
  signsTime: true,
  body: ({ type }) => JSON.stringify({ subscription: { id: 's', type, status: 'enabled' }, event: {} }),
  sign: (body, { keys, id, at }) => {
    const timestamp = new Date(at * 1000).toISOString().replace('Z', '000000Z');
    return {
      headers: {
        'Twitch-Eventsub-Message-Id': id,
        'Twitch-Eventsub-Message-Timestamp': timestamp,
        'Twitch-Eventsub-Message-Signature': `sha256=${hmac('sha256', keys.secret, 'hex', id, timestamp, body)}`,
      },
    };
  },
};

/** The time is a field of the body, so signing adds it. */
const linear: VendorSigner = {
  provider: 'linear',
  secret: 'lin_wh_0123456789',
  type: 'Issue.create',
  signsTime: true,
  body: (event) => {
    const [type, action] = twoParts(event.type);
    return JSON.stringify({ type, action, data: {} });
  },
  sign: (body, { keys, id, at }) => {
    const whole = Buffer.from(JSON.stringify({ ...jsonOf(body), webhookTimestamp: at * 1000 }));
    return {
      headers: { 'Linear-Delivery': id, 'Linear-Signature': hmac('sha256', keys.secret, 'hex', whole) },
      body: whole,
    };
  },
};

export const urlSigners: readonly VendorSigner[] = [
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
