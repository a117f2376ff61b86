import { retryWindowMs, type Source } from './resolve-source.js';

const WHILE_DOWN =
  'Deliveries that it sends while this application is down come again only if a person resends them, or @BackfillSource lists them';

/**
 * Warnings about options that are allowed, but are mostly a mistake. They are logged at boot.
 * @param waits whether answers of the source wait for inline handlers
 * @param routes names of its routes with `@UseWebhook`; answers wait for these too
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
      `source '${name}': the route ${routes.join(', ')} (@UseWebhook) needs a redelivery after a failure, and ${provider.name} ` +
        `sends none by itself: a person must resend the event. Expected @OnWebhook, which is retried here. ${WHILE_DOWN}`,
    );
  }
  if (retries === 'provider' && !provider.retries.automatic) {
    said.push(
      `source '${name}': retries: 'provider' needs a redelivery after a failure, and ${provider.name} sends none by itself: ` +
        `the event waits until a person resends it, or ${provider.name}'s window is over. Expected retries: 'own'. ${WHILE_DOWN}`,
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
      `source '${name}': ${provider.name} may retry for ${retryWindowMs(provider)} ms with the time of its first attempt, and 'tolerance' is ` +
        `${toleranceMs} ms. An application that missed the first attempt refuses these retries. Expected a tolerance as long; ` +
        `a captured request is then accepted as long`,
    );
  }
  return said;
}
