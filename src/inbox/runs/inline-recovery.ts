import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { placeOfError, logStack } from '../../core/log/stack.js';
import type { Source } from '../../core/options/resolve-source.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { NoSlot } from '../../outbox/slots/delivery-slots.js';
import {
  FailureSettler,
  type RunOutcome,
  type CallerTransaction,
} from '../../outbox/runs/failure.settler.js';
import type { HandlerCode } from '../../outbox/runs/handler.runner.js';
import { UnreportedDeaths } from '../../outbox/runs/unreported-deaths.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { ClaimStore } from '../../storage/claim.store.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { NotCommitted } from '../../storage/postgres/connection.js';
import { SettleStore } from '../../storage/settle.store.js';
import { Claimer } from '../claimer.js';
import type { IncomingEvent } from '../delivery.js';
import type { Verdict } from '../answers.js';
import { DeliveryClaims, type Taken } from './delivery-claims.js';
import { PausedMeanwhile } from './paused-work.js';
import { untilRedelivered } from './provider-retries.js';

/** A handler that runs inside the claim's transaction: a method with `inline: true`, or a route with `@UseWebhook`. */
export type InlineWork = Pick<Handler, 'name' | 'source' | 'retry' | 'classify'> & {
  readonly code: HandlerCode;
};

/** Another delivery of the event is in its inline transaction right now. */
export class InFlight extends Error {}

/** The event and the handlers of an inline transaction. */
export interface Inline {
  readonly source: Source;
  readonly event: IncomingEvent;
  readonly works: ReadonlyMap<string, InlineWork>;
  /** Handlers of the same event that are not inline. */
  readonly others: readonly Handler[];
}

/** How far an inline transaction has come. */
export interface Progress {
  readonly startedAt: number;
  taken?: Taken;
  failed: boolean;
  readonly afterCommit: (() => void)[];
}

