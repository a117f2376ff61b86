import { hmac, type Signer } from './signer.js';

type Encoding = 'hex' | 'base64' | 'base64url';

interface OverBody {
  readonly provider: string;
  readonly header: string;
  readonly algorithm?: string;
  readonly encoding?: Encoding;
  readonly prefix?: string;
  readonly secret?: string;
  readonly headers?: (id: string) => Record<string, string>;
  readonly body: (id: string) => string;
  readonly options?: Record<string, unknown>;
}

const OTHER = 'another-signing-key-0123456789';

/** Vendors whose signature is an HMAC over the body alone. */
function overBody({
  provider,
  header,
  algorithm = 'sha256',
  encoding = 'hex',
  prefix = '',
  secret = `${provider}-signing-key`,
  headers,
  body,
  options,
}: OverBody): Signer {
  return {
    provider,
    secret,
    otherSecret: OTHER,
    options,
    body,
    signsTime: false,
    sign: (bytes, _at, id) => ({
      headers: { [header]: prefix + hmac(algorithm, secret, encoding, bytes), ...headers?.(id) },
    }),
  };
}

const withId = (id: string) => JSON.stringify({ id, type: 'thing.made', created_at: '2026-01-01T00:00:00Z' });

export const bodySigners: readonly Signer[] = [
  overBody({
    provider: 'github',
    header: 'X-Hub-Signature-256',
    prefix: 'sha256=',
    body: () => '{"action":"opened"}',
    headers: (id) => ({ 'X-GitHub-Delivery': id, 'X-GitHub-Event': 'issues' }),
  }),
  overBody({
    provider: 'bitbucket',
    header: 'X-Hub-Signature',
    prefix: 'sha256=',
    body: () => '{"push":{}}',
    headers: (id) => ({ 'X-Request-UUID': id, 'X-Event-Key': 'repo:push' }),
  }),
  overBody({
    provider: 'bitbucket-server',
    header: 'X-Hub-Signature',
    prefix: 'sha256=',
    body: () => '{"eventKey":"pr:opened"}',
    headers: (id) => ({ 'X-Request-Id': id, 'X-Event-Key': 'pr:opened' }),
  }),
  overBody({
    provider: 'gitea',
    header: 'X-Gitea-Signature',
    body: () => '{"ref":"main"}',
    headers: (id) => ({ 'X-Gitea-Delivery': id, 'X-Gitea-Event': 'push' }),
  }),
  overBody({
    provider: 'gogs',
    header: 'X-Gogs-Signature',
    body: () => '{"ref":"main"}',
    headers: (id) => ({ 'X-Gogs-Delivery': id, 'X-Gogs-Event': 'push' }),
  }),
  overBody({
    provider: 'shopify',
    header: 'X-Shopify-Hmac-Sha256',
    encoding: 'base64',
    body: () => '{"id":1}',
    headers: (id) => ({
      'X-Shopify-Webhook-Id': id,
      'X-Shopify-Topic': 'orders/create',
      'X-Shopify-Shop-Domain': 'a-shop.myshopify.com',
      'X-Shopify-API-Version': '2026-07',
    }),
  }),
  overBody({
    provider: 'lemonsqueezy',
    header: 'X-Signature',
    body: (id) =>
      JSON.stringify({
        meta: { event_name: 'order_created' },
        data: { type: 'orders', id, attributes: { updated_at: '2026-01-01T00:00:00Z' } },
      }),
    headers: () => ({ 'X-Event-Name': 'order_created' }),
  }),
  overBody({
    provider: 'razorpay',
    header: 'X-Razorpay-Signature',
    body: () => '{"event":"payment.captured","created_at":1767225600}',
    headers: (id) => ({ 'x-razorpay-event-id': id }),
  }),
  overBody({
    provider: 'paystack',
    header: 'x-paystack-signature',
    algorithm: 'sha512',
    body: (id) => JSON.stringify({ event: 'charge.success', data: { id } }),
  }),
  overBody({
    provider: 'coinbase-commerce',
    header: 'X-CC-Webhook-Signature',
    body: (id) => JSON.stringify({ attempt_number: 1, event: { id, type: 'charge:confirmed' } }),
  }),
  overBody({
    provider: 'gocardless',
    header: 'Webhook-Signature',
    body: (id) =>
      JSON.stringify({
        events: [{ id, resource_type: 'payments', action: 'confirmed', created_at: '2026-01-01T00:00:00Z' }],
      }),
  }),
  overBody({
    provider: 'intercom',
    header: 'X-Hub-Signature',
    algorithm: 'sha1',
    prefix: 'sha1=',
    body: (id) => JSON.stringify({ id, topic: 'conversation.user.created', created_at: 1767225600 }),
  }),
  overBody({
    provider: 'typeform',
    header: 'Typeform-Signature',
    encoding: 'base64',
    prefix: 'sha256=',
    body: (id) => JSON.stringify({ event_id: id, event_type: 'form_response' }),
  }),
  overBody({
    provider: 'sentry',
    header: 'Sentry-Hook-Signature',
    body: () => '{"action":"created"}',
    headers: (id) => ({ 'Request-ID': id, 'Sentry-Hook-Resource': 'issue' }),
  }),
  overBody({
    provider: 'pagerduty',
    header: 'X-PagerDuty-Signature',
    prefix: 'v1=',
    body: (id) =>
      JSON.stringify({
        event: { id, event_type: 'incident.triggered', occurred_at: '2026-01-01T00:00:00Z' },
      }),
  }),
  overBody({ provider: 'vercel', header: 'x-vercel-signature', algorithm: 'sha1', body: withId }),
  overBody({
    provider: 'line',
    header: 'x-line-signature',
    encoding: 'base64',
    body: (id) =>
      JSON.stringify({
        destination: 'U1',
        events: [{ webhookEventId: id, type: 'message', timestamp: 1767225600000 }],
      }),
  }),
  overBody({
    provider: 'docusign',
    header: 'X-DocuSign-Signature-1',
    encoding: 'base64',
    body: (id) =>
      JSON.stringify({
        event: 'envelope-completed',
        generatedDateTime: '2026-01-01T00:00:00Z',
        data: { envelopeId: id },
      }),
  }),
  overBody({
    provider: 'dropbox',
    header: 'X-Dropbox-Signature',
    body: (id) => JSON.stringify({ cursor: id, list_folder: { accounts: ['a'] } }),
    options: { dedupe: { path: 'cursor' } },
  }),
  overBody({
    provider: 'meta',
    header: 'X-Hub-Signature-256',
    prefix: 'sha256=',
    body: (id) =>
      JSON.stringify({
        object: 'whatsapp_business_account',
        entry: [
          {
            id: '1',
            changes: [{ field: 'messages', value: { messages: [{ id, timestamp: '1767225600' }] } }],
          },
        ],
      }),
  }),
  overBody({
    provider: 'x-twitter',
    header: 'X-Twitter-Webhooks-Signature',
    encoding: 'base64',
    prefix: 'sha256=',
    body: (id) => JSON.stringify({ for_user_id: '1', tweet_create_events: [{ id_str: id }] }),
  }),
  overBody({
    provider: 'xero',
    header: 'x-xero-signature',
    encoding: 'base64',
    body: (id) =>
      JSON.stringify({
        events: [
          {
            tenantId: 't',
            eventCategory: 'INVOICE',
            eventType: 'UPDATE',
            resourceId: id,
            eventDateUtc: '2026-01-01T00:00:00.000',
          },
        ],
        entropy: 'x',
      }),
  }),
  overBody({
    provider: 'woocommerce',
    header: 'X-WC-Webhook-Signature',
    encoding: 'base64',
    body: (id) => JSON.stringify({ id, date_modified_gmt: '2026-01-01T00:00:00' }),
    headers: () => ({ 'X-WC-Webhook-Topic': 'order.updated' }),
  }),
  overBody({
    provider: 'asana',
    header: 'X-Hook-Signature',
    secret: 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81',
    body: (id) =>
      JSON.stringify({
        events: [
          {
            action: 'changed',
            created_at: '2026-01-01T00:00:00.000Z',
            resource: { gid: id, resource_type: 'task' },
          },
        ],
      }),
  }),
];

