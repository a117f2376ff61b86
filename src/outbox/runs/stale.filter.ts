import { types } from 'node:util';
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import type { WebhookEvent } from '../../core/event.js';
import { refuseLazy } from '../../core/lazy.js';
import { logLine } from '../../core/log/log.js';
import { firstName, type Handler } from '../../handlers/handler.registry.js';
import { orderKey } from '../../handlers/order-key.js';
import { WatermarkStore } from '../../storage/watermark.store.js';

/** `skipStale`: whether something newer of the event's resource has been handled. */
@Injectable()
export class StaleFilter {
  private readonly logger = new InboxLogger();
  /** Handlers whose `at` returned no valid time. Each is logged once. */
  private readonly warned = new Set<string>();

  constructor(
    private readonly watermarks: WatermarkStore,
    private readonly alerts: Alerts,
  ) {}

  /** Raises the mark of the event's resource, as the first statement of the handler's transaction. */
  async raiseMark(manager: EntityManager, handler: Handler, event: WebhookEvent): Promise<boolean> {
    const { skipStale } = handler.options;
    if (skipStale === undefined) return false;
    const at = this.timeOf(handler, event);
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

  /** As without a time where `at` gives none that is valid: PostgreSQL would refuse it at each attempt, until the event is dead. */
  private timeOf(handler: Handler, event: WebhookEvent): Date | undefined {
    const skipStale = handler.options.skipStale!;
    if (skipStale.at === undefined) return event.occurredAt;
    const time: unknown = skipStale.at.call(handler.instance, event);
    refuseLazy(time, `skipStale.at of ${handler.name}`);
    if (types.isDate(time) && !Number.isNaN(time.getTime())) return time;
    if (time != null && !this.warned.has(handler.name)) {
      this.warned.add(handler.name);
      const { source, tenant, eventId } = event;
      // Not what it gave, which may be the payload's.
      const received = types.isDate(time) ? 'an invalid Date' : typeof time;
      this.logger.warn(
        logLine(
          `skipStale.at: expected a Date or undefined, received ${received}; such events run and move no mark`,
          { source, tenant, event: eventId, name: handler.name },
        ),
      );
    }
    return undefined;
  }
}
