import type { BatchContext, BatchEvent } from '../core/context.js';
import type { HandlerOptions } from '../core/options/work-options.js';
import { append } from './metadata.js';

/** The metadata that `@OnWebhook` writes on a method. */
export interface OnWebhookMetadata {
  readonly source: string;
  readonly types: readonly string[];
  readonly options: HandlerOptions;
}

export const ON_WEBHOOK = Symbol('webhook-inbox:on-webhook');

/** Of a method that can be called with a batch. */
export type BatchDecorator<TPayload> = <
  Method extends (events: BatchEvent<TPayload>[], context: BatchContext) => unknown,
>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void;

/**
 * The method handles events of a source, inside a database transaction. Its writes through `context.manager`, the effects that it enqueues
 * and its completion commit together, or not at all. Its return value is the result summary. It may run again after a failure, so work
 * outside the database belongs in an effect.
 * @param source name of a configured source
 * @param types event types: exact, `'invoice.*'` (any text in the star's place) or `'*'`
 * @param options with `batch`, the method must take `readonly BatchEvent[]` and `BatchContext`
 */
export function OnWebhook<TPayload = never>(
  source: string,
  types: string | readonly string[],
  options: HandlerOptions<TPayload> & { readonly batch: number },
): BatchDecorator<TPayload>;
export function OnWebhook<TPayload = unknown>(
  source: string,
  types: string | readonly string[],
  options?: HandlerOptions<TPayload>,
): MethodDecorator;
export function OnWebhook(
  source: string,
  types: string | readonly string[],
  options: HandlerOptions = {},
): MethodDecorator {
  const metadata: OnWebhookMetadata = { source, types: typeof types === 'string' ? [types] : types, options };
  return append(ON_WEBHOOK, metadata);
}