interface Timed {
  readonly provider: string;
  readonly secret?: string;
  readonly encoding?: Encoding;
  readonly algorithm?: string;
  /** The signed text around the body. */
  readonly before: (timestamp: string) => string;
  readonly time?: 'seconds' | 'milliseconds' | 'iso8601';
  readonly headers: (timestamp: string, signature: string, id: string) => Record<string, string>;
  readonly body: (id: string) => string;
  readonly options?: Record<string, unknown>;
}

/** Vendors whose HMAC also covers a time. */
function timed({
  provider,
  secret = `${provider}-signing-key`,
  encoding = 'hex',
  algorithm = 'sha256',
  before,
  time = 'seconds',
  headers,
  body,
  options,
}: Timed): Signer {
  return {
    provider,
    secret,
    otherSecret: OTHER,
    options,
    body,
    signsTime: true,
    sign: (bytes, at, id) => {
      const timestamp = timestampOf(at, time);
      return { headers: headers(timestamp, hmac(algorithm, secret, encoding, before(timestamp), bytes), id) };
    },
  };
}

export function timestampOf(at: number, unit: 'seconds' | 'milliseconds' | 'iso8601'): string {
  if (unit === 'seconds') return String(at);
  return unit === 'milliseconds' ? String(at * 1000) : new Date(at * 1000).toISOString();
}

