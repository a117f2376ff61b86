import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Decider } from '../core/decider.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { checkInput, OUTBOX_ID } from '../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Audit } from '../storage/desk/audit.js';
import type { DecidedRow } from '../storage/desk/decision.store.js';
import { EffectStore } from '../storage/effect.store.js';
import { inTransaction } from '../storage/postgres/connection.js';
import { TurnStore } from '../storage/turn.store.js';

const LOCK_TIMEOUT_MS = 5_000;

/** Calls effects back that have not begun, because a person asks for it. An application does so by `Outbox.cancel`. */
@Injectable()
export class CallBacks {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: EffectStore,
    private readonly turns: TurnStore,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /**
   * The row ends as `cancelled`, and its key stays taken. The next effect of its order key runs.
   * @returns false where the row is no pending effect, where an instance runs it, and where its call has begun
   * @throws InputRefused for text that is no outbox id, and for an empty `by` or `reason`
   */
  async cancel(outboxId: string, decider: Decider): Promise<boolean> {
    checkInput(OUTBOX_ID, outboxId, 'outboxId');
    return this.audit.record({ action: 'cancel', target: outboxId }, decider, async () => {
      const row = await this.cancelNow(outboxId, decider);
      const { by, reason } = decider;
      if (row !== undefined) this.logger.log(logLine('effect cancelled', { ...row, by, reason }));
      const cancelled = row !== undefined;
      return [cancelled, { cancelled }];
    });
  }

  private async cancelNow(outboxId: string, decider: Decider): Promise<DecidedRow | undefined> {
    const found = await inTransaction(this.dataSource.manager, LOCK_TIMEOUT_MS, async (manager) => {
      const end = await this.store.cancel(manager, outboxId, decider);
      if (end?.turn !== undefined) await this.turns.pass(manager, end.turn);
      return end;
    });
    if (found?.turn !== undefined) this.wakeUp.wake();
    return found?.isCancelled === true ? found.told : undefined;
  }
}
