import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { firstName, type Handler } from '../../handlers/handler.registry.js';
import { orderKey } from '../../handlers/order-key.js';
import type { StoredEvent } from '../../storage/stored-event.js';
import type { OrderKey } from '../../storage/turn.store.js';
import { EventPreparer } from '../runs/event.preparer.js';

/** The order key of an event for a handler. */
@Injectable()
export class OrderKeys {
  private readonly logger = new InboxLogger();

  constructor(private readonly preparer: EventPreparer) {}

  /** Undefined without a `key` option, or when the `key` function fails. The event is kept all the same and runs without order. */
  of(handler: Handler, stored: StoredEvent): OrderKey | undefined {
    const { options } = handler;
    if (options.key === undefined) return undefined;
    try {
      const event = this.preparer.parse(stored);
      const key = orderKey(() => options.key!.call(handler.instance, event));
      return key === undefined ? undefined : { name: firstName(handler), key };
    } catch (error) {
      const facts = {
        source: stored.source,
        tenant: stored.tenant,
        event: stored.eventId,
        name: handler.name,
      };
      this.logger.warn(logLine(`no order key, so the event runs without order: ${errorText(error)}`, facts));
      return undefined;
    }
  }
}
