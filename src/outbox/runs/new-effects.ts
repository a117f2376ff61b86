import { WebhookInboxError } from '../../core/errors.js';
import type { NamedEffect } from '../../storage/leased-rows.js';
import type { UserTransaction } from '../../storage/postgres/user-transaction.js';
import type { RunEnqueue } from '../enqueue/run-enqueue.js';

/**
 * A handler that was done for its event ran again and would enqueue effects for the first time. Its run is rolled back: such an effect
 * may be one that was done under another name or key.
 */
export class NewEffectsRefused extends WebhookInboxError {
  constructor(readonly effects: readonly NamedEffect[]) {
    const names = [...new Set(effects.map(({ name }) => `'${name}'`))].join(', ');
    super(
      'NEW_EFFECTS_REFUSED',
      `the handler was done for this event and would now enqueue ${names} for the first time; nothing was done. ` +
        `To allow it, replay the event with newEffects: 'allow'`,
    );
  }
}

/**
 * Asked after the user's code and before the settle, so that this code cannot catch it.
 * @throws NewEffectsRefused
 */
export async function refuseNewEffects(
  transaction: UserTransaction,
  runs: readonly RunEnqueue[],
): Promise<void> {
  for (const run of runs) {
    if (!run.hasAdded) continue;
    const refused = await transaction.asOurs((ours) => run.refusedEffects(ours));
    if (refused.length > 0) throw new NewEffectsRefused(refused);
  }
}
