import { hmac, type Signer } from './signer.js';

const DECODED = Buffer.from('0123456789abcdef0123456789abcdef');
const WHSEC = `whsec_${DECODED.toString('base64')}`;
const OTHER_WHSEC = `whsec_${Buffer.from('fedcba9876543210fedcba9876543210').toString('base64')}`;

interface Standard {
  readonly provider: string;
  readonly family?: string;
  /** A secret that is the key as text; others are `whsec_` and decoded. */
  readonly textSecret?: string;
  readonly type?: (name: string) => Record<string, unknown>;
  readonly headers?: Record<string, string>;
}

/** Standard Webhooks and Svix: `${id}.${timestamp}.${body}`. */
function standard({
  provider,
  family = 'webhook',
  textSecret,
  type = (name) => ({ type: name }),
  headers,
}: Standard): Signer {
  const key = textSecret ?? DECODED;
  return {
    provider,
    secret: textSecret ?? WHSEC,
    otherSecret: textSecret === undefined ? OTHER_WHSEC : `${textSecret}-other`,
    body: () => JSON.stringify(type('thing.made')),
    signsTime: true,
    sign: (body, at, id) => ({
      headers: {
        [`${family}-id`]: id,
        [`${family}-timestamp`]: String(at),
        [`${family}-signature`]: `v1,${hmac('sha256', key, 'base64', `${id}.${at}.`, body)}`,
        ...headers,
      },
    }),
  };
}

export const standardSigners: readonly Signer[] = [
  standard({ provider: 'standard-webhooks' }),
  standard({ provider: 'svix', family: 'svix' }),
  standard({ provider: 'clerk', family: 'svix' }),
  standard({ provider: 'resend', family: 'svix' }),
  standard({ provider: 'openai' }),
  standard({ provider: 'replicate', type: (status) => ({ status }) }),
  standard({ provider: 'polar', textSecret: 'polar_whs_0123456789abcdef' }),
  standard({ provider: 'bigcommerce', textSecret: 'client-secret-0123456789', type: (scope) => ({ scope }) }),
  standard({ provider: 'gitlab', headers: { 'X-Gitlab-Event': 'Push Hook' } }),
];
