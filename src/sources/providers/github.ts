import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { days, seconds } from '../times.js';
import { GITHUB_TYPES } from '../types/platforms.types.js';

/** Options of `github()`. */
export interface GithubOptions extends SourceOptions {
  /**
   * Reads `X-Hub-Signature` (HMAC-SHA1) instead, which GitHub sends beside the SHA-256 header and old GitHub Enterprise
   * servers send alone.
   * @default false
   */
  readonly legacySha1?: boolean;
}

/**
 * GitHub. The secret is the webhook's secret as text.
 * @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export function github<TPayload = unknown>(options: GithubOptions): SourceDefinition<TPayload> {
  return defineSource(options.legacySha1 === true ? sha1 : sha256, options, { legacySha1: true });
}

const facts = {
  name: 'github',
  docs: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
  encoding: 'hex',
  key: textKey,
  payload: '${body}',
  idHeader: 'X-GitHub-Delivery',
  typeHeader: 'X-GitHub-Event',
  types: GITHUB_TYPES,
  keepHeaders: ['x-github-hook-id', 'x-github-hook-installation-target-id'],
  maxBytes: 25 * 1024 * 1024,
  ackTimeoutMs: seconds(10),
  retries: { automatic: false, manualResendMs: days(3), sameBytes: true },
  notes: {
    id: '`X-GitHub-Delivery` header, a GUID',
    unstable: 'the id is not signed; a manual redelivery carries the same id as the first delivery',
    more: 'the body has no id of the delivery. The ping after creation is an ordinary signed event',
    unconfirmed: 'body limit of 25 MB',
  },
} as const;

const sha256 = /* @__PURE__ */ macProvider({
  ...facts,
  algorithm: 'sha256',
  signature: single('X-Hub-Signature-256', 'sha256='),
});

const sha1 = /* @__PURE__ */ macProvider({
  ...facts,
  algorithm: 'sha1',
  signature: single('X-Hub-Signature', 'sha1='),
});
