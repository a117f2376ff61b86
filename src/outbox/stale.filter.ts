import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Alerts } from '../core/alerts.js';
import type { WebhookEvent } from '../core/event.js';
import { firstName, type Handler } from '../handlers/handler.registry.js';
import { orderKey } from '../handlers/order-key.js';
import { WatermarkStore } from '../storage/watermark.store.js';

/** `skipStale`: whether something newer of the event's resource has been handled. */
@Injectable()
export class StaleFilter {
  constructor(
    private readonly watermarks: WatermarkStore,
    private readonly alerts: Alerts,
  ) {}

  /** Raises the mark of the event's resource, as the first statement of the handler's transaction. */
  async isStale(manager: EntityManager, handler: Handler, event: WebhookEvent): Promise<boolean> {
    const { skipStale } = handler.options;
    if (skipStale === undefined) return false;
    const at = skipStale.at ? skipStale.at.call(handler.instance, event) : event.occurredAt;
    const key = orderKey(() => skipStale.key.call(handler.instance, event));
    if (at === undefined || key === undefined) return false;
    const { source, tenant, eventId } = event;
    const mark = { handler: firstName(handler), source, tenant, key };
    const raised = await this.watermarks.raise(manager, mark, at);
    if (raised === 'future') {
      const told = { source, tenant, eventId };
      this.alerts.raise({ kind: 'future-time', name: handler.name, at: at.toISOString(), event: told });
    }
    return raised === 'stale';
  }
}
