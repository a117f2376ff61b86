import { BodyReader } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { eventIdAt } from '../../core/ids.js';
import { contentHash } from '../events/content-hash.js';
import { composeId } from '../events/dedupe-key.js';
import { eventTime } from '../events/event-time.js';
import { jsonItems } from '../events/json-items.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';

/** The unit of an event: a message or status inside a change, or the change with all its content. */
export type MetaEventUnit = 'item' | 'change';

/**
 * The events of a Meta body, three levels down: entries hold changes (or messaging items), and WhatsApp's changes hold
 * messages and statuses. Reading the first of each only would lose the rest without a word.
 * @throws EventIdUnusable when the body has no `entry`
 */
export function metaEvents(body: BodyReader, unit: MetaEventUnit): ReceivedEvent[] {
  const object = eventType(body.at('object'));
  return jsonItems(body, 'entry').flatMap((slice) => {
    const entry = new BodyReader(slice);
    const events = [
      ...optionalItems(entry, 'changes').flatMap((change) => changeEvents(object, change, unit)),
      ...['messaging', 'standby'].flatMap((path) =>
        optionalItems(entry, path).map((item) => messagingEvent(object, path, item)),
      ),
    ];
    return events.length > 0 ? events : [wholeEntry(object, entry)];
  });
}

/** One that says what changed and not how: `changed_fields`. */
function wholeEntry(object: string, entry: BodyReader): ReceivedEvent {
  return {
    presetId: () => {
      if (entry.at('time') === undefined) throw new EventIdUnusable('the entry holds no event, and no time');
      return contentHash(entry, 'body');
    },
    type: eventType(`${object}.entry`),
    occurredAt: eventTime(entry.at('time')),
    slice: entry.bytes,
  };
}

function changeEvents(object: string, slice: Buffer, unit: MetaEventUnit): ReceivedEvent[] {
  const change = new BodyReader(slice);
  const inner = [
    ...optionalItems(change, 'value.messages').map((item) => whatsAppMessage(item)),
    ...optionalItems(change, 'value.statuses').map((item) => whatsAppStatus(item)),
  ];
  if (inner.length > 0 && unit === 'item') return inner;
  return [
    {
      presetId: () =>
        inner.length > 0 ? composeId(inner.map((event) => event.presetId())) : contentHash(change, 'body'),
      type: eventType(`${object}.${change.textAt('field') ?? 'change'}`),
      occurredAt: eventTime(change.at('value.timestamp')),
      slice,
    },
  ];
}

function whatsAppMessage(slice: Buffer): ReceivedEvent {
  const message = new BodyReader(slice);
  return {
    presetId: () => eventIdAt(message, 'id'),
    type: 'messages',
    occurredAt: eventTime(message.at('timestamp')),
    slice,
  };
}

function whatsAppStatus(slice: Buffer): ReceivedEvent {
  const status = new BodyReader(slice);
  return {
    presetId: () => composeId([eventIdAt(status, 'id'), eventIdAt(status, 'status')]),
    type: 'statuses',
    occurredAt: eventTime(status.at('timestamp')),
    slice,
  };
}

function messagingEvent(object: string, path: string, slice: Buffer): ReceivedEvent {
  const item = new BodyReader(slice);
  return {
    presetId: () =>
      item.at('message.mid') === undefined ? contentHash(item, 'body') : eventIdAt(item, 'message.mid'),
    type: eventType(`${object}.${path}`),
    occurredAt: eventTime(item.at('timestamp')),
    slice,
  };
}

function optionalItems(body: BodyReader, path: string): Buffer[] {
  return Array.isArray(body.at(path)) ? jsonItems(body, path) : [];
}
