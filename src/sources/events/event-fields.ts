import { BodyReader } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { eventId, eventIdAt } from '../../core/event-id.js';
import type { WebhookRequest } from '../../core/request.js';
import { jsonItems } from './json-items.js';
import { eventTime } from './event-time.js';
import { eventType, type EventsReader, type ReceivedEvent } from './received-event.js';

/** Where a request says what it is about. Paths are dotted, from the body's root or, with `eventsPath`, from each item. */
export interface EventFields {
  /** Header that holds the event's id; of several, the first that is there. */
  readonly idHeader?: HeaderName;
  /** Path of the event's id. */
  readonly idPath?: string;
  /** Header that holds the event's type; of several, the first that is there. */
  readonly typeHeader?: HeaderName;
  /** Path of the event's type. */
  readonly typePath?: string;
  /** Path of the time at which the event happened: ISO 8601, seconds or milliseconds. */
  readonly timePath?: string;
  /**
   * Path of the array when one body carries several events: `events`, `entry.*.changes`, or '' when the body is the array.
   * Each item becomes an event of its own, with its exact bytes.
   */
  readonly eventsPath?: string;
}

export type HeaderName = string | readonly string[];

/** Reads events by header names and paths. */
export function eventFields(fields: EventFields): EventsReader {
  return (request, body) => {
    if (fields.eventsPath === undefined) return [readEvent(fields, request, body)];
    return jsonItems(body, fields.eventsPath).map((slice) => ({
      ...readEvent(fields, request, new BodyReader(slice)),
      slice,
    }));
  };
}

function readEvent(fields: EventFields, request: WebhookRequest, body: BodyReader): ReceivedEvent {
  return {
    presetId: () => readId(fields, request, body),
    type: eventType(
      fields.typeHeader !== undefined
        ? headerValue(request, fields.typeHeader)
        : fields.typePath === undefined
          ? undefined
          : body.textAt(fields.typePath),
    ),
    occurredAt: fields.timePath === undefined ? undefined : eventTime(body.at(fields.timePath)),
  };
}

function readId({ idHeader, idPath }: EventFields, request: WebhookRequest, body: BodyReader): string {
  if (idHeader !== undefined)
    return eventId(headerValue(request, idHeader), `${[idHeader].flat().join(' or ')} header`);
  if (idPath !== undefined) return eventIdAt(body, idPath);
  throw new EventIdUnusable('this source has no event id of its own: choose one with `dedupe`');
}

function headerValue(request: WebhookRequest, name: HeaderName): string | undefined {
  for (const one of [name].flat()) {
    const value = request.headers.one(one);
    if (value !== undefined) return value;
  }
  return undefined;
}
