import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

/** Options of `cashfree()`. */
export interface CashfreeOptions extends SourceOptions {
  /**
   * The text between timestamp and body in the signed text. Cashfree's pages disagree: payments have none, prepaid instruments a dot.
   * @default ''
   */
  readonly separator?: '' | '.';
}

/**
 * Cashfree. The secret is the client secret.
 * @see https://www.cashfree.com/docs/payments/online/webhooks/signature-verification
 */
export function cashfree<TPayload = unknown>(options: CashfreeOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options.separator ?? ''), options, { separator: true });
}

function schemeOf(separator: '' | '.'): Scheme {
  return macProvider({
    name: 'cashfree',
    docs: 'https://www.cashfree.com/docs/payments/online/webhooks/signature-verification',
    algorithm: 'sha256',
    encoding: 'base64',
    key: textKey,
    signature: single('x-webhook-signature'),
    timestampHeader: 'x-webhook-timestamp',
    payload: `\${timestamp}${separator}\${body}`,
    timeUnit: 'milliseconds',
    toleranceMs: minutes(5),
    idKey: { hash: ['type', 'event_time', 'data'] },
    typePath: 'type',
    timePath: 'event_time',
    retries: { automatic: true, sameBytes: false, changes: [] },
    notes: {
      id: 'hash of `type`, `event_time` and `data`: no page with an event id was at hand',
      more: 'its pages disagree on what is between timestamp and body: option `separator`',
      unconfirmed: 'window, retries, event fields',
    },
  });
}
