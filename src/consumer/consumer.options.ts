import { z } from 'zod';
import type { Around } from '../core/around.js';
import { fn } from '../core/options/function-schema.js';
import { toMs, type Duration } from '../core/options/duration.js';
import type { EffectTransport } from '../core/options/effect-transport.js';
import { transportSchema } from '../core/options/resolve-transports.js';
import { check, count, duration } from '../core/options/schema.js';

/** Options of `EffectConsumerModule`. */
export interface EffectConsumerOptions {
  /** The engine that brings the effects. */
  readonly transport: EffectTransport;
  /** Names of the effects to take. @default every `@OnEffect` method of the application */
  readonly effects?: readonly string[];
  /** Effects that run at once. With a DataSource each holds a connection. @default 20, or the pool's size less two */
  readonly concurrency?: number;
  /** How long running effects may go on at shutdown. @default '10s' */
  readonly shutdownGrace?: Duration;
  /**
   * How long it is remembered that an effect is done, from its arrival. A copy of the message that comes later is done once more.
   * @default '30d'
   */
  readonly keep?: Duration;
  /** Called around the application's own code, as the option of `WebhooksModule`. @default none */
  readonly around?: Around;
}

/** The options with every default filled in. */
export interface ResolvedConsumer {
  readonly transport: EffectTransport;
  readonly effects: readonly string[] | undefined;
  readonly concurrency: number | undefined;
  readonly graceMs: number;
  readonly keepMs: number;
  readonly around: Around | undefined;
}

const optionsSchema = z.strictObject({
  transport: transportSchema,
  effects: z.array(z.string()).min(1).optional(),
  concurrency: count.optional(),
  shutdownGrace: duration.optional(),
  keep: duration.optional(),
  around: fn<Around>().optional(),
});

/** @throws ConfigurationError */
export function resolveConsumer(options: EffectConsumerOptions): ResolvedConsumer {
  check(optionsSchema, options, 'EffectConsumerModule options');
  return {
    transport: options.transport,
    effects: options.effects,
    concurrency: options.concurrency,
    graceMs: toMs(options.shutdownGrace ?? '10s')!,
    keepMs: toMs(options.keep ?? '30d')!,
    around: options.around,
  };
}