/** Takes the rows of inline work, and recovers from an inline transaction that failed. */
@Injectable()
export class InlineRecovery {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly claims: ClaimStore,
    private readonly store: OutboxStore,
    private readonly settles: SettleStore,
    private readonly claimer: Claimer,
    private readonly deliveryClaims: DeliveryClaims,
    private readonly failures: FailureSettler,
    private readonly wakeUp: WakeUp,
    private readonly unreported: UnreportedDeaths,
    private readonly tally: Tally,
  ) {}

  /** Claims with the rows owed, or takes what a redelivery may. `leaveInline`: inline rows are left to the relay. */
  async take(manager: EntityManager, inline: Inline, leaveInline: boolean): Promise<Taken> {
    const { source, event, works, others } = inline;
    const otherNames = others.map((handler) => handler.name);
    if (source.retries === 'provider') {
      const routes = [...works.values()].map(({ name, retry }) => ({ name, maxAttempts: retry.maxAttempts }));
      return this.deliveryClaims.take(manager, source, event, [...works.keys(), ...otherNames], routes);
    }
    const leaseable = leaveInline ? [] : [...works.keys()];
    const unleased = leaveInline ? [...works.keys(), ...otherNames] : otherNames;
    return this.deliveryClaims.takeOwn(manager, source, event, leaseable, unleased);
  }

  /**
   * Finds out how the transaction ended, or claims the event again without inline work.
   * @returns undefined when it has committed
   * @throws PausedMeanwhile
   */
  async recover(
    inline: Inline,
    { taken, startedAt }: Progress,
    error: unknown,
  ): Promise<Verdict | undefined> {
    if (error instanceof PausedMeanwhile) throw error;
    if (error instanceof InFlight) return this.meetWinner(inline);
    if (error instanceof NotCommitted && error.inDoubt) {
      this.unreported.recordDoubt(startedAt);
      const isCommitted = await this.isCommitted(inline, taken!);
      return isCommitted ? undefined : { kind: 'unavailable', why: 'the commit is in doubt' };
    }
    this.logFailure(inline, error);
    return this.claimWithoutInline(inline, error);
  }

  private logFailure({ source, event }: Inline, error: unknown): void {
    const facts = { source: source.name, tenant: event.tenant, event: event.eventId };
    this.logger.warn(
      logLine(`inline transaction failed, claimed without it: ${errorText(error)}`, {
        ...facts,
        at: placeOfError(error),
      }),
    );
    logStack(this.logger, error, facts);
  }

  /** The rows that were inline are settled as failed, or left to the relay. */
  private async claimWithoutInline(inline: Inline, error: unknown): Promise<Verdict> {
    const { source } = inline;
    let afterCommit: (() => void)[] = [];
    const verdict = await this.claimer.transaction(async (manager): Promise<Verdict> => {
      afterCommit = [];
      const fresh = await this.take(manager, inline, source.retries === 'own');
      if (!fresh.won) afterCommit.push(() => this.tally.countDuplicate(inline.event));
      if (source.retries === 'own') return { kind: fresh.won ? 'ok' : 'duplicate' };
      afterCommit.push(() => this.failures.reportExhausted(fresh.exhausted));
      if (fresh.busy > 0) return { kind: 'unavailable', why: 'the event is being handled' };
      const rows = ofInline(fresh.leased, inline);
      if (error instanceof NoSlot && rows.length > 0) {
        await this.store.release(manager, fresh.leased, untilRedelivered(source, rows[0]));
        return { kind: 'failed' };
      }
      let failed = false;
      // The error that failed them together says nothing about a single one. So each is tried again.
      const failure = rows.length > 1 ? new Error(errorText(error), { cause: error }) : error;
      for (const row of rows) {
        const work = inline.works.get(row.name)!;
        failed =
          (await this.settleFailure({ manager, afterCommit }, source, row, work, failure)) === 'retry' ||
          failed;
      }
      const others = fresh.leased.filter((row) => !inline.works.has(row.name));
      // They wait for the same redelivery, or for our relay when no redelivery can come.
      await this.store.release(manager, others, failed ? untilRedelivered(source, others[0]) : {});
      if (failed) return { kind: 'failed' };
      return { kind: fresh.won || fresh.leased.length > 0 ? 'ok' : 'duplicate' };
    });
    for (const tell of afterCommit) tell();
    this.wakeUp.wake();
    return verdict;
  }

  /** 2xx only when the winner has committed: it may still roll back. */
  private async meetWinner({ source, event }: Inline): Promise<Verdict> {
    const state = await this.claims.findProgress(this.dataSource.manager, event);
    const known = source.retries === 'own' ? state !== 'unknown' : state === 'settled';
    return known
      ? { kind: 'duplicate' }
      : { kind: 'unavailable', why: 'another delivery of the event is being handled' };
  }

  private async isCommitted(inline: Inline, taken: Taken): Promise<boolean> {
    const { manager } = this.dataSource;
    if (inline.source.retries === 'own') return (await this.claims.find(manager, inline.event)) !== undefined;
    // Rows that the lease made dead have no settle to look up. The redelivery finds them.
    if (taken.exhausted.length > 0) return false;
    for (const row of ofInline(taken.leased, inline)) {
      if ((await this.settles.endOf(manager, row)) === undefined) return false;
    }
    return true;
  }

  async settleFailure(
    within: CallerTransaction,
    source: Source,
    row: LeasedRow,
    work: InlineWork,
    error: unknown,
  ): Promise<RunOutcome> {
    const awaiting = source.retries === 'provider' ? source : undefined;
    const outcome = await this.failures.settleHandler(row, error, work, awaiting, within);
    if (outcome === 'dead') this.unreported.recordDead(row.id);
    return outcome;
  }
}

export function ofInline(rows: readonly LeasedRow[], { works }: Inline): LeasedRow[] {
  return rows.filter((row) => works.has(row.name));
}
