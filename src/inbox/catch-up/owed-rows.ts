import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../core/event.js';
import { outboxId } from '../../core/ids.js';
import { firstName, type Handler } from '../../handlers/handler.registry.js';
import { OrderKeys } from '../../outbox/enqueue/order-keys.js';
import { ClaimStore } from '../../storage/claim.store.js';

/** Adds handler rows to events that are claimed already: for handlers that came later. */
@Injectable()
export class OwedRows {
  constructor(
    private readonly claims: ClaimStore,
    private readonly orderKeys: OrderKeys,
  ) {}

  /** False when the row is there already, or the event is erased. */
  async add(
    manager: EntityManager,
    claim: EventKey & { readonly id: string },
    handler: Handler,
  ): Promise<boolean> {
    const stored = handler.ordered ? await this.claims.load(manager, claim) : undefined;
    const orderKey = stored && this.orderKeys.of(handler, stored);
    const { name } = handler;
    return this.claims.addRow(manager, claim.id, {
      id: outboxId(claim.id, firstName(handler)),
      name,
      orderKey,
    });
  }
}

/** Whether one of the row names is the handler's, under its name or a former one. */
export function isOwed(handler: Handler, rowNames: readonly string[]): boolean {
  return [handler.name, ...handler.was].some((name) => rowNames.includes(name));
}
