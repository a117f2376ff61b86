import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import { minutes, seconds } from '../times.js';

const sha256Hex = { algorithm: 'sha256', encoding: 'hex', key: textKey, payload: '${body}' } as const;

/**
 * Bitbucket Cloud. The secret is the webhook's.
 * @see https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
 */
export const bitbucket = /* @__PURE__ */ macSource({
  ...sha256Hex,
  name: 'bitbucket',
  docs: 'https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/',
  signature: single('X-Hub-Signature', 'sha256='),
  idHeader: 'X-Request-UUID',
  typeHeader: 'X-Event-Key',
  keepHeaders: ['x-hook-uuid', 'x-attempt-number'],
  ackTimeoutMs: seconds(10),
  retries: { automatic: true, windowMs: minutes(30), sameBytes: false },
  notes: {
    id: '`X-Request-UUID` header',
    unstable: 'the id is not signed',
    stops: '4xx',
    more: 'SHA-256 under the header name that GitHub uses for SHA-1',
    unconfirmed: 'retries, whether a retry keeps the id',
  },
});

/**
 * Bitbucket Data Center (Server). The secret is the webhook's.
 * @see https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
 */
export const bitbucketServer = /* @__PURE__ */ macSource({
  ...sha256Hex,
  name: 'bitbucket-server',
  docs: 'https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html',
  signature: single('X-Hub-Signature', 'sha256='),
  idHeader: 'X-Request-Id',
  typeHeader: 'X-Event-Key',
  timePath: 'date',
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: '`X-Request-Id` header',
    unstable: 'the id is not signed',
    more: 'the connection test is an event `diagnostics:ping`',
    unconfirmed: 'retries, `diagnostics:ping`',
  },
});

/**
 * Gitea and Forgejo. The secret is the webhook's.
 * @see https://docs.gitea.com/usage/webhooks
 */
export const gitea = /* @__PURE__ */ macSource({
  ...sha256Hex,
  name: 'gitea',
  docs: 'https://docs.gitea.com/usage/webhooks',
  signature: single('X-Gitea-Signature'),
  idHeader: 'X-Gitea-Delivery',
  typeHeader: 'X-Gitea-Event',
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: '`X-Gitea-Delivery` header',
    unstable: 'the id is not signed',
    unconfirmed: 'id header, retries',
  },
});

/**
 * Gogs. The secret is the webhook's.
 * @see https://gogs.io/docs
 */
export const gogs = /* @__PURE__ */ macSource({
  ...sha256Hex,
  name: 'gogs',
  docs: 'https://gogs.io/docs',
  signature: single('X-Gogs-Signature'),
  idHeader: 'X-Gogs-Delivery',
  typeHeader: 'X-Gogs-Event',
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: '`X-Gogs-Delivery` header',
    unstable: 'the id is not signed',
    unconfirmed: 'id header, retries',
  },
});
