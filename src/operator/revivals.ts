import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { logLine } from '../core/log.js';
import { checkInput, OUTBOX_ID } from '../core/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake-up.js';
import { DecisionStore } from '../storage/decision.store.js';

/** Who does something to a row, and why. */
export interface Decider {
  readonly by: string;
  readonly reason: string;
}

/** Gives dead rows new attempts, once the cause is gone. */
@Injectable()
export class Revivals {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: DecisionStore,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * Under the ids and keys they had; an effect whose key the other side may have forgotten is parked instead of run.
   * @returns the ids of the rows that were dead
   * @throws InputRefused for what is no outbox id
   */
  async revive(outboxIds: readonly string[], { by, reason }: Decider): Promise<string[]> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    const revived = await this.store.revive(this.dataSource.manager, outboxIds);
    for (const outbox of revived) this.logger.log(logLine('revived', { outbox, by, reason }));
    if (revived.length > 0) this.wakeUp.wake();
    return revived;
  }
}
