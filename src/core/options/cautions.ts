import { retryWindowMs, type Source } from './resolve-source.js';

const WHILE_DOWN =
  'What it sends while this application is down comes again only if a person has it sent, or by @BackfillSource';

/**
 * What may be meant, but is a mistake more often; told at boot.
 * @param waits whether answers of the source wait for inline handlers
 * @param routes names of its routes with `@UseWebhook`: answers wait for these too
 */
export function cautions(
  { name, provider, secrets, retries, ackTimeoutMs, toleranceMs }: Source,
  { waits = false, routes = [] }: { readonly waits?: boolean; readonly routes?: readonly string[] } = {},
): string[] {
  const said: string[] = [];
  for (const [index, secret] of (typeof secrets === 'function' ? [] : secrets).entries()) {
    const doubt = provider.doubtSecret?.(secret);
    if (doubt !== undefined) said.push(`source '${name}': secrets.${index} ${doubt}`);
  }
  if (routes.length > 0 && !provider.retries.automatic) {
    said.push(
      `source '${name}': the route ${routes.join(', ')} (@UseWebhook) leaves a failed event to the redeliveries of ${provider.name}, which ` +
        `sends none by itself: it waits until a person has it sent again. Expected @OnWebhook, which is retried here. ${WHILE_DOWN}`,
    );
  }
  if (retries === 'provider' && !provider.retries.automatic) {
    said.push(
      `source '${name}': retries: 'provider' leaves a failed event to the redeliveries of ${provider.name}, which sends none by itself: ` +
        `it waits until a person has it sent again, or ${provider.name}'s window is over. Expected retries: 'own'. ${WHILE_DOWN}`,
    );
  }
  const patienceMs = provider.ackTimeoutMs;
  if (
    (retries === 'provider' || waits || routes.length > 0) &&
    patienceMs !== undefined &&
    ackTimeoutMs >= patienceMs
  ) {
    said.push(
      `source '${name}': an answer may wait ${ackTimeoutMs} ms for handlers, and ${provider.name} gives up after ${patienceMs} ms and counts ` +
        `the delivery as failed. Expected an ackTimeout below that`,
    );
  }
  if (
    provider.retries.sameTimestamp === true &&
    toleranceMs !== undefined &&
    toleranceMs < retryWindowMs(provider)
  ) {
    said.push(
      `source '${name}': ${provider.name} may retry with the time of its first attempt for ${retryWindowMs(provider)} ms, and 'tolerance' is ` +
        `${toleranceMs} ms: what was down when the first came refuses the retries of an event it does not know. Expected a tolerance as long ` +
        `as that, at the price that a captured request is accepted for as long`,
    );
  }
  return said;
}
