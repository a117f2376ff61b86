import { BodyReader } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { eventId, eventIdAt } from '../../core/ids.js';
import type { WebhookRequest } from '../../core/request.js';
import { composeId, dedupeId, type DedupeKey } from './dedupe-key.js';
import { eventTime } from './event-time.js';
import { jsonItems } from './json-items.js';

/** One event of a verified request, before its dedupe key is chosen. */
export interface ReceivedEvent {
  /**
   * The provider's own choice of id.
   * @throws EventIdUnusable
   */
  readonly presetId: () => string;
  readonly type: string;
  readonly occurredAt?: Date;
  /** Exact slice of a batched body. @default the whole body */
  readonly slice?: Buffer;
}

/** Finds the events of a verified request; none when it is a ping. */
export type EventsReader = (request: WebhookRequest, body: BodyReader) => readonly ReceivedEvent[];

/** The type of an event whose type is absent or unreadable: handlers of '*' still get it. */
const UNTYPED = 'unknown';

/** An event type as text that a column and a log line can hold. */
export function eventType(value: unknown): string {
  return typeof value === 'string' &&
    /^[^\u0000-\u001f\u007f-\u009f]{1,200}$/.test(value) &&
    value.isWellFormed()
    ? value
    : UNTYPED;
}

/** One name, or several. The first header that is present counts. */
export type HeaderName = string | readonly string[];

/** Where a request says what it is about. Paths are dotted, from the body's root or, with `eventsPath`, from each item. */
export interface EventFields {
  /** Header that holds the event's id. */
  readonly idHeader?: HeaderName;
  /** Path of the event's id; several paths make one id together. */
  readonly idPath?: string | readonly string[];
  /** Header that holds the event's type. */
  readonly typeHeader?: HeaderName;
  /** Path of the event's type; the texts of several paths are joined by dots: `invoice` and `paid` become `invoice.paid`. */
  readonly typePath?: string | readonly string[];
  /** Path of the time at which the event happened: ISO 8601, seconds or milliseconds. */
  readonly timePath?: string;
  /**
   * Path of the array when one body carries several events: `events`, `entry.*.changes`, or '' when the body is the array.
   * Each item becomes an event of its own, with its exact bytes.
   */
  readonly eventsPath?: string;
}

/** For vendors without an event id: the fields that identify an event instead. */
export interface KeyedFields extends EventFields {
  readonly idKey?: Exclude<DedupeKey, 'preset'>;
  /** Makes an event one where the vendor sends some without an id: refused, they would be lost. */
  readonly idFallback?: (body: BodyReader, request: WebhookRequest) => string;
}

/** Reads events by header names and paths. */
export function eventFields(fields: KeyedFields): EventsReader {
  return (request, body) => {
    if (fields.eventsPath === undefined) return [readEvent(fields, request, body)];
    return jsonItems(body, fields.eventsPath).map((slice) => ({
      ...readEvent(fields, request, new BodyReader(slice)),
      slice,
    }));
  };
}

/** The first of several headers that is there. */
export function headerValue(request: WebhookRequest, name: HeaderName): string | undefined {
  for (const one of [name].flat()) {
    const value = request.headers.one(one);
    if (value !== undefined) return value;
  }
  return undefined;
}

function readEvent(fields: KeyedFields, request: WebhookRequest, body: BodyReader): ReceivedEvent {
  const type = eventType(readType(fields, request, body));
  return {
    presetId: () => readId(fields, type, request, body),
    type,
    occurredAt: fields.timePath === undefined ? undefined : eventTime(body.at(fields.timePath)),
  };
}

function readId(
  { idHeader, idPath, idKey, idFallback }: KeyedFields,
  type: string,
  request: WebhookRequest,
  body: BodyReader,
): string {
  if (idFallback !== undefined && hasNoId(idHeader, idPath, request, body)) return idFallback(body, request);
  if (idHeader !== undefined)
    return eventId(headerValue(request, idHeader), `${[idHeader].flat().join(' or ')} header`);
  if (typeof idPath === 'string') return eventIdAt(body, idPath);
  if (idPath !== undefined) return composeId(idPath.map((path) => eventIdAt(body, path)));
  return dedupeId(idKey ?? 'preset', { presetId: NO_PRESET, type }, request, body);
}

const NO_PRESET = (): never => {
  throw new EventIdUnusable('this source has no event id of its own: choose one with `dedupe`');
};

/** Absent or null: an id that is there and cannot be used stays refused. */
function hasNoId(
  idHeader: HeaderName | undefined,
  idPath: KeyedFields['idPath'],
  request: WebhookRequest,
  body: BodyReader,
): boolean {
  if (idHeader !== undefined) return headerValue(request, idHeader) === undefined;
  // An item that is no object is no event of the vendor's.
  const isObject = body.json() instanceof Object && !Array.isArray(body.json());
  return isObject && [idPath ?? []].flat().some((path) => (body.at(path) ?? null) === null);
}

function readType(
  { typeHeader, typePath }: EventFields,
  request: WebhookRequest,
  body: BodyReader,
): string | undefined {
  if (typeHeader !== undefined) return headerValue(request, typeHeader);
  if (typePath === undefined) return undefined;
  if (typeof typePath === 'string') return body.textAt(typePath);
  const parts = typePath.flatMap((path) => body.textAt(path) ?? []);
  return parts.length === 0 ? undefined : parts.join('.');
}
