import { PermanentError } from '../core/errors.js';
import type { WebhookEvent } from '../core/event.js';
import { parsePayload } from '../core/payload.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { StoredEvent } from '../storage/outbox.store.js';

/**
 * An event as user code gets it, from what is stored.
 * @throws PermanentError when the body has gone or cannot be read
 */
export function webhookEvent(
  { body, ...stored }: StoredEvent,
  options: Pick<ResolvedOptions, 'sources'>,
): WebhookEvent {
  if (body === null) throw new PermanentError('the body was removed, by retention or by a person');
  const contentType = stored.headers['content-type'];
  const provider = options.sources.get(stored.source)?.provider;
  const payload = provider?.parse ? provider.parse(body, contentType) : parsePayload(body, contentType);
  return { ...stored, rawBody: body, payload };
}
