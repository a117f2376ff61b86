import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { sqlStateOf } from '../core/classify.js';
import { byKey, keyText } from '../core/event.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { measure } from '../core/telemetry/meters.js';
import { outboxId } from '../core/ids.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { firstName, HandlerRegistry } from '../handlers/handler.registry.js';
import type { WokenNames } from '../outbox/wake/wake-up.js';
import { UnreportedDeaths } from '../outbox/runs/unreported-deaths.js';
import { Notifier } from '../outbox/wake/notifier.js';
import { OrderKeys } from '../outbox/enqueue/order-keys.js';
import { ClaimStore, type ClaimResult, type NewClaim, type NewHandlerRow } from '../storage/claim.store.js';
import {
  claimTransaction,
  eachInTransaction,
  type TransactionLimits,
  type Transactions,
} from '../storage/postgres/each-transaction.js';
import type { Statements } from '../storage/postgres/one-message.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import { Conflicts } from './conflicts.js';
import { bodySha256, searchValues, type IncomingEvent } from './delivery.js';
import { Redeliveries } from './redeliveries.js';

/** An event with the handler rows that it would be owed. */
export interface Claim {
  readonly event: IncomingEvent;
  readonly rows: readonly NewHandlerRow[];
  /** A `backfill` is made up from the provider's list: its bytes are compared with nothing. @default 'delivery' */
  readonly origin?: NewClaim['origin'];
}

/** The claims of one delivery, and the source whose policies it is under. */
export interface Delivered {
  readonly source: Source;
  readonly claims: readonly Claim[];
}

export interface ClaimedDelivery {
  /** For each claim, when this delivery made the event ours, by the database's clock; undefined where it was known. */
  readonly arrivals: readonly (Date | undefined)[];
  /** Names of the rows that are there for a relay now. */
  readonly woken: WokenNames;
  /** Whether the other instances are notified of them already. */
  readonly othersNotified: boolean;
}

