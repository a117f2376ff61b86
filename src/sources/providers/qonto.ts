import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { pairs, single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

/** Options of `qonto()`. */
export interface QontoOptions extends SourceOptions {
  /** Which of Qonto's two schemes: `X-Qonto-Signature` with a time, or `Qonto-SHA256-Signature` without. @default 'business' */
  readonly api?: 'business' | 'onboarding';
}

/**
 * Qonto. The secret is the webhook's.
 * @see https://docs.qonto.com/api-reference/business-api/webhooks/overview
 */
export function qonto<TPayload = unknown>(options: QontoOptions): SourceDefinition<TPayload> {
  return defineSource(options.api === 'onboarding' ? onboarding : business, options, { api: true });
}

const facts = {
  name: 'qonto',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  idPath: 'id',
  typePath: 'event_type',
  timePath: 'created_at',
  ackTimeoutMs: seconds(1),
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: {
    id: '`id` of the body',
    more: 'the onboarding API signs the body without a time, in `Qonto-SHA256-Signature`: option `api`',
    unconfirmed: 'window, retries, event fields of the business API',
  },
} as const;

const business = /* @__PURE__ */ macProvider({
  ...facts,
  docs: 'https://docs.qonto.com/api-reference/business-api/webhooks/overview',
  signature: pairs('X-Qonto-Signature', { signature: 'v1', timestamp: 't' }),
  payload: '${timestamp}.${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
});

const onboarding = /* @__PURE__ */ macProvider({
  ...facts,
  docs: 'https://docs.qonto.com/api-reference/onboarding-api/webhooks',
  signature: single('Qonto-SHA256-Signature'),
  payload: '${body}',
});
