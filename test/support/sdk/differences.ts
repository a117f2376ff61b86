import { sign } from 'node:crypto';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { snsPrivateKey, NOW, signedRequest, signerOf } from '../signers/index.js';
import { headersOf, hex, request, secretOf, type Difference } from './difference.js';
import { laterDifferences } from './later-differences.js';

export const differences: readonly Difference[] = [
  {
    provider: 'stripe',
    title: 'a time in the future',
    sdkAccepts: true,
    headers: ['stripe-signature'],
    request: () => signedRequest(signerOf('stripe'), 'evt_1', NOW + 315_360_000),
  },
  {
    provider: 'stripe',
    title: 'a time with junk behind it',
    sdkAccepts: true,
    headers: ['stripe-signature'],
    request: () =>
      request({ 'stripe-signature': `t=${NOW}x,v1=${hex(secretOf('stripe'), `${NOW}.{}`)}` }, '{}'),
  },
  {
    provider: 'mux',
    title: 'a time in the future',
    sdkAccepts: true,
    headers: ['mux-signature'],
    request: () => signedRequest(signerOf('mux'), 'evt_1', NOW + 315_360_000),
  },
  {
    provider: 'workos',
    title: 'a time in the future',
    sdkAccepts: true,
    headers: ['workos-signature'],
    request: () => signedRequest(signerOf('workos'), 'evt_1', NOW + 315_360_000),
  },
  {
    provider: 'workos',
    title: 'a body that is not written as JSON.stringify writes it',
    sdkAccepts: false,
    headers: ['workos-signature'],
    request: () => signedRequest(signerOf('workos'), 'evt_1', NOW, '{ "id": "evt_1" }'),
  },
  {
    provider: 'paddle',
    title: 'a time in the future',
    sdkAccepts: true,
    headers: ['paddle-signature'],
    request: () => signedRequest(signerOf('paddle'), 'evt_1', NOW + 315_360_000),
  },
  {
    provider: 'paddle',
    title: 'several signatures, and the last one is wrong',
    sdkAccepts: false,
    headers: ['paddle-signature'],
    request: () =>
      request(
        {
          'paddle-signature': `ts=${NOW};h1=${hex(secretOf('paddle'), `${NOW}:{}`)};h1=${'0'.repeat(64)}`,
        },
        '{}',
      ),
  },
  {
    provider: 'standard-webhooks',
    title: 'an id with a dot',
    sdkAccepts: true,
    headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    request: () => signedRequest(signerOf('standard-webhooks'), `m.${NOW - 1}`),
  },
  {
    provider: 'standard-webhooks',
    title: 'a verified body that is no JSON',
    sdkAccepts: false,
    headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    request: () => signedRequest(signerOf('standard-webhooks'), 'msg_1', NOW, '\ufeff{}'),
  },
  ...['stripe', 'gocardless'].map((provider) => ({
    provider,
    title: 'a verified body that is no JSON',
    sdkAccepts: false,
    headers: headersOf(provider),
    request: () => signedRequest(signerOf(provider), 'evt_1', NOW, '\ufeff{}'),
  })),
  {
    provider: 'sanity',
    title: 'a time before 2021',
    sdkAccepts: false,
    headers: headersOf('sanity'),
    request: () => signedRequest(signerOf('sanity'), 'evt_1', NOW - 315_360_000),
  },
  {
    provider: 'discord',
    title: 'hex in upper case',
    sdkAccepts: true,
    headers: ['x-signature-ed25519', 'x-signature-timestamp'],
    request: () => {
      const genuine = signedRequest(signerOf('discord'));
      const names = ['X-Signature-Ed25519', 'X-Signature-Timestamp'] as const;
      const [signature = '', timestamp = ''] = names.map((name) => genuine.headers.first(name));
      return {
        ...genuine,
        headers: RequestHeaders.from({ [names[0]]: signature.toUpperCase(), [names[1]]: timestamp }),
      };
    },
  },
  {
    provider: 'gocardless',
    title: 'junk behind a signature',
    sdkAccepts: true,
    headers: ['webhook-signature'],
    request: () => {
      const body = signerOf('gocardless').body('EV1');
      return request({ 'webhook-signature': `${hex(secretOf('gocardless'), body)}, 00` }, body);
    },
  },
  {
    provider: 'hook0',
    title: 'a signed header that is absent',
    sdkAccepts: true,
    headers: ['x-hook0-signature', 'x-event-id'],
    request: () => {
      const signature = hex(secretOf('hook0'), `${NOW}.x-event-id x-event-type.e1.{}`);
      const header = `t=${NOW},h=x-event-id x-event-type,v1=${signature}`;
      return request({ 'x-hook0-signature': header, 'x-event-id': 'e1' }, '{}');
    },
  },
  {
    provider: 'sendgrid',
    title: 'a time that is not a number',
    sdkAccepts: true,
    headers: ['x-twilio-email-event-webhook-signature', 'x-twilio-email-event-webhook-timestamp'],
    request: () => {
      const signed = signerOf('sendgrid').sign(Buffer.from('[]'), Number.NaN, 'e');
      return request(signed.headers, '[]');
    },
  },
  {
    provider: 'sns',
    title: 'UnsubscribeConfirmation, whose Token is signed',
    sdkAccepts: false,
    headers: [],
    request: unsubscribeConfirmation,
  },
  ...laterDifferences,
];

function unsubscribeConfirmation(): WebhookRequest {
  const message: Record<string, string> = {
    Message: 'You have chosen to deactivate',
    MessageId: 'm1',
    SubscribeURL: 'https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription',
    Timestamp: new Date(NOW * 1000).toISOString(),
    Token: 't',
    TopicArn: secretOf('sns'),
    Type: 'UnsubscribeConfirmation',
  };
  const text = Object.entries(message)
    .map(([key, value]) => `${key}\n${value}\n`)
    .join('');
  return request(
    {},
    JSON.stringify({
      ...message,
      SignatureVersion: '2',
      SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem',
      Signature: sign('sha256', Buffer.from(text), snsPrivateKey).toString('base64'),
    }),
  );
}
