import { sign as signGithub } from '@octokit/webhooks-methods';
import { encodeSignatureHeader } from '@sanity/webhook';
import { Webhook } from 'standardwebhooks';
import { Stripe } from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio';
import { NOW, ORIGIN, URL_PATH } from '../../signers/index.js';
import type { Vector } from '../vector.js';
import { vectorMaker, type Case } from './vector-maker.js';

const BODIES = [
  '{"id":"evt_1","type":"thing.made"}',
  '{ "id" : "evt_1" , "n":1.0 }\r\n',
  '{"t":"héllo ✓ 日本語 😀 \u2028 <b>&amp;</b>"}',
  '{"a":"\\u00e9\\/"}',
];

/** Signatures made by the vendors' own code, and the same over another body. */
export async function sdkVectors(): Promise<Vector[]> {
  return [...stripe(), ...(await github()), ...standard(), ...svix(), ...twilioForms(), ...(await sanity())];
}

/** Each body with its own signature, and with that of the next. */
function pairs(headersOf: (body: string) => Vector['headers'], bodies = BODIES): Case[] {
  return bodies.flatMap((body, i) => [
    {
      name: `body ${JSON.stringify(body)}`,
      request: { headers: headersOf(body), body },
      expect: 'valid',
      why: 'signed by the SDK',
    },
    {
      name: `body ${JSON.stringify(body)}, signature of another`,
      request: { headers: headersOf(bodies[(i + 1) % bodies.length]!), body },
      expect: 'invalid',
      why: 'tampered',
    },
  ]);
}

function stripe(): Vector[] {
  const secret = 'whsec_sdk_0123456789abcdef';
  const headersOf = (payload: string) => ({
    'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: NOW }),
  });
  return pairs(headersOf).map(vectorMaker('stripe', 'sdk', { secret }));
}

async function github(): Promise<Vector[]> {
  const secret = "It's no secret to the SDK";
  const signatures = new Map<string, string>();
  for (const body of BODIES) signatures.set(body, await signGithub(secret, body));
  return pairs((body) => ({ 'x-hub-signature-256': signatures.get(body) ?? '' })).map(
    vectorMaker('github', 'sdk', { secret }),
  );
}

function standard(): Vector[] {
  const secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
  const webhook = new Webhook(secret);
  const headersOf = (body: string) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(NOW),
    'webhook-signature': webhook.sign('msg_1', new Date(NOW * 1000), body),
  });
  return pairs(headersOf).map(vectorMaker('standard-webhooks', 'sdk', { secret }));
}

function svix(): Vector[] {
  const secret = `whsec_${Buffer.from('fedcba9876543210fedcba9876543210').toString('base64')}`;
  const webhook = new SvixWebhook(secret);
  const headersOf = (body: string) => ({
    'svix-id': 'msg_1',
    'svix-timestamp': String(NOW),
    'svix-signature': webhook.sign('msg_1', new Date(NOW * 1000), body),
  });
  return pairs(headersOf).map(vectorMaker('svix', 'sdk', { secret }));
}

function twilioForms(): Vector[] {
  const secret = 'twilio-auth-token';
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
      'x-twilio-signature': twilio.getExpectedTwilioSignature(secret, url, values),
    };
  };
  return pairs(headersOf, forms).map(vectorMaker('twilio', 'sdk', { secret, method: 'POST', url }));
}

async function sanity(): Promise<Vector[]> {
  const secret = 'sanity-webhook-secret';
  const signatures = new Map<string, string>();
  for (const body of BODIES) signatures.set(body, await encodeSignatureHeader(body, NOW * 1000, secret));
  return pairs((body) => ({ 'sanity-webhook-signature': signatures.get(body) ?? '' })).map(
    vectorMaker('sanity', 'sdk', { secret }),
  );
}
