import { sign as signGithub } from '@octokit/webhooks-methods';
import { encodeSignatureHeader } from '@sanity/webhook';
import { Webhook } from 'standardwebhooks';
import { Stripe } from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio';
import { getExpectedBodyHash } from 'twilio/lib/webhooks/webhooks.js';
import { NOW, ORIGIN, URL_PATH } from '../../signers/index.js';
import type { Vector } from '../vector.js';
import { laterSdks } from './later-sdk-vectors.js';
import { BODIES, pairs } from './pairs.js';
import { vectorMaker } from './vector-maker.js';

/** Signatures made by the vendors' own code, and the same over another body. */
export async function sdkVectors(): Promise<Vector[]> {
  const vendors = [stripe, github, standard, svix, twilioForms, twilioBodies, sanity, ...laterSdks];
  return (await Promise.all(vendors.map(async (vendor) => vendor()))).flat();
}

function stripe() {
  const secret = 'whsec_sdk_0123456789abcdef';
  return pairs(vectorMaker('stripe', 'sdk', { secret }), (payload) => ({
    'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: NOW }),
  }));
}

function github() {
  const secret = "It's no secret to the SDK";
  return pairs(vectorMaker('github', 'sdk', { secret }), async (body) => ({
    'x-hub-signature-256': await signGithub(secret, body),
  }));
}

function standard() {
  const secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
  const webhook = new Webhook(secret);
  return pairs(vectorMaker('standard-webhooks', 'sdk', { secret }), (body) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(NOW),
    'webhook-signature': webhook.sign('msg_1', new Date(NOW * 1000), body),
  }));
}

function svix() {
  const secret = `whsec_${Buffer.from('fedcba9876543210fedcba9876543210').toString('base64')}`;
  const webhook = new SvixWebhook(secret);
  return pairs(vectorMaker('svix', 'sdk', { secret }), (body) => ({
    'svix-id': 'msg_1',
    'svix-timestamp': String(NOW),
    'svix-signature': webhook.sign('msg_1', new Date(NOW * 1000), body),
  }));
}

const TWILIO_SECRET = 'twilio-auth-token';

function twilioForms() {
  const url = ORIGIN + URL_PATH;
  const forms = [
    'CallSid=CA1&From=%2B14158675309',
    'a=1&B=2&A=3',
    'D=2&D=1&D=2&Body=h%C3%A9llo+%F0%9F%98%80+%26',
    'A=&B=x%0D%0Ay',
  ];
  const headersOf = (body: string) => {
    const form = new URLSearchParams(body);
    const values = Object.fromEntries([...form.keys()].map((name) => [name, form.getAll(name)]));
    return {
      'content-type': 'application/x-www-form-urlencoded',
      'x-twilio-signature': twilio.getExpectedTwilioSignature(TWILIO_SECRET, url, values),
    };
  };
  return pairs(
    vectorMaker('twilio', 'sdk', { secret: TWILIO_SECRET, method: 'POST', url }),
    headersOf,
    forms,
  );
}

/** Other bodies than forms: their hash stands in the URL, which is signed. */
function twilioBodies() {
  const url = (body: string) => `${ORIGIN}${URL_PATH}?bodySHA256=${getExpectedBodyHash(body)}`;
  return pairs(
    vectorMaker('twilio', 'sdk-body', { secret: TWILIO_SECRET, method: 'POST' }),
    (body) => ({
      'content-type': 'application/json',
      'x-twilio-signature': twilio.getExpectedTwilioSignature(TWILIO_SECRET, url(body), {}),
    }),
    BODIES,
    (body) => ({ url: url(body) }),
  );
}

function sanity() {
  const secret = 'sanity-webhook-secret';
  return pairs(vectorMaker('sanity', 'sdk', { secret }), async (body) => ({
    'sanity-webhook-signature': await encodeSignatureHeader(body, NOW * 1000, secret),
  }));
}
