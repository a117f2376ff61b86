import type { EffectOptions } from '../core/options/work-options.js';
import { append } from './metadata.js';

/** The metadata that `@OnEffect` writes on a method. */
export interface OnEffectMetadata {
  readonly effect: string;
  readonly options: EffectOptions;
}

export const ON_EFFECT = Symbol('webhook-inbox:on-effect');

/**
 * The method carries out an effect: it calls the outside world, never inside a transaction, at least once.
 * Hand `context.key` (the outbox id, the same at each attempt) to the other side as its idempotency key, and it happens once.
 *
 * @param effect name given to `enqueue`; letters, digits, '.', '_' and '-'
 */
export function OnEffect<TPayload = unknown>(
  effect: string,
  options: EffectOptions<TPayload> = {},
): MethodDecorator {
  return append<OnEffectMetadata>(ON_EFFECT, { effect, options });
}
