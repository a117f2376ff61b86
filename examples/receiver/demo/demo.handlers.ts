import { Injectable, Module, type DynamicModule } from '@nestjs/common';
import { OnEffect, OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';

/** Few and quick attempts: what fails here stays failed, and is to be seen at once. */
const retry = { base: 50, cap: 200, maxAttempts: 3 };

interface Grant {
  readonly grant: string;
  readonly account?: { readonly id: string };
}

/** Has a mistake that a real event brings to light: a grant without an account. */
@Injectable()
class GrantsRevoked {
  @OnWebhook<Grant>('awardee', 'grant.revoked', { name: 'revoke-grant', retry })
  async revoke({ payload }: WebhookEvent<Grant>, { manager }: HandlerContext) {
    await manager.query('SELECT $1', [payload.account!.id]);
  }
}

/** One of its two effects is refused for good, and the other one is done. */
@Injectable()
class OrdersPaid {
  @OnWebhook('awardee', 'order.paid', { name: 'confirm-order' })
  async confirm({ payload }: WebhookEvent, { enqueue }: HandlerContext) {
    await enqueue('receipt', payload);
    await enqueue('loyalty-points', payload);
  }

  @OnEffect('receipt')
  receipt() {
    return 'sent';
  }

  @OnEffect('loyalty-points', { retry })
  points() {
    throw Object.assign(new Error('the loyalty service answered 422: unknown customer'), { status: 422 });
  }
}

/** The bank answers too late, and it may have paid: a person decides. */
@Injectable()
class Payouts {
  @OnWebhook('awardee', 'payout.requested', { name: 'request-payout' })
  async request({ payload }: WebhookEvent, { enqueue }: HandlerContext) {
    await enqueue('pay-out', payload);
  }

  @OnEffect('pay-out', { inDoubt: 'park', timeout: '300ms', retry: { ...retry, maxAttempts: 2 } })
  payOut() {
    return new Promise<never>(() => undefined);
  }
}

/** As it was called in the release before; its work waits for a second attempt. */
@Injectable()
class FormerShipping {
  @OnWebhook('awardee', 'order.packed', { name: 'ship-order', retry: { base: '1h', cap: '1h' } })
  ship() {
    throw new Error('the carrier does not answer');
  }
}

/** Renamed without `was`: the waiting row of the former name has no handler any more. */
@Injectable()
class Shipping {
  @OnWebhook('awardee', 'order.packed', { name: 'dispatch-order' })
  dispatch() {
    return 'dispatched';
  }
}

/** Handlers that fail in ways that production knows, for the tour of the dashboard. Not for production. */
@Module({})
export class DemoModule {
  static of(release: '1' | '2'): DynamicModule {
    return {
      module: DemoModule,
      providers: [GrantsRevoked, OrdersPaid, Payouts, release === '1' ? FormerShipping : Shipping],
    };
  }
}
