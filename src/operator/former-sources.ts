import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { retentionAges, type ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { RelayStore } from '../storage/desk/relay.store.js';
import { RetentionStore } from '../storage/desk/retention.store.js';

const DAY_MS = 86_400_000;

/**
 * Sources that have claims and that no instance has configured, neither this one nor any that was seen within the hour: they were
 * removed or renamed. Their claims hold bodies and personal data, and no window of their own says for how long.
 */
@Injectable()
export class FormerSources {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly retention: RetentionStore,
    private readonly relays: RelayStore,
  ) {}

  /** How long their claims are kept. */
  get ageMs(): number {
    return (this.options.retention === false ? retentionAges() : this.options.retention).formerSourcesMs;
  }

  async list(manager: EntityManager, quietMs?: number): Promise<string[]> {
    const configured = new Set(await this.configured(manager));
    return (await this.retention.storedSources(manager, quietMs)).filter((source) => !configured.has(source));
  }

  /** Every source that there is: configured here or by an instance that was seen within the hour, or with claims. */
  async all(manager: EntityManager): Promise<string[]> {
    const stored = await this.retention.storedSources(manager);
    return [...new Set([...(await this.configured(manager)), ...stored])].sort();
  }

  private async configured(manager: EntityManager): Promise<string[]> {
    return [...this.options.sources.keys(), ...(await this.relays.sources(manager))];
  }

  /** Those whose old claims may go. The application of a source that has brought something since may only be stopped for a while. */
  async abandoned(manager: EntityManager): Promise<string[]> {
    return this.list(manager, this.ageMs);
  }

  /** Names them in the log. */
  async report(manager: EntityManager): Promise<void> {
    const sources = await this.list(manager);
    if (sources.length === 0) return;
    const until =
      this.options.retention === false
        ? 'retention is off, so their claims stay'
        : `their claims are deleted when no event has come for ${Math.round(this.ageMs / DAY_MS)} days (retention.formerSources)`;
    this.logger.warn(
      logLine(`sources are stored and not configured: ${until}`, { sources: sources.join(', ') }),
    );
  }
}
