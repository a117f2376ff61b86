import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Alerts } from '../core/alerts.js';
import { errorText, logLine } from '../core/log.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { OutboxStore } from '../storage/outbox.store.js';

/** Watches the number of dead rows: alerts once when it reaches the threshold, and again only after it has fallen below. */
@Injectable()
export class DeadLetters {
  private readonly logger = new Logger('WebhookInbox');
  private told = false;
  private checking: Promise<void> | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly alerts: Alerts,
  ) {}

  /** One count at a time, to the threshold at most; callers in the meantime share it. */
  async check(): Promise<void> {
    this.checking ??= this.count().finally(() => (this.checking = undefined));
    return this.checking;
  }

  private async count(): Promise<void> {
    const threshold = this.options.deadLetterThreshold;
    try {
      const count = await this.store.countDead(this.dataSource.manager, threshold);
      if (count >= threshold && !this.told) this.alerts.raise({ kind: 'dead-letters', count, threshold });
      this.told = count >= threshold;
    } catch (error) {
      this.logger.error(logLine(`dead letters could not be counted: ${errorText(error)}`, {}));
    }
  }
}
