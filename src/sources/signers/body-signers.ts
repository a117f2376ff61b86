import { hmac, SAMPLE_SECONDS, SAMPLE_TIME, twoParts, type Encoding, type VendorSigner } from './signer.js';

interface OverBody {
  readonly provider: string;
  readonly header: string;
  readonly algorithm?: string;
  readonly encoding?: Encoding;
  readonly prefix?: string;
  readonly secret?: string;
  readonly type: string;
  readonly takesType?: boolean;
  readonly headers?: (id: string, type: string) => Record<string, string>;
  readonly body: (id: string, type: string) => unknown;
}

/** Vendors whose signature is an HMAC over the body alone. */
function overBody({
  provider,
  header,
  algorithm = 'sha256',
  encoding = 'hex',
  prefix = '',
  secret = `${provider}-signing-key`,
  type,
  takesType,
  headers,
  body,
}: OverBody): VendorSigner {
  return {
    provider,
    secret,
    type,
    takesType,
    signsTime: false,
    body: (event) => JSON.stringify(body(event.id, event.type)),
    sign: (bytes, { id, type: sent, keys }) => ({
      headers: {
        [header]: prefix + hmac(algorithm, keys.secret, encoding, bytes),
        ...headers?.(id, sent),
      },
    }),
  };
}

