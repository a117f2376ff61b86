import { z } from 'zod';
import { headOf } from '../core/event.js';
import { InputRefused } from '../core/errors.js';
import { isZone } from '../core/time/zoned-time.js';
import { MAX_AT_ONCE } from '../operator/replay/bulk.options.js';

/** PostgreSQL holds no NUL and no half of a character. */
const text = (max: number) =>
  z
    .string()
    .max(max)
    .refine((value) => value.isWellFormed() && !value.includes('\u0000'), {
      error: 'expected text without NUL and without half characters',
    });
const reason = text(1_000).refine((value) => value.trim() !== '', {
  error: 'expected a reason for the audit',
});
const uuid = z.uuid();
const eventKey = z.strictObject({ source: text(64), tenant: text(255), eventId: text(255) });
const events = z.array(eventKey).min(1).max(MAX_AT_ONCE);
const refire = z.array(text(255)).max(50).default([]);
const newEffects = z.enum(['refuse', 'allow']).default('refuse');

/** The JSON input of each action. */
export const ACTION_INPUT = {
  revive: z.strictObject({ ids: z.array(uuid).min(1).max(MAX_AT_ONCE), reason }),
  'revive-preview': z.strictObject({ ids: z.array(uuid).min(1).max(MAX_AT_ONCE) }),
  'row-states': z.strictObject({ ids: z.array(uuid).min(1).max(MAX_AT_ONCE) }),
  'give-up': z.strictObject({ ids: z.array(uuid).min(1).max(MAX_AT_ONCE), reason }),
  issue: z.strictObject({
    fingerprint: z.string().regex(/^[0-9a-f]{32}$/),
    state: z.enum(['open', 'acknowledged', 'resolved']),
    reason,
  }),
  'find-gaps': z.strictObject({ source: text(64), reason }),
  'verify-again': z.strictObject({ source: text(64), after: uuid.optional(), reason }),
  reveal: z.strictObject({
    event: uuid.optional(),
    effect: uuid.optional(),
    conflict: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional(),
    download: z.boolean().optional(),
    reason: text(1_000).default(''),
  }),
  'replay-preview': z.strictObject({ events, refire, newEffects }),
  replay: z.strictObject({ events, refire, newEffects, reason, id: uuid.optional() }),
  forward: z.strictObject({
    events,
    url: text(2_000),
    reason,
    secret: text(10_000).optional(),
    scheme: z.record(z.string(), z.unknown()).optional(),
    body: text(1_000_000).optional(),
    id: uuid.optional(),
  }),
  park: z.strictObject({ ids: z.array(uuid).min(1).max(MAX_AT_ONCE), reason }),
  decide: z.strictObject({ id: uuid, decision: z.enum(['retry', 'done', 'dead']), reason }),
  cancel: z.strictObject({ id: uuid, reason }),
  erase: z.strictObject({ event: eventKey, reason }),
  pause: z.strictObject({
    kind: z.enum(['source', 'handler', 'effect', 'destination']),
    name: text(255),
    paused: z.boolean(),
    reason,
  }),
} as const;
export type ActionName = keyof typeof ACTION_INPUT;
export type ActionInput<N extends ActionName> = z.infer<(typeof ACTION_INPUT)[N]>;

/** Where a page begins: as the page before has said. */
const place = text(300).optional();
const zone = text(64)
  .refine(isZone, { error: `expected the IANA name of a zone, such as 'Europe/Berlin'` })
  .optional();
const filter = { q: text(1_000).default(''), zone };

/** The query parameters of lists. Other parameters are ignored. */
export const QUERY = {
  overview: z.object({ range: z.enum(['hour', 'day']).default('hour') }),
  events: z.object({ ...filter, after: place }),
  effects: z.object({ ...filter, after: uuid.optional() }),
  dead: z.object({ ...filter, after: place }),
  group: z.object({ after: place }),
  rejections: z.object({ ...filter, after: uuid.optional() }),
  sources: z.object({ q: text(255).default(''), after: text(255).optional() }),
  audit: z.object({
    ...filter,
    after: z
      .string()
      .regex(/^\d{1,18}$/)
      .optional(),
  }),
} as const;

/** @throws InputRefused naming the expected form */
export function read<T extends z.ZodType>(schema: T, value: unknown, where: string): z.infer<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => `${[where, ...issue.path].join('.')}: ${issue.message}`);
  throw new InputRefused(headOf(faults.join('; '), 500));
}
