import { z } from 'zod';
import type { EventKey } from '../../core/event.js';
import { InputRefused } from '../../core/errors.js';
import { checkInput } from '../../core/options/schema.js';
import { EVENT_STATES } from '../../core/states.js';
import type { EventCriteria } from '../../storage/desk/replay.store.js';

/** Events named one by one (`tenant` is '' unless given), or by what they have in common, `limit` at most. */
export type ReplaySelection =
  | { readonly events: readonly (Omit<EventKey, 'tenant'> & { readonly tenant?: string })[] }
  | (EventCriteria & {
      /** @default 1000 */
      readonly limit?: number;
      /** Every event there is: said, since an empty selection is more often a mistake. @default false */
      readonly all?: boolean;
    });

const named = z.strictObject({
  // Keys that came from a query may carry more, such as our id.
  events: z.array(z.object({ source: z.string(), tenant: z.string().optional(), eventId: z.string() })),
});
const criteria = z.strictObject({
  source: z.string().optional(),
  tenant: z.string().optional(),
  type: z.string().optional(),
  state: z.enum(EVENT_STATES).optional(),
  from: z.date().optional(),
  to: z.date().optional(),
  limit: z.int().positive().optional(),
  all: z.boolean().optional(),
});

/**
 * A misspelt criterion would select everything.
 * @throws InputRefused with one line for each fault: path, expected, received
 */
export function checkSelection(selection: ReplaySelection): void {
  checkInput('events' in selection ? named : criteria, selection, 'selection');
  if ('events' in selection || selection.all === true) return;
  const { limit: _limit, all: _all, ...rest } = selection;
  if (Object.values(rest).every((value) => value === undefined)) {
    throw new InputRefused(
      'selection: expected at least one of source, tenant, type, state, from, to, received none; say { all: true } for every event',
    );
  }
}
