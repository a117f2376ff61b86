import { Injectable } from '@nestjs/common';
// In your application: 'nestjs-webhook-inbox'.
import {
  OnEffect,
  OnWebhook,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { ShopOrder } from './orders.entities.js';
import { Warehouse } from './warehouse.js';

interface Order {
  readonly id: number;
  readonly total_price: string;
}

export interface Packing {
  readonly shop: string;
  readonly order: string;
}

export const PACK = 'pack';

@Injectable()
export class OrderHandlers {
  constructor(private readonly warehouse: Warehouse) {}

  /** The tenant is the shop whose secret verified the request: a shop cannot write into another one's orders. */
  @OnWebhook<Order>('shopify', 'orders/create')
  async created({ tenant: shop, payload }: WebhookEvent<Order>, { manager, enqueue }: HandlerContext) {
    const order = { shop, id: String(payload.id), totalPrice: payload.total_price };
    await manager.upsert(ShopOrder, order, ['shop', 'id']);
    await enqueue(PACK, { shop, order: order.id });
    return 'created';
  }

  @OnEffect<Packing>(PACK)
  async pack(packing: Packing, { key }: EffectContext) {
    await this.warehouse.pack(packing, key);
  }
}