export const bodySigners: readonly VendorSigner[] = [
  overBody({
    provider: 'github',
    header: 'X-Hub-Signature-256',
    prefix: 'sha256=',
    type: 'issues',
    body: () => ({ action: 'opened' }),
    headers: (id, type) => ({ 'X-GitHub-Delivery': id, 'X-GitHub-Event': type }),
  }),
  overBody({
    provider: 'bitbucket',
    header: 'X-Hub-Signature',
    prefix: 'sha256=',
    type: 'repo:push',
    body: () => ({ push: {} }),
    headers: (id, type) => ({ 'X-Request-UUID': id, 'X-Event-Key': type }),
  }),
  overBody({
    provider: 'bitbucket-server',
    header: 'X-Hub-Signature',
    prefix: 'sha256=',
    type: 'pr:opened',
    body: (_id, type) => ({ eventKey: type }),
    headers: (id, type) => ({ 'X-Request-Id': id, 'X-Event-Key': type }),
  }),
  overBody({
    provider: 'gitea',
    header: 'X-Gitea-Signature',
    type: 'push',
    body: () => ({ ref: 'main' }),
    headers: (id, type) => ({ 'X-Gitea-Delivery': id, 'X-Gitea-Event': type }),
  }),
  overBody({
    provider: 'gogs',
    header: 'X-Gogs-Signature',
    type: 'push',
    body: () => ({ ref: 'main' }),
    headers: (id, type) => ({ 'X-Gogs-Delivery': id, 'X-Gogs-Event': type }),
  }),
  overBody({
    provider: 'shopify',
    header: 'X-Shopify-Hmac-Sha256',
    encoding: 'base64',
    type: 'orders/create',
    body: () => ({ id: 1 }),
    headers: (id, type) => ({
      'X-Shopify-Webhook-Id': id,
      'X-Shopify-Topic': type,
      'X-Shopify-Shop-Domain': 'a-shop.myshopify.com',
      'X-Shopify-API-Version': '2026-07',
    }),
  }),
  overBody({
    provider: 'lemonsqueezy',
    header: 'X-Signature',
    type: 'order_created',
    body: (id, type) => ({
      meta: { event_name: type },
      data: { type: 'orders', id, attributes: { updated_at: SAMPLE_TIME } },
    }),
    headers: (_id, type) => ({ 'X-Event-Name': type }),
  }),
  overBody({
    provider: 'razorpay',
    header: 'X-Razorpay-Signature',
    type: 'payment.captured',
    body: (_id, type) => ({ event: type, created_at: SAMPLE_SECONDS }),
    headers: (id) => ({ 'x-razorpay-event-id': id }),
  }),
  overBody({
    provider: 'paystack',
    header: 'x-paystack-signature',
    algorithm: 'sha512',
    type: 'charge.success',
    body: (id, type) => ({ event: type, data: { id } }),
  }),
  overBody({
    provider: 'coinbase-commerce',
    header: 'X-CC-Webhook-Signature',
    type: 'charge:confirmed',
    body: (id, type) => ({ attempt_number: 1, event: { id, type } }),
  }),
  overBody({
    provider: 'gocardless',
    header: 'Webhook-Signature',
    type: 'payments.confirmed',
    body: (id, type) => {
      const [resource_type, action] = twoParts(type);
      return { events: [{ id, resource_type, action, created_at: SAMPLE_TIME }] };
    },
  }),
  overBody({
    provider: 'intercom',
    header: 'X-Hub-Signature',
    algorithm: 'sha1',
    prefix: 'sha1=',
    type: 'conversation.user.created',
    body: (id, topic) => ({ id, topic, created_at: SAMPLE_SECONDS }),
  }),
  overBody({
    provider: 'typeform',
    header: 'Typeform-Signature',
    encoding: 'base64',
    prefix: 'sha256=',
    type: 'form_response',
    body: (id, type) => ({ event_id: id, event_type: type }),
  }),
  overBody({
    provider: 'sentry',
    header: 'Sentry-Hook-Signature',
    type: 'issue',
    body: () => ({ action: 'created' }),
    headers: (id, type) => ({ 'Request-ID': id, 'Sentry-Hook-Resource': type }),
  }),
  overBody({
    provider: 'pagerduty',
    header: 'X-PagerDuty-Signature',
    prefix: 'v1=',
    type: 'incident.triggered',
    body: (id, type) => ({ event: { id, event_type: type, occurred_at: SAMPLE_TIME } }),
  }),
  overBody({
    provider: 'vercel',
    header: 'x-vercel-signature',
    algorithm: 'sha1',
    type: 'deployment.created',
    body: (id, type) => ({ id, type, created_at: SAMPLE_TIME }),
  }),
  overBody({
    provider: 'line',
    header: 'x-line-signature',
    encoding: 'base64',
    type: 'message',
    body: (id, type) => ({
      destination: 'U1',
      events: [{ webhookEventId: id, type, timestamp: SAMPLE_SECONDS * 1000 }],
    }),
  }),
  overBody({
    provider: 'docusign',
    header: 'X-DocuSign-Signature-1',
    encoding: 'base64',
    type: 'envelope-completed',
    body: (id, event) => ({ event, generatedDateTime: SAMPLE_TIME, data: { envelopeId: id } }),
  }),
  overBody({
    provider: 'dropbox',
    header: 'X-Dropbox-Signature',
    type: 'unknown',
    takesType: false,
    body: (id) => ({ cursor: id, list_folder: { accounts: ['a'] } }),
  }),
  overBody({
    provider: 'meta',
    header: 'X-Hub-Signature-256',
    prefix: 'sha256=',
    type: 'messages',
    body: metaBody,
  }),
  overBody({
    provider: 'x-twitter',
    header: 'X-Twitter-Webhooks-Signature',
    encoding: 'base64',
    prefix: 'sha256=',
    type: 'tweet_create_events',
    body: (id, type) => ({ for_user_id: '1', [type]: [{ id_str: id }] }),
  }),
  overBody({
    provider: 'xero',
    header: 'x-xero-signature',
    encoding: 'base64',
    type: 'INVOICE.UPDATE',
    body: (id, type) => {
      const [eventCategory, eventType] = twoParts(type);
      const eventDateUtc = '2026-01-01T00:00:00.000';
      return {
        events: [{ tenantId: 't', eventCategory, eventType, resourceId: id, eventDateUtc }],
        entropy: 'x',
      };
    },
  }),
  overBody({
    provider: 'woocommerce',
    header: 'X-WC-Webhook-Signature',
    encoding: 'base64',
    type: 'order.updated',
    body: (id) => ({ id, date_modified_gmt: '2026-01-01T00:00:00' }),
    headers: (_id, type) => ({ 'X-WC-Webhook-Topic': type }),
  }),
  overBody({
    provider: 'asana',
    header: 'X-Hook-Signature',
    secret: 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81',
    type: 'task.changed',
    body: (id, type) => {
      const [resource_type, action] = twoParts(type);
      return {
        events: [{ action, created_at: '2026-01-01T00:00:00.000Z', resource: { gid: id, resource_type } }],
      };
    },
  }),
];

/** A message or a status of WhatsApp, and otherwise a change of a field: `page.feed`. */
function metaBody(id: string, type: string): unknown {
  const [object, field] = twoParts(type);
  const item = { id, timestamp: String(SAMPLE_SECONDS), ...(type === 'statuses' ? { status: 'sent' } : {}) };
  const change = field === '' ? { field: 'messages', value: { [type]: [item] } } : { field, value: { id } };
  return {
    object: field === '' ? 'whatsapp_business_account' : object,
    entry: [{ id: '1', changes: [change] }],
  };
}
