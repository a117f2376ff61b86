import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InboxLogger } from '../core/inbox.logger.js';
import { logLine } from '../core/log.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { retryWindowMs } from '../core/resolve-source.js';
import { checkInput, OUTBOX_ID } from '../core/schema.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { WakeUp } from '../outbox/wake-up.js';
import { DecisionStore } from '../storage/decision.store.js';
import { checkDecider, type Decider } from './decider.js';

/** Gives dead rows new attempts, once the cause is gone, or gives them up. */
@Injectable()
export class Revivals {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly store: DecisionStore,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * Under the ids and keys they had; an effect whose key the other side may have forgotten is parked instead of run. The row of a
   * route with `@UseWebhook` waits until the provider sends its event again, as long as the provider may.
   * @returns the ids of the rows that were dead
   * @throws InputRefused for what is no outbox id, and without `by` or `reason`
   */
  async revive(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    checkDecider(decider);
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    const revived = await this.store.revive(this.dataSource.manager, outboxIds, this.routes());
    const { by, reason } = decider;
    for (const outbox of revived) this.logger.log(logLine('revived', { outbox, by, reason }));
    if (revived.length > 0) this.wakeUp.wake();
    return revived;
  }

  /**
   * Lets dead rows be, for good: under `onDead: 'block'` the next of their key runs, and no redelivery gives them new attempts. They
   * stay dead, with their error, and a person may still revive or replay them.
   * @returns the ids of the rows that were dead and not given up before
   * @throws InputRefused for what is no outbox id, and without `by` or `reason`
   */
  async giveUp(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    checkDecider(decider);
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    const givenUp = await this.store.giveUp(this.dataSource.manager, outboxIds);
    const { by, reason } = decider;
    for (const outbox of givenUp) this.logger.log(logLine('given up', { outbox, by, reason }));
    if (givenUp.length > 0) this.wakeUp.wake();
    return givenUp;
  }

  /** Only a delivery can run them: one that were due now would be dead at the relay's next look. */
  private routes() {
    return [...this.registry.routes().values()].map(({ name, source }) => {
      return { name, ms: retryWindowMs(this.options.sources.get(source)!.provider) };
    });
  }
}