/** Claims events in transactions that call no user code. */
@Injectable()
export class Claimer {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly registry: HandlerRegistry,
    private readonly orderKeys: OrderKeys,
    private readonly conflicts: Conflicts,
    private readonly redeliveries: Redeliveries,
    private readonly notifier: Notifier,
    private readonly unreported: UnreportedDeaths,
  ) {}

  /**
   * Runs `work` in a transaction. It runs once more after a deadlock, a serialization failure or a broken connection. The first COMMIT may
   * then be in doubt, and a conflict with the same insert shows that it went through.
   */
  async transaction<T>(work: (manager: EntityManager, secondTry: boolean) => Promise<T>): Promise<T> {
    const { claimTimeoutMs } = this.options;
    return this.withSecondTry((secondTry) =>
      claimTransaction(
        this.dataSource,
        { lockTimeoutMs: claimTimeoutMs, endAfterMs: 2 * claimTimeoutMs },
        (manager) => work(manager, secondTry),
      ),
    );
  }

  /**
   * Claims the events of deliveries in one message with its COMMIT. Known events go in another message. It is tried again as `transaction`
   * is.
   * @param take called when there is a connection, so that deliveries that came meanwhile go along
   * @param triedBefore whether the COMMIT of an earlier try may have gone through
   */
  async claimTogether(
    take: () => readonly Delivered[],
    limits: TransactionLimits,
    triedBefore = false,
  ): Promise<ClaimedDelivery[]> {
    let deliveries: readonly Delivered[] | undefined;
    return this.withSecondTry((secondTry) =>
      eachInTransaction(this.dataSource, limits, (statements) => {
        // Called when there is a connection. The second try has another one, and the same batch.
        deliveries ??= take();
        return this.claimDeliveries(statements, deliveries, triedBefore || secondTry);
      }),
    );
  }

  private async withSecondTry<T>(run: (secondTry: boolean) => Promise<T>): Promise<T> {
    try {
      return await this.unreported.track(() => run(false));
    } catch (error) {
      if (!isWorthAnotherTry(error)) throw error;
      return await this.unreported.track(() => run(true));
    }
  }

  /**
   * Claims each event once, and returns a result for each delivery: for any number of deliveries one insert, and one statement for
   * those whose events were known.
   */
  private async claimDeliveries(
    statements: Transactions,
    deliveries: readonly Delivered[],
    secondTry: boolean,
  ): Promise<ClaimedDelivery[]> {
    if (deliveries.length === 0) return [];
    const firsts = new Map<string, Claim>();
    for (const claim of deliveries.flatMap(({ claims }) => claims)) {
      const key = keyText(claim.event);
      if (!firsts.has(key)) firsts.set(key, claim);
    }
    measure('webhook_inbox.commit.events', firsts.size, {});
    const unique = [...firsts.values()].sort((a, b) => byKey(a.event, b.event));
    const results = await this.insert(statements, unique, secondTry);
    const won = new Map(
      unique.flatMap((claim, index) => {
        const { receivedAt } = results[index]!;
        return receivedAt === undefined ? [] : [[claim, receivedAt]];
      }),
    );
    const lost = deliveries.flatMap(({ source, claims }) =>
      claims.filter((claim) => !won.has(claim)).map((claim) => ({ source, claim, event: claim.event })),
    );
    const met = lost.length > 0 ? await this.redeliveries.recordAll(statements, lost) : [];
    const fresh = [...won.keys()];
    await this.recordOthers(statements, fresh)?.catch((error: unknown) => this.logOthersLost(fresh, error));
    const notice = this.notifier.notice(unleased(fresh));
    if (notice !== undefined) statements.endWith(notice.statement, notice.ended);
    const revived = new Set(lost.filter((_, index) => met[index]).map(({ claim }) => claim));
    return deliveries.map(({ claims }) => {
      const hasRevived = claims.some((claim) => revived.has(claim));
      return {
        arrivals: claims.map((claim) => won.get(claim)),
        woken: hasRevived ? undefined : unleased(claims.filter((claim) => won.has(claim))),
        othersNotified: notice !== undefined && !hasRevived,
      };
    });
  }

  /**
   * Whether each claim was won, in order. Rows of those that were lost are not inserted.
   * @param secondTry the first try's COMMIT may have gone through: a claim under this very id of ours is ours
   */
  async claim(manager: EntityManager, claims: readonly Claim[], secondTry = false): Promise<ClaimResult[]> {
    const results = await this.insert(manager, claims, secondTry);
    await this.recordOthers(
      manager,
      claims.filter((_, index) => results[index]!.won),
    );
    return results;
  }

  private async insert(
    statements: Statements,
    claims: readonly Claim[],
    secondTry: boolean,
  ): Promise<ClaimResult[]> {
    const results = await this.claims.claim(
      statements,
      claims.map((claim) => this.newClaim(claim)),
    );
    if (secondTry) {
      for (const [index, result] of results.entries()) {
        const { event } = claims[index]!;
        const found = result.won ? undefined : await this.claims.find(statements, event);
        if (found?.id === event.id) results[index] = { ...result, won: true, receivedAt: found.receivedAt };
      }
    }
    for (const [index, { event }] of claims.entries()) {
      if (results[index]!.suspectedReplay) this.conflicts.alertOnce(event, 'suspected-replay');
    }
    return results;
  }

  /** Undefined where no delivery brought other bytes under the id of one of its events. */
  private recordOthers(statements: Statements, claims: readonly Claim[]): Promise<void> | undefined {
    const events = claims.flatMap(({ event }) => (event.others.length > 0 ? [event] : []));
    return events.length > 0 ? this.redeliveries.recordOthers(statements, events) : undefined;
  }

  /** The claims are committed by now: a 503 would say that they are not. */
  private logOthersLost(claims: readonly Claim[], error: unknown): void {
    for (const { event } of claims.filter((claim) => claim.event.others.length > 0)) {
      const { source, tenant, eventId } = event;
      const text = `other bytes of the same delivery were not recorded: ${storeErrorText(error)}`;
      this.logger.warn(logLine(text, { source, tenant, event: eventId }));
    }
  }

  /** For an event that came where nothing took it before it came to a route of the application's: it is the route's now. */
  async giveSkipped(manager: EntityManager, event: IncomingEvent, route: string): Promise<void> {
    const claim = await this.claims.find(manager, event);
    if (claim === undefined) return;
    await this.claims.addRow(manager, claim.id, { id: outboxId(claim.id, route), name: route }, true);
  }

  /** The row an event is owed for a handler, with the id that any repetition would give it. */
  rowFor(event: IncomingEvent, name: string, lease?: NewHandlerRow['lease']): NewHandlerRow {
    const handler = this.registry.handler(name);
    // The database sets the arrival. A key that depends on it would be none.
    const orderKey = handler?.options.key && this.orderKeys.of(handler, { ...event, receivedAt: new Date() });
    return {
      id: outboxId(event.id, handler === undefined ? name : firstName(handler)),
      name,
      orderKey,
      lease,
      unusable: event.unusable,
      trace: event.trace,
    };
  }

  private newClaim({ event, rows, origin = 'delivery' }: Claim): NewClaim {
    const source = this.options.sources.get(event.source)!;
    const { source: name, tenant, eventId, id, type, occurredAt, verifiedBy, headers, body } = event;
    return {
      source: name,
      tenant,
      eventId,
      id,
      type,
      occurredAt,
      verifiedBy,
      headers,
      body,
      rows,
      origin,
      bodySha256: source.provider.signed.id || origin === 'backfill' ? undefined : bodySha256(event),
      refuseKnownBytes: source.suspectedReplays === 'refuse',
      searchValues: searchValues(source, body),
    };
  }
}

/** Names of their rows that are for a relay. */
function unleased(claims: readonly Claim[]): string[] {
  return claims.flatMap(({ rows }) =>
    rows
      .filter(({ lease, unusable }) => lease === undefined && unusable === undefined)
      .map(({ name }) => name),
  );
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
