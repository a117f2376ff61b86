import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Alerts } from '../core/alerts.js';
import { sqlStateOf } from '../core/classify.js';
import { outboxId } from '../core/outbox-id.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { Tally } from '../core/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { OrderKeys } from '../outbox/order.keys.js';
import { ClaimStore, type ClaimResult, type NewClaim, type NewHandlerRow } from '../storage/claim.store.js';
import { inTransaction } from '../storage/connection.js';
import type { IncomingEvent } from './delivery.js';

/** An event with the handler rows that it would be owed. */
export interface Claim {
  readonly event: IncomingEvent;
  readonly rows: readonly NewHandlerRow[];
  /** A `backfill` is made up from the provider's list: its bytes are compared with nothing. @default 'delivery' */
  readonly origin?: NewClaim['origin'];
}

/** Claims events in transactions that call no user code. */
@Injectable()
export class Claimer {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly registry: HandlerRegistry,
    private readonly orderKeys: OrderKeys,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
  ) {}

  /**
   * Runs `work` in a transaction, once more when PostgreSQL broke it off (deadlock, serialization) or when the connection broke:
   * then the COMMIT may be in doubt, and the same insert on a fresh connection tells, since a conflict means that it is claimed.
   */
  async transaction<T>(work: (manager: EntityManager, secondTry: boolean) => Promise<T>): Promise<T> {
    const run = (secondTry: boolean) =>
      inTransaction(this.dataSource.manager, this.options.claimTimeoutMs, (manager) =>
        work(manager, secondTry),
      );
    try {
      return await run(false);
    } catch (error) {
      if (!isWorthAnotherTry(error)) throw error;
      return await run(true);
    }
  }

  /**
   * Whether each claim was won, in order. Rows of those that were lost are not inserted.
   * @param secondTry the first try's COMMIT may have gone through: a claim under this very id of ours is ours
   */
  async claim(manager: EntityManager, claims: readonly Claim[], secondTry = false): Promise<ClaimResult[]> {
    const results = await this.claims.claim(
      manager,
      claims.map((claim) => this.newClaim(claim)),
    );
    for (const [index, result] of results.entries()) {
      const { event } = claims[index]!;
      if (!result.won && secondTry && (await this.claims.find(manager, event)) === event.id) {
        results[index] = { ...result, won: true, receivedAt: new Date() };
      }
      if (result.suspectedReplay) {
        await this.claims.recordSuspectedReplay(manager, event, event.bodySha256);
        this.tellConflict(event, 'suspected-replay');
      }
    }
    return results;
  }

  /** For a delivery of a claimed event: revives dead handler rows where we retry, and compares the bytes. True when rows were revived. */
  async duplicate(manager: EntityManager, source: Source, event: IncomingEvent): Promise<boolean> {
    const { revived, conflict } = await this.claims.duplicate(manager, event, event.bodySha256, {
      revive: source.retries === 'own',
      compare: source.provider.retries.sameBytes,
    });
    if (conflict) this.tellConflict(event, 'other-bytes');
    this.tally.duplicate(event);
    return revived > 0;
  }

  /** The row an event is owed for a handler, with the id that any repetition would give it. */
  row(event: IncomingEvent, name: string, lease?: NewHandlerRow['lease']): NewHandlerRow {
    const handler = this.registry.handler(name);
    // The arrival is the database's to tell; a key that depended on it would be none.
    const orderKey = handler && this.orderKeys.of(handler, { ...event, receivedAt: new Date() });
    return { id: outboxId(event.id, name), name, orderKey, lease };
  }

  private newClaim({ event, rows, origin = 'delivery' }: Claim): NewClaim {
    const source = this.options.sources.get(event.source)!;
    const { bodySha256, ...rest } = event;
    return {
      ...rest,
      rows,
      origin,
      bodySha256: source.provider.signed.id || origin === 'backfill' ? undefined : bodySha256,
      refuseKnownBytes: source.suspectedReplays === 'refuse',
    };
  }

  private tellConflict(event: IncomingEvent, conflict: 'other-bytes' | 'suspected-replay'): void {
    const { source, tenant, eventId } = event;
    this.alerts.raise({ kind: 'conflict', conflict, event: { source, tenant, eventId } });
  }
}

function isWorthAnotherTry(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return (
    sqlState === undefined ||
    sqlState.startsWith('40') ||
    sqlState.startsWith('08') ||
    sqlState.startsWith('57P')
  );
}
