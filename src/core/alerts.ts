import { Inject, Injectable, Logger } from '@nestjs/common';
import type { Alert } from './alert.js';
import { errorText, logLine } from './log.js';
import type { ResolvedOptions } from './resolve-options.js';
import { WEBHOOKS_OPTIONS } from './tokens.js';

/** Logs alerts and hands them to `onAlert`, whose failures change nothing else. */
@Injectable()
export class Alerts {
  private readonly logger = new Logger('WebhookInbox');

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  raise(alert: Alert): void {
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
