import { github, hmac, standardWebhooks, stripe, type WebhooksOptions } from '../../src/index.js';
import { secretOf } from '../support/secrets.js';

/** The endpoints: each is served at `POST /webhooks/<name>`. */
export function defaultSources(): WebhooksOptions['sources'] {
  return {
    stripe: stripe({ secrets: [secretOf('stripe')] }),
    github: github({ secrets: [secretOf('github')] }),
    'standard-webhooks': standardWebhooks({ secrets: [secretOf('standard-webhooks')] }),
    // Shopify's scheme written out, as you would write that of a vendor who is not in the catalogue.
    shopify: hmac({
      name: 'shopify',
      secrets: [secretOf('shopify')],
      signatureHeader: 'X-Shopify-Hmac-Sha256',
      encoding: 'base64',
      idHeader: 'X-Shopify-Webhook-Id',
      typeHeader: 'X-Shopify-Topic',
      retryWindow: '4h',
      retriesSameBytes: true,
    }),
    // The body is signed; id and type are in headers.
    awardee: hmac({
      name: 'awardee',
      secrets: [secretOf('awardee')],
      signatureHeader: 'X-Awardee-Signature',
      idHeader: 'X-Awardee-Delivery',
      typeHeader: 'X-Awardee-Event',
      retryWindow: '24h',
    }),
    // Time and body are signed; id and type are in the body.
    sesmetric: hmac({
      name: 'sesmetric',
      // While a secret is changed, both are there.
      secrets: [secretOf('sesmetric'), secretOf('sesmetric-old')],
      secretHints: ['new', 'old'],
      signatureHeader: 'X-SESMetric-Signature',
      timestampHeader: 'X-SESMetric-Timestamp',
      idPath: 'id',
      typePath: 'type',
      retryWindow: '72h',
    }),
  };
}
