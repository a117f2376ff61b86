import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../log/inbox.logger.js';
import type { Alert } from './alert.js';
import { errorText, logLine, type Facts } from '../log/log.js';
import type { ResolvedOptions } from '../options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../tokens.js';

/** Logs alerts and hands them to `onAlert`, whose failures change nothing else. */
@Injectable()
export class Alerts {
  private readonly logger = new InboxLogger();

  private readonly listeners = new Set<(alert: Alert) => void>();

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /** Calls `listener` with every alert too. Returns a function that ends it. */
  listen(listener: (alert: Alert) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  raise(alert: Alert): void {
    for (const listener of this.listeners) listener(alert);
    this.logger.warn(logLine(`alert ${alert.kind}`, alertFacts(alert)));
    void this.notify(alert);
  }

  private async notify(alert: Alert): Promise<void> {
    try {
      await this.options.onAlert?.(alert);
    } catch (error) {
      this.logger.error(logLine(`onAlert failed: ${errorText(error)}`, { alert: alert.kind }));
    }
  }
}

/** By the names that they have on every line. */
function alertFacts(alert: Alert): Facts {
  const { kind: _, event, outboxId: outbox, ...flat } = { event: undefined, outboxId: undefined, ...alert };
  const { source, tenant, eventId } = event ?? {};
  const { effects, ...others } = { effects: undefined, ...flat };
  return { source, tenant, event: eventId, outbox, ...(others as Facts), effects: effects?.join(', ') };
}
