import https from 'node:https';
import { Readable } from 'node:stream';
import { LinearWebhookClient } from '@linear/sdk/webhooks';
import { Mux } from '@mux/mux-node';
import { verify as verifyGithub } from '@octokit/webhooks-methods';
import { Paddle } from '@paddle/paddle-node-sdk';
import { isValidSignature } from '@sanity/webhook';
import { EventWebhook } from '@sendgrid/eventwebhook';
import { WorkOS } from '@workos-inc/node';
import { BraintreeGateway, Environment } from 'braintree';
import { verifyKey } from 'discord-interactions';
import { parse as parseGoCardless } from 'gocardless-nodejs';
import { verifyWebhookSignatureWithCurrentTime } from 'hook0-client';
import Razorpay from 'razorpay';
import MessageValidator from 'sns-validator';
import { Webhook } from 'standardwebhooks';
import { Stripe } from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio';
import type { WebhookRequest } from '../../../src/core/request.js';
import { NOW, ORIGIN, servedCertificate } from '../signers/index.js';
import { laterVerifiers } from './later-verifiers.js';

/** What a vendor's SDK is given: headers as Node joins repeats, the body as bytes and as text. */
export interface SdkInput {
  readonly header: (name: string) => string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly text: string;
  readonly url: string;
  readonly secret: string;
}

/** Whether a vendor's SDK accepts a request; any throw is a refusal. The clock stands at NOW. */
export type SdkVerifier = (input: SdkInput) => unknown;

/** Verifiers by provider. */
export const sdkVerifiers: Readonly<Record<string, SdkVerifier>> = {
  ...laterVerifiers,
  stripe: ({ body, header, secret }) =>
    Stripe.webhooks.constructEvent(body, header('stripe-signature'), secret, 300, undefined, NOW * 1000),
  'standard-webhooks': ({ body, headers, secret }) => new Webhook(secret).verify(body, headers),
  svix: ({ body, headers, secret }) => new SvixWebhook(secret).verify(body, headers),
  github: ({ text, header, secret }) => verifyGithub(secret, text, header('x-hub-signature-256')),
  twilio: ({ text, header, secret, url }) => {
    const form = new URLSearchParams(text);
    const values = Object.fromEntries([...form.keys()].map((name) => [name, form.getAll(name)]));
    if (url.includes('bodySHA256='))
      return twilio.validateRequestWithBody(secret, header('x-twilio-signature'), ORIGIN + url, text);
    return twilio.validateRequest(secret, header('x-twilio-signature'), ORIGIN + url, values);
  },
  sendgrid: ({ body, header, secret }) => {
    const webhook = new EventWebhook();
    return webhook.verifySignature(
      webhook.convertPublicKeyToECDSA(secret),
      body,
      header('x-twilio-email-event-webhook-signature'),
      header('x-twilio-email-event-webhook-timestamp'),
    );
  },
  discord: ({ body, header, secret }) =>
    verifyKey(body, header('x-signature-ed25519'), header('x-signature-timestamp'), secret),
  sanity: ({ text, header, secret }) => isValidSignature(text, header('sanity-webhook-signature'), secret),
  hook0: ({ body, headers, header, secret }) =>
    verifyWebhookSignatureWithCurrentTime(
      header('x-hook0-signature'),
      body,
      new Headers(headers),
      secret,
      300,
      new Date(NOW * 1000),
    ) === true,
  razorpay: ({ text, header, secret }) =>
    Razorpay.validateWebhookSignature(text, header('x-razorpay-signature'), secret),
  gocardless: ({ body, header, secret }) => parseGoCardless(body, secret, header('webhook-signature')),
  workos: ({ text, header, secret }) =>
    new WorkOS('sk_test').webhooks.verifyHeader({
      payload: JSON.parse(text) as Record<string, unknown>,
      sigHeader: header('workos-signature'),
      secret,
    }),
  mux: async ({ text, headers, secret }) => {
    await new Mux({ tokenId: 'a', tokenSecret: 'b', webhookSecret: secret }).webhooks.verifySignature(
      text,
      headers,
    );
  },
  paddle: ({ text, header, secret }) =>
    new Paddle('key').webhooks.isSignatureValid(text, secret, header('paddle-signature')),
  linear: ({ body, header, secret }) =>
    new LinearWebhookClient(secret).verify(body, header('linear-signature')),
  braintree: async ({ text, secret }) => {
    const form = new URLSearchParams(text);
    const [publicKey = '', privateKey = ''] = secret.split(':');
    const gateway = new BraintreeGateway({
      environment: Environment.Sandbox,
      merchantId: 'm',
      publicKey,
      privateKey,
    });
    await gateway.webhookNotification.parse(form.get('bt_signature') ?? '', form.get('bt_payload') ?? '');
  },
  sns: ({ text }) =>
    new Promise<void>((resolve, reject) =>
      withServedCertificate(() =>
        new MessageValidator().validate(text, (error) => (error === null ? resolve() : reject(error))),
      ),
    ),
};

/** Asks a vendor's SDK. A return of false or an Error is a refusal, as is a throw. */
export async function sdkAccepts(
  verifier: SdkVerifier,
  request: WebhookRequest,
  names: readonly string[],
  secret: string,
): Promise<boolean> {
  const headers = request.headers.pick(names);
  try {
    const result = await verifier({
      header: (name) => headers[name] ?? '',
      headers,
      body: request.rawBody,
      text: request.rawBody.toString('utf8'),
      url: request.url,
      secret,
    });
    return result !== false && !(result instanceof Error);
  } catch {
    return false;
  }
}

/** sns-validator fetches certificates with https.get of its own. */
function withServedCertificate(run: () => void): void {
  const { get } = https;
  Object.assign(https, {
    get: (_url: string, onResponse: (response: Readable) => void) => {
      onResponse(Object.assign(Readable.from([servedCertificate]), { statusCode: 200 }));
      return { on: () => undefined };
    },
  });
  try {
    run();
  } finally {
    Object.assign(https, { get });
  }
}
