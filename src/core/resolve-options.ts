import { closest } from 'fastest-levenshtein';
import { z } from 'zod';
import type { OnAlert } from './alert.js';
import { toMs } from './duration.js';
import { ConfigurationError } from './errors.js';
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
const orderShape = { key: fn().optional(), onDead: z.enum(['release', 'block']).optional() };
const handlerSchema = z.strictObject({
  ...workShape,
  ...orderShape,
  name: z.string().optional(),
  inline: z.boolean().optional(),
  batch: count.max(10_000).optional(),
  skipStale: z.strictObject({ key: fn(), at: fn().optional() }).optional(),
  schema: z
    .custom((value) => typeof value === 'object' || typeof value === 'function', {
      error: 'expected a Standard Schema',
    })
    .refine((value) => '~standard' in (value as object), { error: 'expected a Standard Schema' })
    .optional(),
  hydrate: z.strictObject({ key: fn(), fetch: fn() }).optional(),
});
const effectSchema = z.strictObject({
  ...workShape,
  ...orderShape,
  probe: fn().optional(),
  probeFirst: z.boolean().optional(),
  inDoubt: z.enum(['retry', 'park']).optional(),
  keyRetention: z.union([z.literal(false), duration]).optional(),
});

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
    byteBudget: options.byteBudget ?? 64 * 1024 * 1024,
    maxPending: options.maxPending ?? false,
    claimTimeoutMs: toMs(options.claimTimeout ?? '5s')!,
  };
}

/** @throws ConfigurationError when a decorator names a source that is not configured */
export function configuredSource(options: ResolvedOptions, name: string, at: string): Source {
  const source = options.sources.get(name);
  if (source !== undefined) return source;
  const known = [...options.sources.keys()];
  throw new ConfigurationError(
    `${at}: no source '${name}' is configured` +
      (known.length > 0
        ? `; did you mean '${closest(name, known)}'?`
        : '; add it to the sources of WebhooksModule'),
  );
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
