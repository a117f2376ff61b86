import { z } from 'zod';
import type { EngineReport } from '../../core/options/effect-transport.js';
import { OUTBOX_ID } from '../../core/options/schema.js';
import type { DeadReason } from '../../core/states.js';

const REASONS = ['permanent-error', 'attempts-exhausted', 'last-attempt-lost', 'unreadable-payload'] as const;
const time = z.string().refine((value) => !Number.isNaN(Date.parse(value)));

/** PostgreSQL keeps no NUL, and readers parse the text. */
const json = z.string().refine((value) => {
  try {
    return !value.includes('\0') && JSON.parse(value) !== undefined;
  } catch {
    return false;
  }
});

const reportSchema = z.object({
  id: OUTBOX_ID,
  effect: z.string(),
  life: z.int32(),
  outcome: z.enum(['done', 'dead']),
  reason: z.enum(REASONS satisfies readonly DeadReason[]).optional(),
  result: json.optional(),
  error: z.string().optional(),
  place: z.string().optional(),
  attempts: z.number(),
  begunAt: time,
  endedAt: time,
  host: z.string(),
});

/** Whether a report can be recorded. An engine may bring anything that others have put there. */
export function isReport(report: unknown): report is EngineReport {
  return reportSchema.safeParse(report).success;
}
