import {
  hmac,
  SAMPLE_SECONDS,
  SAMPLE_TIME,
  timestampOf,
  type Encoding,
  type TimeUnit,
  type VendorSigner,
} from './signer.js';

interface Timed {
  readonly provider: string;
  readonly secret?: string;
  readonly encoding?: Encoding;
  /** The signed text before the body. */
  readonly before: (timestamp: string) => string;
  readonly time?: TimeUnit;
  readonly type: string;
  readonly headers: (
    timestamp: string,
    signature: string,
    id: string,
    type: string,
  ) => Record<string, string>;
  readonly body: (id: string, type: string) => unknown;
}

/** Vendors whose HMAC-SHA256 also covers a time. */
function timed({
  provider,
  secret = `${provider}-signing-key`,
  encoding = 'hex',
  before,
  time = 'seconds',
  type,
  headers,
  body,
}: Timed): VendorSigner {
  return {
    provider,
    secret,
    type,
    signsTime: true,
    body: (event) => JSON.stringify(body(event.id, event.type)),
    sign: (bytes, { keys, at, id, type: sent }) => {
      const timestamp = timestampOf(at, time);
      const signature = hmac('sha256', keys.secret, encoding, before(timestamp), bytes);
      return { headers: headers(timestamp, signature, id, sent) };
    },
  };
}

export const timedSigners: readonly VendorSigner[] = [
  timed({
    provider: 'stripe',
    secret: 'whsec_0123456789abcdef',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Stripe-Signature': `t=${t},v1=${s}` }),
    type: 'invoice.paid',
    body: (id, type) => ({ id, object: 'event', type, created: SAMPLE_SECONDS }),
  }),
  timed({
    provider: 'paddle',
    before: (t) => `${t}:`,
    headers: (t, s) => ({ 'Paddle-Signature': `ts=${t};h1=${s}` }),
    type: 'transaction.paid',
    body: (id, type) => ({ event_id: id, event_type: type, occurred_at: SAMPLE_TIME }),
  }),
  timed({
    provider: 'mux',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Mux-Signature': `t=${t},v1=${s}` }),
    type: 'video.asset.ready',
    body: (id, type) => ({ id, type, created_at: SAMPLE_TIME }),
  }),
  timed({
    provider: 'calendly',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Calendly-Webhook-Signature': `t=${t},v1=${s}` }),
    type: 'invitee.created',
    body: (id, type) => ({ event: type, created_at: SAMPLE_TIME, payload: { uri: id } }),
  }),
  timed({
    provider: 'workos',
    time: 'milliseconds',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'WorkOS-Signature': `t=${t}, v1=${s}` }),
    type: 'user.created',
    body: (id, type) => ({ id, event: type, created_at: SAMPLE_TIME }),
  }),
  timed({
    provider: 'sanity',
    time: 'milliseconds',
    encoding: 'base64url',
    before: (t) => `${t}.`,
    headers: (t, s, id, type) => ({
      'sanity-webhook-signature': `t=${t},v1=${s}`,
      'idempotency-key': id,
      'sanity-operation': type,
    }),
    type: 'update',
    body: () => ({ _id: 'doc' }),
  }),
  timed({
    provider: 'emailit',
    secret: 'whsec_0123456789abcdef0123456789abcdef',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'X-Emailit-Timestamp': t, 'X-Emailit-Signature': s }),
    type: 'email.delivered',
    body: (id, type) => ({ id, type, created_at: SAMPLE_TIME }),
  }),
  timed({
    provider: 'podium',
    time: 'milliseconds',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'podium-timestamp': t, 'podium-signature': s }),
    type: 'message.received',
    body: (id, type) => ({ data: { id }, metadata: { eventType: type } }),
  }),
  timed({
    provider: 'cashfree',
    time: 'milliseconds',
    encoding: 'base64',
    before: (t) => t,
    headers: (t, s) => ({ 'x-webhook-timestamp': t, 'x-webhook-signature': s }),
    type: 'PAYMENT_SUCCESS_WEBHOOK',
    body: (id, type) => ({ type, event_time: '2026-01-01T00:00:00+05:30', data: { id } }),
  }),
  timed({
    provider: 'zendesk',
    time: 'iso8601',
    encoding: 'base64',
    before: (t) => t,
    headers: (t, s, id) => ({
      'X-Zendesk-Webhook-Signature-Timestamp': t,
      'X-Zendesk-Webhook-Signature': s,
      'X-Zendesk-Webhook-Invocation-Id': id,
    }),
    type: 'zen:event-type:ticket.created',
    body: (_id, type) => ({ type }),
  }),
  timed({
    provider: 'slack',
    before: (t) => `v0:${t}:`,
    headers: (t, s) => ({ 'X-Slack-Request-Timestamp': t, 'X-Slack-Signature': `v0=${s}` }),
    type: 'app_mention',
    body: (id, type) => ({
      type: 'event_callback',
      event_id: id,
      event_time: SAMPLE_SECONDS,
      event: { type },
    }),
  }),
  timed({
    provider: 'zoom',
    before: (t) => `v0:${t}:`,
    headers: (t, s) => ({ 'x-zm-request-timestamp': t, 'x-zm-signature': `v0=${s}` }),
    type: 'meeting.started',
    body: (id, type) => ({ event: type, event_ts: SAMPLE_SECONDS * 1000, payload: { object: { uuid: id } } }),
  }),
  timed({
    provider: 'qonto',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'X-Qonto-Signature': `t=${t},v1=${s}` }),
    type: 'transaction.created',
    body: (id, type) => ({ id, event_type: type, created_at: SAMPLE_TIME }),
  }),
];
