import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../log/inbox.logger.js';
import type { Alert } from './alert.js';
import { errorText, logLine } from '../log/log.js';
import type { ResolvedOptions } from '../options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../tokens.js';

/** Logs alerts and hands them to `onAlert`, whose failures change nothing else. */
@Injectable()
export class Alerts {
  private readonly logger = new InboxLogger();

  private readonly listeners = new Set<(alert: Alert) => void>();

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /** Tells `listener` of every alert too; returns what ends it. */
  listen(listener: (alert: Alert) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  raise(alert: Alert): void {
    for (const listener of this.listeners) listener(alert);
    const { kind, ...facts } = alert;
    const { event, ...flat } = facts as Record<string, unknown> & { event?: Record<string, string> };
    this.logger.warn(logLine(`alert ${kind}`, { ...event, ...(flat as Record<string, string>) }));
    void this.tell(alert);
  }

  private async tell(alert: Alert): Promise<void> {
    try {
      await this.options.onAlert?.(alert);
    } catch (error) {
      this.logger.error(logLine(`onAlert failed: ${errorText(error)}`, { alert: alert.kind }));
    }
  }
}
