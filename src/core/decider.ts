import { z } from 'zod';
import { checkInput } from './options/schema.js';

/** The person who decides, and the reason. Neither may be blank, since both stand in the audit. */
export interface Decider {
  readonly by: string;
  readonly reason: string;
}

const said = (what: string) =>
  z.string({ error: `expected text: ${what}` }).refine((text) => text.trim() !== '', {
    error: `expected text that is not blank: ${what}`,
  });

// Not strict: options of a replay carry more.
const schema = z.object(
  { by: said('who asks'), reason: said('why') },
  { error: `expected { by, reason }: a name, and the reason` },
);

/**
 * Refuses a missing decider. Callers in plain JavaScript may forget it, and the audit needs it.
 * @throws InputRefused
 */
export function checkDecider(decider: Decider): void {
  checkInput(schema, decider, 'decider');
}
