import { Injectable, Logger } from '@nestjs/common';
import { errorText, logLine } from '../core/log.js';
import type { Handler } from '../handlers/handler.registry.js';
import { orderKey } from '../handlers/order-key.js';
import type { StoredEvent } from '../storage/stored.event.js';
import { EventPreparer } from './event.preparer.js';

/** The order key of an event for a handler. */
@Injectable()
export class OrderKeys {
  private readonly logger = new Logger('WebhookInbox');

  constructor(private readonly preparer: EventPreparer) {}

  /** Undefined without a `key` option, and where the key cannot be had: the event is kept all the same, and runs without order. */
  of(handler: Handler, stored: StoredEvent): string | undefined {
    const { options } = handler;
    if (options.key === undefined) return undefined;
    try {
      const event = this.preparer.parse(stored);
      return orderKey(() => options.key!.call(handler.instance, event));
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
