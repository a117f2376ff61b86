import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { sqlStateOf } from '../core/classify.js';
import { byKey, keyText } from '../core/event.js';
import { outboxId } from '../core/outbox-id.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { Tally } from '../core/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { firstName, HandlerRegistry } from '../handlers/handler.registry.js';
import type { WokenNames } from '../outbox/wake-up.js';
import { Notifier } from '../outbox/notifier.js';
import { OrderKeys } from '../outbox/order.keys.js';
import { ClaimStore, type ClaimResult, type NewClaim, type NewHandlerRow } from '../storage/claim.store.js';
import { inTransaction } from '../storage/connection.js';
import { eachInTransaction, type TransactionLimits, type Transactions } from '../storage/each.transaction.js';
import type { Statements } from '../storage/one.message.js';
import { Conflicts } from './conflicts.js';
import { bodySha256, type IncomingEvent } from './delivery.js';

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
  /** Other instances are being told of them. */
  readonly othersAreTold: boolean;
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
    private readonly conflicts: Conflicts,
    private readonly tally: Tally,
    private readonly notifier: Notifier,
  ) {}

  /**
   * Runs `work` in a transaction, once more when PostgreSQL broke it off (deadlock, serialization) or when the connection broke:
   * then the COMMIT may be in doubt, and the same insert on a fresh connection tells, since a conflict means that it is claimed.
   */
  async transaction<T>(work: (manager: EntityManager, secondTry: boolean) => Promise<T>): Promise<T> {
    const { claimTimeoutMs } = this.options;
    const run = (secondTry: boolean) =>
      inTransaction(
        this.dataSource.manager,
        claimTimeoutMs,
        (manager) => work(manager, secondTry),
        2 * claimTimeoutMs,
      );
    return twice(run);
  }

  /**
   * Claims what deliveries brought, in a message with its COMMIT; what was known already, in another. Tried again as `transaction` is.
   * @param take called when there is a connection: what came while it was waited for goes with it
   * @param triedBefore the COMMIT of an earlier try may have gone through
   */
  async claimTogether(
    take: () => readonly Delivered[],
    limits: TransactionLimits,
    triedBefore = false,
  ): Promise<ClaimedDelivery[]> {
    let deliveries: readonly Delivered[] | undefined;
    return twice((secondTry) =>
      eachInTransaction(this.dataSource, limits, (statements) => {
        deliveries ??= take();
        return this.claimDeliveries(statements, deliveries, triedBefore || secondTry);
      }),
    );
  }

  /**
   * Claims each event once, and says for each delivery what came of it: for any number of deliveries one insert, and one statement for
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
    const unique = [...firsts.values()].sort((a, b) => byKey(a.event, b.event));
    const results = await this.claim(statements, unique, secondTry);
    const won = new Map(
      unique.flatMap((claim, index) => {
        const { receivedAt } = results[index]!;
        return receivedAt === undefined ? [] : [[claim, receivedAt]];
      }),
    );
    const lost = deliveries.flatMap(({ source, claims }) =>
      claims.filter((claim) => !won.has(claim)).map((claim) => ({ source, claim })),
    );
    const met = await this.duplicates(
      statements,
      lost.map(({ source, claim }) => ({ source, event: claim.event })),
    );
    const notice = this.notifier.notice(unleased([...won.keys()]));
    if (notice !== undefined) statements.endWith(notice.statement, notice.ended);
    const revived = new Set(lost.filter((_, index) => met[index]).map(({ claim }) => claim));
    return deliveries.map(({ claims }) => {
      const hasRevived = claims.some((claim) => revived.has(claim));
      return {
        arrivals: claims.map((claim) => won.get(claim)),
        woken: hasRevived ? undefined : unleased(claims.filter((claim) => won.has(claim))),
        othersAreTold: notice !== undefined && !hasRevived,
      };
    });
  }

  /**
   * Whether each claim was won, in order. Rows of those that were lost are not inserted.
   * @param secondTry the first try's COMMIT may have gone through: a claim under this very id of ours is ours
   */
  async claim(statements: Statements, claims: readonly Claim[], secondTry = false): Promise<ClaimResult[]> {
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
      if (results[index]!.suspectedReplay) this.conflicts.tell(event, 'suspected-replay');
    }
    return results;
  }

  /** For an event that came where nothing took it before it came to a route of the application's: it is the route's now. */
  async giveSkipped(manager: EntityManager, event: IncomingEvent, route: string): Promise<void> {
    const claim = await this.claims.find(manager, event);
    if (claim === undefined) return;
    await this.claims.addRow(manager, claim.id, { id: outboxId(claim.id, route), name: route }, true);
  }

  /** As `duplicates`, for one. */
  async duplicate(manager: EntityManager, source: Source, event: IncomingEvent): Promise<boolean> {
    return (await this.duplicates(manager, [{ source, event }]))[0]!;
  }

  /**
   * For deliveries of claimed events: revives dead handler rows where we retry, and compares the bytes. True for those with rows
   * that were revived.
   */
  private async duplicates(
    statements: Statements,
    lost: readonly { source: Source; event: IncomingEvent }[],
  ): Promise<boolean[]> {
    if (lost.length === 0) return [];
    const results = await this.claims.duplicates(
      statements,
      lost.map(({ source, event }) => ({
        ...event,
        bodySha256: bodySha256(event),
        revive: source.retries === 'own',
        compare: source.provider.retries.sameBytes,
      })),
    );
    for (const [index, { conflict }] of results.entries()) {
      const { event } = lost[index]!;
      if (conflict) this.conflicts.tell(event, 'other-bytes');
      this.tally.duplicate(event);
    }
    return results.map(({ revived }) => revived);
  }

  /** The row an event is owed for a handler, with the id that any repetition would give it. */
  row(event: IncomingEvent, name: string, lease?: NewHandlerRow['lease']): NewHandlerRow {
    const handler = this.registry.handler(name);
    // The arrival is the database's to tell; a key that depended on it would be none.
    const orderKey = handler?.options.key && this.orderKeys.of(handler, { ...event, receivedAt: new Date() });
    return {
      id: outboxId(event.id, handler === undefined ? name : firstName(handler)),
      name,
      orderKey,
      lease,
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
    };
  }
}

/** Names of their rows that are for a relay. */
function unleased(claims: readonly Claim[]): string[] {
  return claims.flatMap(({ rows }) =>
    rows.filter(({ lease }) => lease === undefined).map(({ name }) => name),
  );
}

async function twice<T>(run: (secondTry: boolean) => Promise<T>): Promise<T> {
  try {
    return await run(false);
  } catch (error) {
    if (!isWorthAnotherTry(error)) throw error;
    return await run(true);
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
