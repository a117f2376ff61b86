import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { checkInput, OUTBOX_ID } from '../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Audit } from '../storage/desk/audit.js';
import { DecisionStore, type ParkedDecision } from '../storage/desk/decision.store.js';
import type { Decider } from '../core/decider.js';

/** Decides about effects whose end is not known. */
@Injectable()
export class Parked {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: DecisionStore,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /**
   * `retry`: run it again under its key; it may happen twice. `done`: it did happen. `dead`: it did not, and is not to.
   * @returns false when the row is not parked
   * @throws InputRefused for what is no outbox id, and without `by` or `reason`
   */
  async decide(outboxId: string, decision: ParkedDecision, decider: Decider): Promise<boolean> {
    checkInput(OUTBOX_ID, outboxId, 'outboxId');
    return this.audit.noted({ action: `parked ${decision}`, target: outboxId }, decider, async () => {
      const row = await this.store.decide(this.dataSource.manager, outboxId, decision, decider);
      const { by, reason } = decider;
      if (row !== undefined)
        this.logger.log(logLine('parked effect decided', { ...row, decision, by, reason }));
      const decided = row !== undefined;
      if (decided && decision === 'retry') this.wakeUp.wake();
      return [decided, { decided }];
    });
  }
}
