import type { EffectMessage } from '../core/options/effect-transport.js';

/** The facts of a log line about a message, as those about a row of the outbox have them. */
export function messageFacts({ id, effect, event }: EffectMessage, attempt?: number) {
  return {
    source: event?.source,
    tenant: event?.tenant,
    event: event?.eventId,
    outbox: id,
    name: effect,
    attempt,
  };
}
