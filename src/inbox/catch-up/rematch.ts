import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import { ClaimStore, type ClaimCursor, type RecentClaim } from '../../storage/claim.store.js';
import { onConnection } from '../../storage/postgres/connection.js';
import { isOwed, OwedRows } from './owed-rows.js';

/** How far back a rolling deploy's older receivers may have claimed without our handlers. */
const REMATCH_MS = 10 * 60_000;
/**
 * When the second pass after boot begins. It finds events that older receivers claimed after the boot, while all of them are within
 * `REMATCH_MS`.
 */
export const AGAIN_MS = 0.9 * REMATCH_MS;
const BATCH = 500;
/** When a connection is given up: a half-open one never answers. */
const END_MS = 60_000;

/** Adds handler rows to recent claims that an older version's handlers did not match. */
@Injectable()
export class Rematch {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly owedRows: OwedRows,
    private readonly registry: HandlerRegistry,
    private readonly alerts: Alerts,
  ) {}

  /**
   * @param mine called between batches; false ends the pass
   * @param report filled during the pass
   * @param options `lateMs`: by how much the pass is late; it looks so much further back. `add` adds a row, or pretends to
   */
  async run(
    mine: () => Promise<boolean>,
    report: { events: number; added: number; missing: number },
    { lateMs = 0, add = (claim: RecentClaim, handler: Handler) => this.add(claim, handler) } = {},
  ): Promise<void> {
    const windowMs = REMATCH_MS + lateMs;
    for (const source of this.options.sources.keys()) {
      let cursor: ClaimCursor | undefined;
      do {
        const claims = await this.withConnection((manager) =>
          this.claims.listRecent(manager, source, windowMs, BATCH, cursor),
        );
        for (const claim of claims) {
          report.events += 1;
          for (const handler of this.registry.match(claim.source, claim.event_type))
            if (!isOwed(handler, claim.names) && (await add(claim, handler))) report.added += 1;
          if (this.alertIfShort(claim)) report.missing += 1;
        }
        cursor = claims.length < BATCH ? undefined : claims.at(-1);
        if (cursor !== undefined && !(await mine())) return;
      } while (cursor !== undefined);
    }
  }

  private add({ id, source, tenant, event_id: eventId }: RecentClaim, handler: Handler): Promise<boolean> {
    return this.withConnection((manager) =>
      this.owedRows.add(manager, { id, source, tenant, eventId }, handler),
    );
  }

  private withConnection<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    return onConnection(this.dataSource, work, END_MS);
  }

  private alertIfShort(claim: RecentClaim): boolean {
    if (claim.names.length >= claim.owed) return false;
    const event = { source: claim.source, tenant: claim.tenant, eventId: claim.event_id };
    this.alerts.raise({ kind: 'missing-rows', event, owed: claim.owed, found: claim.names.length });
    return true;
  }
}
