import { hmac, type VendorSigner } from './signer.js';

const WHSEC = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=';

interface Standard {
  readonly provider: string;
  readonly family?: string;
  /** A secret whose text is the key. Other secrets are `whsec_` and the key in base64. */
  readonly textSecret?: string;
  readonly type?: string;
  readonly typeField?: string;
  readonly typeHeader?: string;
}

/** Standard Webhooks and Svix: `${id}.${timestamp}.${body}`. */
function standard({
  provider,
  family = 'webhook',
  textSecret,
  type = 'thing.made',
  typeField = 'type',
  typeHeader,
}: Standard): VendorSigner {
  return {
    provider,
    secret: textSecret ?? WHSEC,
    type,
    signsTime: true,
    body: (event) => JSON.stringify({ [typeField]: event.type }),
    sign: (body, { keys, at, id, type: sent }) => {
      const key =
        textSecret === undefined ? Buffer.from(keys.secret.replace(/^whsec_/, ''), 'base64') : keys.secret;
      return {
        headers: {
          [`${family}-id`]: id,
          [`${family}-timestamp`]: String(at),
          [`${family}-signature`]: `v1,${hmac('sha256', key, 'base64', `${id}.${at}.`, body)}`,
          ...(typeHeader === undefined ? {} : { [typeHeader]: sent }),
        },
      };
    },
  };
}

export const standardSigners: readonly VendorSigner[] = [
  standard({ provider: 'standard-webhooks' }),
  standard({ provider: 'svix', family: 'svix' }),
  standard({ provider: 'clerk', family: 'svix', type: 'user.created' }),
  standard({ provider: 'resend', family: 'svix', type: 'email.delivered' }),
  standard({ provider: 'openai', type: 'response.completed' }),
  standard({ provider: 'replicate', type: 'succeeded', typeField: 'status' }),
  standard({ provider: 'polar', textSecret: 'polar_whs_0123456789abcdef', type: 'order.paid' }),
  standard({
    provider: 'bigcommerce',
    textSecret: 'client-secret-0123456789',
    type: 'store/order/created',
    typeField: 'scope',
  }),
  standard({ provider: 'gitlab', type: 'Push Hook', typeField: 'event_name', typeHeader: 'X-Gitlab-Event' }),
];
