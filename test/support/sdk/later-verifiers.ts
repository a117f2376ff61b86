import { ORIGIN, URL_PATH } from '../signers/index.js';
import type { SdkInput, SdkVerifier } from './verifiers.js';

/**
 * Large SDKs, imported when it is their turn; where that is possible only the file with the verifier, since the whole takes seconds to
 * load and its types seconds to check.
 */
export const laterVerifiers: Readonly<Record<string, SdkVerifier>> = {
  adyen: later(async () => {
    const { default: Validator } = await import('@adyen/api-library/lib/src/utils/hmacValidator.js');
    const validator = new Validator.default();
    // The SDK judges one item: what a body without any proves is its caller's to say.
    return ({ text, header, secret }) => {
      const signature = header('hmacsignature');
      if (signature !== '') return validator.validateHMACSignature(secret, signature, text);
      const items = adyenItems(text);
      return items.length > 0 && items.every((item) => validator.validateHMAC(item, secret));
    };
  }),
  cashfree: later(async () => {
    const { Cashfree, CFEnvironment } = await import('cashfree-pg');
    return ({ text, header, secret }) => {
      // The last one keeps it from telling its makers about errors.
      const none = undefined;
      const sdk = new Cashfree(CFEnvironment.SANDBOX, 'client-id', secret, none, none, none, false);
      return sdk.PGVerifyWebhookSignature(header('x-webhook-signature'), text, header('x-webhook-timestamp'));
    };
  }),
  clerk: later(async () => {
    const { verifyWebhook } = await import('@clerk/backend/webhooks');
    return ({ body, headers, secret, url }) =>
      verifyWebhook(new Request(ORIGIN + url, { method: 'POST', headers, body: new Uint8Array(body) }), {
        signingSecret: secret,
      });
  }),
  'coinbase-commerce': later(async () => {
    const { default: Webhook } = await import('coinbase-commerce-node/lib/Webhook.js');
    return ({ text, header, secret }) =>
      Webhook.verifySigHeader(text, header('x-cc-webhook-signature'), secret);
  }),
  contentful: later(async () => {
    const { verifyRequest } = await import('@contentful/node-apps-toolkit');
    return ({ text, headers, secret, url }) =>
      verifyRequest(secret, { method: 'POST', path: url, headers: { ...headers }, body: text });
  }),
  hubspot: later(async () => {
    const { Signature } = await import('@hubspot/api-client/lib/src/utils/signature.js');
    return ({ text, header, secret, url }) =>
      Signature.isValid({
        signatureVersion: header('x-hubspot-signature-version') || 'v3',
        signature: header('x-hubspot-signature') || header('x-hubspot-signature-v3'),
        timestamp: Number(header('x-hubspot-request-timestamp')),
        clientSecret: secret,
        requestBody: text,
        url: ORIGIN + url,
      });
  }),
  line: later(async () => {
    const { default: validateSignature } =
      await import('../../../node_modules/@line/bot-sdk/dist/validate-signature.js');
    return ({ body, header, secret }) => validateSignature(body, secret, header('x-line-signature'));
  }),
  openai: later(async () => {
    const { OpenAI } = await import('openai');
    const { webhooks } = new OpenAI({ apiKey: 'none' });
    return ({ text, headers, secret }) => webhooks.verifySignature(text, headers, secret);
  }),
  polar: later(async () => {
    const { validateEvent, WebhookVerificationError } = await import('@polar-sh/sdk/webhooks');
    return ({ body, headers, secret }) => {
      try {
        validateEvent(body, { ...headers }, secret);
      } catch (error) {
        // Verified, and of a type or a shape that the SDK does not know, which says nothing about the signature.
        if (error instanceof WebhookVerificationError || !isParseError(error)) throw error;
      }
    };
  }),
  replicate: later(async () => {
    const { validateWebhook } = await import('replicate');
    return ({ text, header, secret }) =>
      validateWebhook({
        id: header('webhook-id'),
        timestamp: header('webhook-timestamp'),
        signature: header('webhook-signature'),
        body: text,
        secret,
      });
  }),
  resend: later(async () => {
    const { Resend } = await import('resend');
    const { webhooks } = new Resend('re_none');
    return ({ text, header, secret }) => {
      webhooks.verify({
        payload: text,
        headers: {
          id: header('svix-id'),
          timestamp: header('svix-timestamp'),
          signature: header('svix-signature'),
        },
        webhookSecret: secret,
      });
    };
  }),
  shopify: later(async () => {
    await import('@shopify/shopify-api/adapters/node');
    const { ApiVersion, shopifyApi } = await import('@shopify/shopify-api');
    return async ({ text, headers, secret, url }) => {
      const sdk = shopifyApi({
        apiSecretKey: secret,
        apiKey: 'none',
        apiVersion: ApiVersion.July26,
        hostName: 'hooks.example.com',
        isEmbeddedApp: false,
        logger: { log: () => undefined },
      });
      const rawRequest = { method: 'POST', url, headers };
      return (await sdk.webhooks.validate({ rawBody: text, rawRequest, rawResponse: {} })).valid;
    };
  }),
  slack: later(async () => {
    const { verifySlackRequest } = await import('@slack/bolt/dist/receivers/verify-request.js');
    return ({ text, header, secret }) =>
      verifySlackRequest({
        signingSecret: secret,
        body: text,
        // As Bolt's own HTTP receiver reads it.
        headers: {
          'x-slack-signature': header('x-slack-signature'),
          'x-slack-request-timestamp': Number(header('x-slack-request-timestamp')),
        },
      });
  }),
  square: later(async () => {
    const { WebhooksHelper } = await import('../../../node_modules/square/wrapper/WebhooksHelper.js');
    return ({ text, header, secret }) =>
      WebhooksHelper.verifySignature({
        requestBody: text,
        signatureHeader: header('x-square-hmacsha256-signature'),
        signatureKey: secret,
        notificationUrl: ORIGIN + URL_PATH,
      });
  }),
};

function later(load: () => Promise<SdkVerifier>): SdkVerifier {
  let loaded: Promise<SdkVerifier> | undefined;
  return async (input: SdkInput) => (await (loaded ??= load()))(input);
}

interface AdyenBody {
  readonly notificationItems: readonly { readonly NotificationRequestItem: never }[];
}

function adyenItems(text: string): never[] {
  return (JSON.parse(text) as AdyenBody).notificationItems.map((one) => one.NotificationRequestItem);
}

function isParseError(error: unknown): boolean {
  return error instanceof Error && error.name === 'SDKValidationError';
}
