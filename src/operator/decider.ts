import { z } from 'zod';
import { checkInput } from '../core/schema.js';

/** Who does something, and why. */
export interface Decider {
  readonly by: string;
  /** May be empty. */
  readonly reason: string;
}

// Not strict: options of a replay carry more.
const schema = z.object(
  {
    by: z.string({ error: 'expected text: who asks' }),
    reason: z.string({ error: 'expected text: why, which may be empty' }),
  },
  { error: `expected { by, reason }: who asks, and why` },
);

/**
 * Callers in plain JavaScript forget it, and what is done must say who wanted it.
 * @throws InputRefused
 */
export function checkDecider(decider: Decider): void {
  checkInput(schema, decider, 'decider');
}
