import { createHmac } from 'node:crypto';
import { NOW, ORIGIN, signedRequest, signerOf } from '../signers/index.js';
import { changed, headersOf, request, secretOf, type Difference } from './difference.js';

/** Those of the SDKs in `later-verifiers`. */
export const laterDifferences: readonly Difference[] = [
  ...['slack', 'hubspot', 'contentful', 'replicate', 'cashfree'].map((provider) => ({
    provider,
    title: 'a time in the future',
    sdkAccepts: true,
    headers: headersOf(provider),
    request: () => signedRequest(signerOf(provider), 'evt_1', NOW + 315_360_000),
  })),
  ...['replicate', 'cashfree'].map((provider) => ({
    provider,
    title: 'a time long past',
    sdkAccepts: true,
    headers: headersOf(provider),
    request: () => signedRequest(signerOf(provider), 'evt_1', NOW - 31_536_000),
  })),
  ...['clerk', 'resend', 'polar', 'openai', 'replicate'].map((provider) => ({
    provider,
    title: 'an id with a dot',
    sdkAccepts: true,
    headers: headersOf(provider),
    request: () => signedRequest(signerOf(provider), `m.${NOW - 1}`),
  })),
  ...['clerk', 'resend', 'polar', 'cashfree'].map((provider) => ({
    provider,
    title: 'a verified body that is no JSON',
    sdkAccepts: false,
    headers: headersOf(provider),
    request: () => signedRequest(signerOf(provider), 'msg_1', NOW, '\ufeff{}'),
  })),
  ...[
    ['clerk', 'svix-id'],
    ['openai', 'webhook-id'],
  ].map(([provider = '', header = '']) => ({
    provider,
    title: 'a space behind the id',
    sdkAccepts: true,
    headers: headersOf(provider),
    request: () => changed(provider, header, (id) => `${id} `),
  })),
  {
    provider: 'openai',
    title: 'a signature without `v1,`',
    sdkAccepts: true,
    headers: headersOf('openai'),
    request: () => changed('openai', 'webhook-signature', (signature) => signature.slice(3)),
  },
  {
    provider: 'hubspot',
    title: 'an escape in the URL that HubSpot decodes before it signs',
    sdkAccepts: false,
    headers: headersOf('hubspot'),
    request: () => {
      const signed = `POST${ORIGIN}/hooks?a=/{}${NOW}000`;
      const signature = createHmac('sha256', secretOf('hubspot')).update(signed).digest('base64');
      const headers = { 'X-HubSpot-Signature-v3': signature, 'X-HubSpot-Request-Timestamp': `${NOW}000` };
      return { ...request(headers, '{}'), url: '/hooks?a=%2F' };
    },
  },
  {
    provider: 'contentful',
    title: 'a list of signed headers that was changed after signing',
    sdkAccepts: true,
    headers: headersOf('contentful'),
    request: () => changed('contentful', 'x-contentful-signed-headers', (names) => `${names},`),
  },
  {
    provider: 'shopify',
    title: 'a request without shop, topic, API version or webhook id',
    sdkAccepts: false,
    headers: headersOf('shopify'),
    request: () => changed('shopify', 'x-shopify-api-version', () => ''),
  },
  {
    provider: 'adyen',
    title: 'base64 without its padding',
    sdkAccepts: true,
    headers: [],
    request: () => {
      const genuine = signedRequest(signerOf('adyen'));
      const text = genuine.rawBody.toString().replace(/="\}/, '"}');
      return { ...genuine, rawBody: Buffer.from(text) };
    },
  },
  {
    provider: 'line',
    title: 'base64 without its padding',
    sdkAccepts: true,
    headers: headersOf('line'),
    request: () => changed('line', 'x-line-signature', (signature) => signature.replace('=', '')),
  },
];
