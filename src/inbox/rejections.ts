import { Injectable, Logger } from '@nestjs/common';
import { logLine } from '../core/log.js';

const LOG_EVERY_MS = 1_000;

/** Counts requests that were not believed, by source and reason, and logs them at a bounded rate: anyone can send junk. */
@Injectable()
export class Rejections {
  private readonly logger = new Logger('WebhookInbox');
  private readonly counted = new Map<string, { count: number; unlogged: number; loggedAt: number }>();

  /** @param source name of a configured source, or '' for what reached none */
  add(source: string, reason: string, detail: string): void {
    const key = JSON.stringify([source, reason]);
    const entry = this.counted.get(key) ?? { count: 0, unlogged: 0, loggedAt: -Infinity };
    entry.count += 1;
    this.counted.set(key, entry);
    if (performance.now() - entry.loggedAt < LOG_EVERY_MS) {
      entry.unlogged += 1;
      return;
    }
    const unlogged = entry.unlogged > 0 ? entry.unlogged : undefined;
    this.logger.warn(logLine(`rejected: ${detail}`, { source, reason, unlogged }));
    entry.unlogged = 0;
    entry.loggedAt = performance.now();
  }

  /** Counts since the process started. */
  counts(): { source: string; reason: string; count: number }[] {
    return [...this.counted].map(([key, { count }]) => {
      const [source, reason] = JSON.parse(key) as [string, string];
      return { source, reason, count };
    });
  }
}
