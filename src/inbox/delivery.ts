import { hash } from 'node:crypto';
import { BodyReader } from '../core/body.js';
import { eventId, uuidV7 } from '../core/ids.js';
import { byKey, eventType, storable, type EventKey } from '../core/event.js';
import type { EventIdentity } from '../core/provider.js';
import type { Facts } from '../core/log/log.js';
import type { WebhookRequest } from '../core/request.js';
import { currentTrace } from '../core/telemetry/tracing.js';
import type { Source } from '../core/options/resolve-source.js';
import type { SearchValue } from '../storage/new-claim.js';

/** A request whose signature was right. Nothing of it is believed before. */
export interface VerifiedDelivery {
  readonly source: Source;
  readonly request: WebhookRequest;
  readonly body: BodyReader;
  readonly tenant: string;
  /** Which secret verified, as its fingerprint. */
  readonly verifiedBy: string;
  /** The signed time lies outside the window: only a duplicate of a known event is accepted. */
  readonly stale: boolean;
  /** How far the signed time lies from now in milliseconds: positive in the past. */
  readonly skewMs?: number;
}

/** One event of a delivery, before it is known whether it is new. */
export interface IncomingEvent extends EventKey {
  /** Our id, should the event be new. */
  readonly id: string;
  readonly type: string;
  readonly occurredAt?: Date;
  readonly verifiedBy: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Why the item of a batch has no usable id of its own. */
  readonly unusable?: string;
  /** Of the delivery. */
  readonly trace?: string;
  /** Other bytes that the same delivery brought under the same id. */
  readonly others: readonly Buffer[];
}

/**
 * The events of a delivery, sorted by key and each once.
 * @throws EventIdUnusable where a single event has no usable id
 */
export function incomingEvents(delivery: VerifiedDelivery): IncomingEvent[] {
  const { source, request, body, tenant, verifiedBy } = delivery;
  const headers = storableHeaders(request.headers.pick(source.keepHeaders));
  const trace = currentTrace();
  const events = new Map<string, IncomingEvent & { readonly others: Buffer[] }>();
  for (const identity of source.provider.identify(request, body)) {
    const id = eventId(identity.id, `the event id of source '${source.name}'`);
    const bytes = identity.body ?? request.rawBody;
    const first = events.get(id);
    if (first !== undefined) {
      if (!first.body.equals(bytes)) first.others.push(bytes);
      continue;
    }
    events.set(id, {
      source: source.name,
      tenant,
      eventId: id,
      id: uuidV7(),
      type: eventType(identity.type),
      occurredAt: usableDate(identity),
      verifiedBy,
      headers,
      body: bytes,
      unusable: identity.unusable,
      trace,
      others: [],
    });
  }
  return [...events.values()].sort(byKey);
}

/** The hash of the body. It is not kept with the event: a new event with a signed id does not need it. */
export function bodySha256({ body }: Pick<IncomingEvent, 'body'>): Buffer {
  return hash('sha256', body, 'buffer');
}

/** The facts on the log lines about a delivery. Each event has a line, since one line could not hold a hundred ids. */
export function deliveryFacts(delivery: VerifiedDelivery): Facts[] {
  const facts = { source: delivery.source.name, tenant: delivery.tenant };
  try {
    const events = incomingEvents(delivery);
    return events.length === 0 ? [facts] : events.map(({ eventId }) => ({ ...facts, event: eventId }));
  } catch {
    return [facts];
  }
}

/** `inbox.receive(…)` may be given what no HTTP server lets through, and jsonb refuses. */
function storableHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in headers) kept[name] = storable(headers[name]!, Infinity);
  return kept;
}

// PostgreSQL and JavaScript agree on these years; anything else is a provider's mistake and no reason to lose the event.
function usableDate({ occurredAt }: EventIdentity): Date | undefined {
  const year = occurredAt?.getUTCFullYear() ?? Number.NaN;
  return year >= 1970 && year < 10_000 ? occurredAt : undefined;
}

/** Bytes of a value: longer ones are found by their start. */
const MAX_VALUE_BYTES = 255;
/** Of a list, so many. */
const MAX_VALUES = 20;

/** By what an event can be found: texts, numbers and booleans at the source's `searchPaths`, and those in a list there. */
export function searchValues({ searchPaths }: Source, body: Buffer): SearchValue[] {
  if (searchPaths.length === 0) return [];
  const reader = new BodyReader(body);
  return searchPaths.flatMap((path) => {
    const at = reader.at(path);
    const texts = Array.isArray(at)
      ? at.slice(0, MAX_VALUES).map(textOf)
      : [reader.textAt(path) ?? textOf(at)];
    const values = texts.flatMap((text) => (text ? [storable(text, MAX_VALUE_BYTES)] : []));
    return [...new Set(values)].map((value) => ({ path, value }));
  });
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
