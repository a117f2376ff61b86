import { BraintreeGateway, Environment } from 'braintree';
import { WorkOS } from '@workos-inc/node';
import { NOW, ORIGIN, URL_PATH } from '../../signers/index.js';
import type { Vector } from '../vector.js';
import { pairs } from './pairs.js';
import { vectorMaker } from './vector-maker.js';

/** SDKs of which only the file that signs is imported: the whole takes seconds to load. */
export const laterSdks: readonly (() => Vector[] | Promise<Vector[]>)[] = [
  adyenPayments,
  adyenPlatform,
  braintree,
  coinbaseCommerce,
  contentful,
  hubspot,
  shopify,
  workos,
];

const URL = ORIGIN + URL_PATH;
const ADYEN_KEY = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056';

async function adyenValidator() {
  const { default: Validator } = await import('@adyen/api-library/lib/src/utils/hmacValidator.js');
  return new Validator.default();
}

async function adyenPayments(): Promise<Vector[]> {
  const validator = await adyenValidator();
  const make = vectorMaker('adyen', 'sdk-payments', { secret: ADYEN_KEY, variant: 'payments' });
  const item = {
    pspReference: '7914073381342284',
    merchantAccountCode: 'TestMerchant',
    merchantReference: 'TestPayment-1407325143704',
    amount: { value: 1130, currency: 'EUR' },
    eventCode: 'AUTHORISATION',
    success: 'true',
  };
  const items = [
    item,
    { ...item, originalReference: '8313842560770001', eventCode: 'REFUND', success: 'false' },
    { ...item, merchantReference: 'with:colons\\and backslashes' },
    { ...item, merchantReference: 'héllo ✓ 😀', amount: { value: 0, currency: 'JPY' } },
  ];
  const bodyWith = (one: (typeof items)[number], hmacSignature: string) =>
    JSON.stringify({
      live: 'false',
      notificationItems: [{ NotificationRequestItem: { ...one, additionalData: { hmacSignature } } }],
    });
  const signatures = items.map((one) => validator.calculateHmac(one as never, ADYEN_KEY));
  return items.flatMap((one, i) => [
    make({
      name: `item ${i + 1}`,
      request: { headers: {}, body: bodyWith(one, signatures[i]!) },
      expect: 'valid',
      why: 'signed by the SDK',
    }),
    make({
      name: `item ${i + 1}, signature of another`,
      request: { headers: {}, body: bodyWith(one, signatures[(i + 1) % items.length]!) },
      expect: 'invalid',
      why: 'tampered',
    }),
  ]);
}

async function adyenPlatform(): Promise<Vector[]> {
  const validator = await adyenValidator();
  return pairs(vectorMaker('adyen', 'sdk-platform', { secret: ADYEN_KEY, variant: 'header' }), (body) => ({
    hmacsignature: validator.calculateHmac(body, ADYEN_KEY),
  }));
}

async function braintree(): Promise<Vector[]> {
  const [public_key, secret] = ['public_key', 'private_key'];
  const gateway = new BraintreeGateway({
    environment: Environment.Sandbox,
    merchantId: 'm',
    publicKey: public_key,
    privateKey: secret,
  });
  const make = vectorMaker('braintree', 'sdk', { secret, public_key });
  const challenge = '20f9f8ed05f77439fe955c977e4c8a53';
  const samples = ['subscription_went_past_due', 'dispute_opened', 'check'].map((kind) =>
    gateway.webhookTesting.sampleNotification(kind, 'my_id'),
  );
  const form = (signature: string, payload: string) => ({
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ bt_signature: signature, bt_payload: payload }).toString(),
  });
  return [
    ...samples.flatMap(({ bt_signature, bt_payload }, i) => [
      make({
        name: `sample ${i + 1}`,
        request: form(bt_signature, bt_payload),
        expect: 'valid',
        why: 'signed by the SDK',
      }),
      make({
        name: `sample ${i + 1}, signature of another`,
        request: form(samples[(i + 1) % samples.length]!.bt_signature, bt_payload),
        expect: 'invalid',
        why: 'tampered',
      }),
    ]),
    make({
      name: 'bt_challenge',
      request: { headers: {}, body: '' },
      expect: 'valid',
      why: 'answered by the SDK',
      parameters: {
        variant: 'challenge',
        method: 'GET',
        challenge,
        response: await gateway.webhookNotification.verify(challenge),
      },
    }),
  ];
}

