import { applyDecorators, Injectable, type Type } from '@nestjs/common';
import { OnWebhook, type BusinessRecord, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { FirstAttempts } from './first.attempts.js';
import { NOTIFY } from './notify.effect.js';
import { ReceivedEvent } from './received-event.entity.js';

const APPLY = `
  INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)
      ON CONFLICT (source, event_id) DO UPDATE SET applied_count = received_event.applied_count + 1`;

/** Names the entity, so the reconciler runs the handler again where the record of a handled event is gone. */
const RECORD: BusinessRecord = {
  entity: ReceivedEvent,
  where: ({ source, eventId }) => ({ source, eventId }),
};

/**
 * A handler for every event of every source. Decorators run when their class is defined, and here the sources are known only when
 * the environment has been read: so the class is defined in a function. With fixed sources, write `@OnWebhook('stripe', '*')`.
 */
export function receivedEventHandlers(sources: readonly string[]): Type {
  @Injectable()
  class ReceivedEventHandlers {
    constructor(private readonly firstAttempts: FirstAttempts) {}

    @applyDecorators(...sources.map((source) => OnWebhook(source, '*', { businessRecord: RECORD })))
    async record(event: WebhookEvent, { manager, enqueue, attempt }: HandlerContext) {
      const { source, eventId, type } = event;
      await manager.query(APPLY, [source, eventId, type]);
      await enqueue(NOTIFY, { source, eventId, type });
      this.firstAttempts.failSome(event, attempt);
      return 'recorded';
    }
  }
  return ReceivedEventHandlers;
}
