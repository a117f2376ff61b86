import { z } from 'zod';
import type { OnAlert } from './alert.js';
import { toMs } from './duration.js';
import type { EffectOptions, HandlerOptions, WebhooksOptions } from './options.js';
import { resolveSource, type Source } from './resolve-source.js';
import type { RetryPolicy } from './retry.js';
import { check, duration } from './schema.js';

/** The options with every default filled in and every duration in milliseconds. Made once, at boot. */
export interface ResolvedOptions {
  readonly sources: ReadonlyMap<string, Source>;
  readonly relay: false | ResolvedRelay;
  readonly retention: false | { readonly schedule: string };
  readonly reconcile: boolean;
  readonly onAlert: OnAlert | undefined;
  readonly deadLetterThreshold: number;
  readonly alerts: {
    readonly backlogMs: number;
    readonly rejections: number;
    readonly duplicateRatio: number;
  };
  /** How long samples keep their bytes, in milliseconds; 0 for never. */
  readonly keepRejectionsMs: number;
  readonly byteBudget: number;
  readonly maxPending: number | false;
  readonly claimTimeoutMs: number;
}
export interface ResolvedRelay {
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly handlers: number | undefined;
  readonly effects: number;
  readonly graceMs: number;
}

const count = z.int().positive();
const fn = <T>() => z.custom<T>((value) => typeof value === 'function', { error: 'expected a function' });

const optionsSchema = z.strictObject({
  sources: z.record(z.string(), z.unknown()),
  relay: z
    .union([
      z.literal(false),
      z.strictObject({
        pollInterval: duration.optional(),
        lease: duration.optional(),
        handlers: count.optional(),
        effects: count.optional(),
        shutdownGrace: duration.optional(),
      }),
    ])
    .optional(),
  retention: z.union([z.literal(false), z.strictObject({ schedule: z.string().optional() })]).optional(),
  reconcile: z.boolean().optional(),
  onAlert: fn<OnAlert>().optional(),
  deadLetterThreshold: count.optional(),
  alerts: z
    .strictObject({
      backlogAge: duration.optional(),
      rejectionsPerMinute: count.optional(),
      duplicateRatio: z.number().gt(0).lte(1).optional(),
    })
    .optional(),
  rejections: z.strictObject({ keep: z.union([z.literal(false), duration]).optional() }).optional(),
  byteBudget: count.optional(),
  maxPending: z.union([z.literal(false), count]).optional(),
  claimTimeout: duration.optional(),
});

const workShape = {
  retry: z
    .strictObject({ base: duration.optional(), cap: duration.optional(), maxAttempts: count.optional() })
    .optional(),
  timeout: duration.optional(),
  concurrency: count.optional(),
  classify: fn().optional(),
  was: z.array(z.string()).optional(),
};
const handlerSchema = z.strictObject({
  ...workShape,
  name: z.string().optional(),
  inline: z.boolean().optional(),
});
const effectSchema = z.strictObject(workShape);

/** @throws ConfigurationError naming the option's path, what was expected and what was received */
export function resolveOptions(options: WebhooksOptions): ResolvedOptions {
  check(optionsSchema, options, 'WebhooksModule options');
  const sources = new Map(
    Object.entries(options.sources).map(([name, definition]) => [name, resolveSource(name, definition)]),
  );
  const relay = options.relay ?? {};
  return {
    sources,
    relay: relay !== false && {
      pollMs: toMs(relay.pollInterval ?? '1s')!,
      leaseMs: toMs(relay.lease ?? '30s')!,
      handlers: relay.handlers,
      effects: relay.effects ?? 20,
      graceMs: toMs(relay.shutdownGrace ?? '10s')!,
    },
    retention: options.retention !== false && { schedule: options.retention?.schedule ?? '17 3 * * *' },
    reconcile: options.reconcile ?? true,
    onAlert: options.onAlert,
    deadLetterThreshold: options.deadLetterThreshold ?? 10,
    alerts: {
      backlogMs: toMs(options.alerts?.backlogAge ?? '5m')!,
      rejections: options.alerts?.rejectionsPerMinute ?? 60,
      duplicateRatio: options.alerts?.duplicateRatio ?? 0.9,
    },
    keepRejectionsMs: options.rejections?.keep ? toMs(options.rejections.keep)! : 0,
    byteBudget: options.byteBudget ?? 64 * 1024 * 1024,
    maxPending: options.maxPending ?? false,
    claimTimeoutMs: toMs(options.claimTimeout ?? '5s')!,
  };
}

export function checkHandlerOptions(options: HandlerOptions, where: string): void {
  check(handlerSchema, options, where);
}

export function checkEffectOptions(options: EffectOptions, where: string): void {
  check(effectSchema, options, where);
}

export function retryPolicy(retry: HandlerOptions['retry'], maxAttempts: number | undefined): RetryPolicy {
  return {
    baseMs: toMs(retry?.base ?? '1s')!,
    capMs: toMs(retry?.cap ?? '1h')!,
    maxAttempts: retry?.maxAttempts ?? maxAttempts ?? 20,
  };
}