async function coinbaseCommerce(): Promise<Vector[]> {
  const { default: Webhook } = await import('coinbase-commerce-node/lib/Webhook.js');
  const secret = 'coinbase-shared-secret';
  return pairs(vectorMaker('coinbase-commerce', 'sdk', { secret }), (body) => ({
    'x-cc-webhook-signature': Webhook.computeSignature(body, secret),
  }));
}

async function contentful(): Promise<Vector[]> {
  const { signRequest } = await import('@contentful/node-apps-toolkit');
  const secret = 'a'.repeat(64);
  const make = vectorMaker('contentful', 'sdk', { secret, method: 'POST', url: URL });
  return pairs(make, (body) => ({
    ...signRequest(
      secret,
      {
        method: 'POST',
        path: URL_PATH,
        headers: { 'x-contentful-topic': 'ContentManagement.Entry.publish' },
        body,
      },
      NOW * 1000,
    ),
    'x-contentful-topic': 'ContentManagement.Entry.publish',
  }));
}

/** All three versions; who accepts the first two is told so by an option. */
async function hubspot(): Promise<Vector[]> {
  const { Signature } = await import('@hubspot/api-client/lib/src/utils/signature.js');
  const clientSecret = 'hubspot-client-secret';
  const sign = (signatureVersion: string, requestBody: string) =>
    Signature.getSignature('POST', signatureVersion, {
      clientSecret,
      requestBody,
      url: URL,
      timestamp: NOW * 1000,
    } as never);
  const headersOf: Readonly<Record<string, (body: string) => Vector['headers']>> = {
    v1: (body) => ({ 'x-hubspot-signature-version': 'v1', 'x-hubspot-signature': sign('v1', body) }),
    v2: (body) => ({ 'x-hubspot-signature-version': 'v2', 'x-hubspot-signature': sign('v2', body) }),
    v3: (body) => ({
      'x-hubspot-request-timestamp': String(NOW * 1000),
      'x-hubspot-signature-v3': sign('v3', body),
    }),
  };
  const vectors = Object.entries(headersOf).map(async ([version, headers]) =>
    pairs(
      vectorMaker('hubspot', `sdk-${version}`, { secret: clientSecret, method: 'POST', url: URL }),
      headers,
    ),
  );
  return (await Promise.all(vectors)).flat();
}

async function shopify(): Promise<Vector[]> {
  const { getHmac } = await import('@shopify/shopify-api/test-helpers');
  const secret = 'shopify-client-secret';
  return pairs(vectorMaker('shopify', 'sdk', { secret }), (body) => ({
    'x-shopify-hmac-sha256': getHmac(body, secret),
    'x-shopify-topic': 'orders/create',
    'x-shopify-shop-domain': 'a-shop.myshopify.com',
    'x-shopify-api-version': '2026-07',
    'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
  }));
}

/** The SDK signs what it writes of a payload, so that the bodies are as it writes them. */
async function workos(): Promise<Vector[]> {
  const secret = 'workos-webhook-secret';
  const { webhooks } = new WorkOS('sk_test');
  const bodies = [{ id: 'evt_1', event: 'user.created' }, { t: 'héllo ✓ 日本語 😀 <b>&amp;</b>' }];
  return pairs(
    vectorMaker('workos', 'sdk', { secret }),
    async (body) => {
      const v1 = await webhooks.computeSignature(NOW * 1000, JSON.parse(body), secret);
      return { 'workos-signature': `t=${NOW * 1000}, v1=${v1}` };
    },
    bodies.map((body) => JSON.stringify(body)),
  );
}
