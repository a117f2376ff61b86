import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { Hysteresis } from '../../core/time/hysteresis.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { LoneStatements } from './lone-statements.js';

const DEAD = 'dead';

/** Watches the number of dead rows: alerts once when it reaches the threshold, and again only after it has fallen to half of it. */
@Injectable()
export class DeadLetters {
  private readonly logger = new InboxLogger();
  private readonly hysteresis = new Hysteresis();
  private checking: Promise<void> | undefined;
  private again = false;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly statements: LoneStatements,
    private readonly alerts: Alerts,
  ) {}

  /** One count at a time, to the threshold at most. A call during one asks for another: the row it is about may have come too late. */
  async check(): Promise<void> {
    this.again = true;
    this.checking ??= this.countUntilCurrent();
    return this.checking;
  }

  /** Counts again after an alert. A person may have cleared the rows, and no further death would show it. */
  async recheck(): Promise<void> {
    if (this.hysteresis.isAlerted(DEAD)) await this.check();
  }

  private async countUntilCurrent(): Promise<void> {
    while (this.again) {
      this.again = false;
      await this.count();
    }
    this.checking = undefined;
  }

  private async count(): Promise<void> {
    const threshold = this.options.deadLetterThreshold;
    try {
      const count = await this.statements.send((manager) => this.store.countDead(manager, threshold));
      if (this.hysteresis.shouldAlert(DEAD, count, threshold))
        this.alerts.raise({ kind: 'dead-letters', count, threshold });
    } catch (error) {
      this.logger.error(logLine(`dead letters could not be counted: ${errorText(error)}`, {}));
    }
  }
}
