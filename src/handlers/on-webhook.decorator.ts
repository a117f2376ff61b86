import type { HandlerOptions } from '../core/options.js';
import { append } from './metadata.js';

/** What `@OnWebhook` writes on a method. */
export interface OnWebhookMetadata {
  readonly source: string;
  readonly types: readonly string[];
  readonly options: HandlerOptions;
}

export const ON_WEBHOOK = Symbol('webhook-inbox:on-webhook');

/**
 * The method handles events of a source, inside a database transaction: what it writes through `context.manager`, the effects it
 * enqueues and its completion commit together, or not at all. What it returns is the result summary.
 * It may run again after a failure, so that anything outside the database belongs in an effect.
 *
 * @param source name of a configured source
 * @param types event types: exact, `'invoice.*'` (any text in the star's place) or `'*'`
 */
export function OnWebhook<TPayload = unknown>(
  source: string,
  types: string | readonly string[],
  options: HandlerOptions<TPayload> = {},
): MethodDecorator {
  const metadata: OnWebhookMetadata = { source, types: typeof types === 'string' ? [types] : types, options };
  return append(ON_WEBHOOK, metadata);
}
