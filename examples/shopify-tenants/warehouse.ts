import { Injectable } from '@nestjs/common';
import type { Packing } from './orders.handlers.js';

/** Packs orders. It knows the keys of what it has packed, as a service behind HTTP should. */
@Injectable()
export class Warehouse {
  readonly packed = new Map<string, Packing>();

  async pack(packing: Packing, key: string): Promise<void> {
    if (!this.packed.has(key)) this.packed.set(key, packing);
  }
}
