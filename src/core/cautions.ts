import type { Source } from './resolve-source.js';

/**
 * What may be meant, but is a mistake more often; told at boot.
 * @param waits whether answers of the source wait for work: inline handlers, or routes with `@UseWebhook`
 */
export function cautions({ name, provider, retries, ackTimeoutMs }: Source, waits: boolean): string[] {
  const said: string[] = [];
  if (retries === 'provider' && !provider.retries.automatic) {
    said.push(
      `source '${name}': retries: 'provider' leaves a failed event to the redeliveries of ${provider.name}, which sends none by itself: ` +
        `it waits until a person has it sent again, or ${provider.name}'s window is over. Expected retries: 'own'`,
    );
  }
  const patienceMs = provider.ackTimeoutMs;
  if ((retries === 'provider' || waits) && patienceMs !== undefined && ackTimeoutMs >= patienceMs) {
    said.push(
      `source '${name}': an answer may wait ${ackTimeoutMs} ms for handlers, and ${provider.name} gives up after ${patienceMs} ms and counts ` +
        `the delivery as failed. Expected an ackTimeout below that`,
    );
  }
  return said;
}
