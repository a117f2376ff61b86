import { z } from 'zod';
import { ConfigurationError } from '../errors.js';
import { toMs } from './duration.js';
import { rateOf } from './rate.js';
import type { Source } from './resolve-source.js';
import type { RetryPolicy } from './retry.js';
import { answering, fn } from './function-schema.js';
import { check, count, duration, positiveDuration } from './schema.js';
import type {
  BusinessRecord,
  EffectOptions,
  HandlerOptions,
  RecordByEntity,
  RecordByFunction,
} from './work-options.js';

const recordSchema = (shape: z.ZodRawShape) =>
  z.strictObject({
    ...shape,
    window: duration.optional(),
    minAge: duration.optional(),
    timeout: positiveDuration.optional(),
    onMissing: z.enum(['reprocess', 'report']).optional(),
  });
const workShape = {
  retry: z
    .strictObject({ base: duration.optional(), cap: duration.optional(), maxAttempts: count.optional() })
    .optional(),
  timeout: positiveDuration.optional(),
  concurrency: count.optional(),
  classify: answering().optional(),
  was: z.array(z.string()).optional(),
};
const orderShape = { key: answering().optional(), onDead: z.enum(['release', 'block']).optional() };
const handlerSchema = z.strictObject({
  ...workShape,
  ...orderShape,
  name: z.string().optional(),
  inline: z.boolean().optional(),
  businessRecord: z
    .union([recordSchema({ entity: z.unknown(), where: answering() }), recordSchema({ missing: fn() })])
    .optional(),
  batch: count.max(10_000).optional(),
  skipStale: z.strictObject({ key: answering(), at: answering().optional() }).optional(),
  schema: z
    .custom((value) => typeof value === 'object' || typeof value === 'function', {
      error: 'expected a Standard Schema',
    })
    .refine((value) => '~standard' in (value as object), { error: 'expected a Standard Schema' })
    .optional(),
  hydrate: z.strictObject({ key: answering(), fetch: fn() }).optional(),
});
const effectSchema = z.strictObject({
  ...workShape,
  ...orderShape,
  probe: fn().optional(),
  probeFirst: z.boolean().optional(),
  inDoubt: z.enum(['retry', 'park']).optional(),
  keyRetention: z.union([z.literal(false), duration]).optional(),
  destination: answering().optional(),
  rate: z
    .string()
    .refine((value) => rateOf(value) !== undefined, {
      error: "expected a rate such as '50/s', '100/min' or '1000/h'",
    })
    .optional(),
  opensAfter: z.union([z.literal(false), count]).optional(),
});

/** @throws ConfigurationError */
export function checkHandlerOptions(options: HandlerOptions, where: string): void {
  check(handlerSchema, options, where);
}

/** A handler's business record, with every default filled in. */
export interface ResolvedRecord {
  readonly look: RecordByEntity | RecordByFunction;
  readonly windowMs: number;
  readonly minAgeMs: number;
  readonly timeoutMs: number;
  readonly onMissing: 'reprocess' | 'report';
}

/** @throws ConfigurationError for a window that no claim or body outlives */
export function resolveRecord(
  record: BusinessRecord | undefined,
  source: Source,
  where: string,
): ResolvedRecord | undefined {
  if (record === undefined) return undefined;
  const windowMs = toMs(record.window ?? '24h')!;
  const minAgeMs = toMs(record.minAge ?? '1m')!;
  if (windowMs > source.retentionMs || windowMs > source.bodiesMs) {
    throw new ConfigurationError(
      `${where}.businessRecord.window: expected at most what the source keeps bodies for (${Math.min(source.retentionMs, source.bodiesMs)} ms), received ${windowMs} ms`,
    );
  }
  if (minAgeMs >= windowMs) {
    throw new ConfigurationError(
      `${where}.businessRecord.minAge: expected less than the window (${windowMs} ms), received ${minAgeMs} ms`,
    );
  }
  const timeoutMs = toMs(record.timeout ?? '30s')!;
  return { look: record, windowMs, minAgeMs, timeoutMs, onMissing: record.onMissing ?? 'reprocess' };
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
