// Checked by `npm run typecheck`, not run: which methods `@OnWebhook` with `batch` takes.
import { applyDecorators } from '@nestjs/common';
import {
  OnWebhook,
  type BatchContext,
  type BatchEvent,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';

interface Order {
  readonly id: string;
}

export class BatchHandlers {
  @OnWebhook('shop', 'a', { batch: 50 })
  async events(events: readonly BatchEvent<Order>[], context: BatchContext): Promise<void> {
    await events[0]!.enqueue('mail', context.manager);
  }

  @OnWebhook<Order>('shop', 'b', { batch: 50, key: ({ payload }) => payload.id })
  async eventsAlone(events: BatchEvent<Order>[]): Promise<number> {
    return events.length;
  }

  @applyDecorators(OnWebhook('shop', 'c', { batch: 50 }) as MethodDecorator)
  async composed(events: readonly BatchEvent<Order>[]): Promise<number> {
    return events.length;
  }

  // @ts-expect-error it gets several events
  @OnWebhook('shop', 'd', { batch: 50 })
  async one(event: WebhookEvent<Order>): Promise<string> {
    return event.eventId;
  }

  // @ts-expect-error whose effect it would be is not known: each event brings its own `enqueue`
  @OnWebhook('shop', 'e', { batch: 50 })
  async others(events: readonly BatchEvent<Order>[], { enqueue }: HandlerContext): Promise<void> {
    await enqueue('mail', events.length);
  }
}
