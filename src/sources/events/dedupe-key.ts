import type { BodyReader } from '../../core/body.js';
import { eventId, eventIdAt } from '../../core/ids.js';
import type { WebhookRequest } from '../../core/request.js';
import { contentHash } from './content-hash.js';

/**
 * The key that makes two deliveries the same event.
 * - `'preset'`: the key of the provider's documentation (docs/sources.md shows it, and its unstable parts)
 * - `{ header }`: a header's value; it is the same for every event of a batched body
 * - `{ path }`: text or a number at a dotted path of the body, or of the event's part of a batched body
 * - `{ hash: 'body' }`: SHA-256 of the event's exact bytes
 * - `{ hash: ['data.id', …] }`: SHA-256 of the chosen fields in a canonical form, for a vendor that sends one event under
 *   several ids. Equal content can be two events, so choose fields that distinguish them.
 * - a function of the event
 * - an array: all of these together
 */
export type DedupeKey =
  | 'preset'
  | { readonly header: string }
  | { readonly path: string }
  | { readonly hash: 'body' | readonly string[] }
  | DedupeFunction
  | readonly DedupeKey[];

/** Runs after verification. Its result must be 1..255 bytes without control characters; longer ones are stored as their SHA-256. */
export type DedupeFunction = (event: DedupeInput) => string;

/** The argument of a `dedupe` function. */
export interface DedupeInput {
  readonly request: WebhookRequest;
  /** The event's JSON, or undefined when the body is not JSON. */
  readonly payload: unknown;
  readonly type: string;
}

/** The part of a received event that a key may be made of. */
interface Keyed {
  readonly presetId: () => string;
  readonly type: string;
}

/**
 * The event id that a dedupe key gives.
 * @throws EventIdUnusable
 */
export function dedupeId(key: DedupeKey, event: Keyed, request: WebhookRequest, body: BodyReader): string {
  if (key === 'preset') return event.presetId();
  if (typeof key === 'function')
    return eventId(key({ request, payload: body.json(), type: event.type }), 'dedupe');
  if (isComposite(key)) return composeId(key.map((part) => dedupeId(part, event, request, body)));
  if ('header' in key) return eventId(request.headers.one(key.header), key.header);
  return 'path' in key ? eventIdAt(body, key.path) : contentHash(body, key.hash);
}

/** Parts joined so that ['a:b', 'c'] and ['a', 'b:c'] stay two keys; a long result is stored as its hash. */
export function composeId(parts: readonly string[]): string {
  return eventId(parts.map((part) => part.replaceAll('%', '%25').replaceAll(':', '%3A')).join(':'), 'dedupe');
}

/** Array.isArray does not narrow a readonly array out of a union. */
export function isComposite(key: DedupeKey): key is readonly DedupeKey[] {
  return Array.isArray(key);
}
