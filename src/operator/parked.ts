import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { checkInput, OUTBOX_ID } from '../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Audit, targetOfRows } from '../storage/desk/audit.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { DecisionStore, type ParkedDecision } from '../storage/desk/decision.store.js';
import type { Decider } from '../core/decider.js';

/** Decides about rows that wait for a person: effects whose end is not known, and rows that a person has parked. */
@Injectable()
export class Parked {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly registry: HandlerRegistry,
    private readonly store: DecisionStore,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /**
   * Parks pending rows, of handlers and effects alike, until a person decides about them. A row that an instance runs is left alone, and
   * so is the row of a route with `@UseWebhook`, which only a redelivery can run.
   * @returns the ids of the rows that it parked
   * @throws InputRefused for text that is no outbox id, and for an empty `by` or `reason`
   */
  async park(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    return this.audit.record({ action: 'park', ...targetOfRows(outboxIds) }, decider, async () => {
      const routes = [...this.registry.routes().keys()];
      const rows = await this.store.park(this.dataSource.manager, outboxIds, routes, decider);
      const { by, reason } = decider;
      for (const row of rows) this.logger.log(logLine('parked', { ...row, by, reason }));
      // Another row of its order key may have the turn now.
      if (rows.length > 0) this.wakeUp.wake();
      return [rows.map(({ outbox }) => outbox), { parked: rows.length }];
    });
  }

  /**
   * `retry`: run it again under its key; it may happen twice. `done`: it did happen. `dead`: it did not, and is not to.
   * @returns false when the row is not parked
   * @throws InputRefused for text that is no outbox id, and for an empty `by` or `reason`
   */
  async decide(outboxId: string, decision: ParkedDecision, decider: Decider): Promise<boolean> {
    checkInput(OUTBOX_ID, outboxId, 'outboxId');
    checkInput(z.enum(['retry', 'done', 'dead']), decision, 'decision');
    return this.audit.record({ action: `parked ${decision}`, target: outboxId }, decider, async () => {
      const row = await this.store.decide(this.dataSource.manager, outboxId, decision, decider);
      const { by, reason } = decider;
      if (row !== undefined) this.logger.log(logLine('parked row decided', { ...row, decision, by, reason }));
      const decided = row !== undefined;
      if (decided && decision === 'retry') this.wakeUp.wake();
      return [decided, { decided }];
    });
  }
}