export const timedSigners: readonly Signer[] = [
  timed({
    provider: 'stripe',
    secret: 'whsec_0123456789abcdef',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Stripe-Signature': `t=${t},v1=${s}` }),
    body: (id) => JSON.stringify({ id, object: 'event', type: 'invoice.paid', created: 1767225600 }),
  }),
  timed({
    provider: 'paddle',
    before: (t) => `${t}:`,
    headers: (t, s) => ({ 'Paddle-Signature': `ts=${t};h1=${s}` }),
    body: (id) =>
      JSON.stringify({ event_id: id, event_type: 'transaction.paid', occurred_at: '2026-01-01T00:00:00Z' }),
  }),
  timed({
    provider: 'mux',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Mux-Signature': `t=${t},v1=${s}` }),
    body: withId,
  }),
  timed({
    provider: 'calendly',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'Calendly-Webhook-Signature': `t=${t},v1=${s}` }),
    body: (id) =>
      JSON.stringify({ event: 'invitee.created', created_at: '2026-01-01T00:00:00Z', payload: { uri: id } }),
  }),
  timed({
    provider: 'workos',
    time: 'milliseconds',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'WorkOS-Signature': `t=${t}, v1=${s}` }),
    body: (id) => JSON.stringify({ id, event: 'user.created', created_at: '2026-01-01T00:00:00Z' }),
  }),
  timed({
    provider: 'sanity',
    time: 'milliseconds',
    encoding: 'base64url',
    before: (t) => `${t}.`,
    headers: (t, s, id) => ({
      'sanity-webhook-signature': `t=${t},v1=${s}`,
      'idempotency-key': id,
      'sanity-operation': 'update',
    }),
    body: () => '{"_id":"doc"}',
  }),
  timed({
    provider: 'emailit',
    secret: 'whsec_0123456789abcdef0123456789abcdef',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'X-Emailit-Timestamp': t, 'X-Emailit-Signature': s }),
    body: withId,
  }),
  timed({
    provider: 'podium',
    time: 'milliseconds',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'podium-timestamp': t, 'podium-signature': s }),
    body: (id) => JSON.stringify({ data: { id }, metadata: { eventType: 'message.received' } }),
  }),
  timed({
    provider: 'cashfree',
    time: 'milliseconds',
    encoding: 'base64',
    before: (t) => t,
    headers: (t, s) => ({ 'x-webhook-timestamp': t, 'x-webhook-signature': s }),
    body: (id) =>
      JSON.stringify({
        type: 'PAYMENT_SUCCESS_WEBHOOK',
        event_time: '2026-01-01T00:00:00+05:30',
        data: { id },
      }),
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
    body: () => '{"type":"zen:event-type:ticket.created"}',
  }),
  timed({
    provider: 'slack',
    before: (t) => `v0:${t}:`,
    headers: (t, s) => ({ 'X-Slack-Request-Timestamp': t, 'X-Slack-Signature': `v0=${s}` }),
    body: (id) =>
      JSON.stringify({
        type: 'event_callback',
        event_id: id,
        event_time: 1767225600,
        event: { type: 'app_mention' },
      }),
  }),
  timed({
    provider: 'zoom',
    before: (t) => `v0:${t}:`,
    headers: (t, s) => ({ 'x-zm-request-timestamp': t, 'x-zm-signature': `v0=${s}` }),
    body: (id) =>
      JSON.stringify({
        event: 'meeting.started',
        event_ts: 1767225600000,
        payload: { object: { uuid: id } },
      }),
  }),
  timed({
    provider: 'qonto',
    before: (t) => `${t}.`,
    headers: (t, s) => ({ 'X-Qonto-Signature': `t=${t},v1=${s}` }),
    body: (id) =>
      JSON.stringify({ id, event_type: 'transaction.created', created_at: '2026-01-01T00:00:00Z' }),
  }),
  timed({
    provider: 'convoy',
    before: (t) => `${t},`,
    headers: (t, s) => ({ 'X-Convoy-Signature': `t=${t},v1=${s}` }),
    body: withId,
    options: { idPath: 'id', typePath: 'type' },
  }),
  timed({
    provider: 'hmac',
    before: (t) => `${t}.`,
    headers: (t, s, id) => ({ 'X-SESMetric-Timestamp': t, 'X-SESMetric-Signature': s, 'X-Delivery': id }),
    body: withId,
    options: {
      signatureHeader: 'X-SESMetric-Signature',
      timestampHeader: 'X-SESMetric-Timestamp',
      idPath: 'id',
      typePath: 'type',
    },
  }),
];
