import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';
import type { Source } from '../core/options/resolve-source.js';
import { placeOfError, tellStack } from '../core/log/stack.js';
import { WebhookLifecycle } from '../core/telemetry/lifecycle-events.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import type { Handler } from '../handlers/handler.registry.js';
import { attempted } from '../outbox/runs/attempt-span.js';
import { Deadline } from '../outbox/runs/deadline.js';
import { DeliveryPlaces, NoPlace } from '../outbox/relay/delivery-places.js';
import { FailureSettler, type RunOutcome, type Within } from '../outbox/runs/failure.settler.js';
import { HandlerRunner, type HandlerCode } from '../outbox/runs/handler.runner.js';
import { rowEvent, rowFacts } from '../outbox/relay/row-facts.js';
import { RunTransactions } from '../outbox/runs/run.transactions.js';
import { UntoldDeaths } from '../outbox/runs/untold-deaths.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { ClaimStore } from '../storage/claim.store.js';
import type { LeasedRow } from '../storage/leased-rows.js';
import { OutboxStore } from '../storage/outbox.store.js';
import { SettleStore } from '../storage/settle.store.js';
import { NotCommitted } from '../storage/postgres/connection.js';
import type { UserTransaction } from '../storage/postgres/user-transaction.js';
import { Claimer } from './claimer.js';
import type { IncomingEvent } from './delivery.js';
import { PausedMeanwhile } from './paused-work.js';
import { ProviderRetries, untilRedelivered, type Taken } from './provider-retries.js';
import type { Verdict } from './verdict.js';

/** A handler that runs inside the claim's transaction: a method with `inline: true`, or a route with `@UseWebhook`. */
export type InlineWork = Pick<Handler, 'name' | 'source' | 'retry' | 'classify'> & {
  readonly code: HandlerCode;
};

/**
 * Has what a handler left for COMMIT to check checked now, so that a failure is that handler's and not every one's. Rolled back: the
 * constraints are as they were, and COMMIT checks again.
 */
const CHECK_DEFERRED =
  'SAVEPOINT webhook_checked; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO SAVEPOINT webhook_checked';

/** Another delivery of the event is in its inline transaction right now. */
class InFlight extends Error {}

/** What an inline transaction is about. */
interface Inline {
  readonly source: Source;
  readonly event: IncomingEvent;
  readonly works: ReadonlyMap<string, InlineWork>;
  /** Handlers of the same event that are not inline. */
  readonly others: readonly Handler[];
}

/** How far an inline transaction has come. */
interface Progress {
  readonly startedAt: number;
  taken?: Taken;
  failed: boolean;
  readonly afterCommit: (() => void)[];
}

/**
 * Claims an event and runs its inline handlers in one transaction, each under its own savepoint: one that fails leaves nothing
 * behind but its failed attempt, and what the others wrote is committed with the claim.
 */
@Injectable()
export class InlineDispatcher {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly claims: ClaimStore,
    private readonly store: OutboxStore,
    private readonly settles: SettleStore,
    private readonly claimer: Claimer,
    private readonly providerRetries: ProviderRetries,
    private readonly runner: HandlerRunner,
    private readonly transactions: RunTransactions,
    private readonly lifecycle: WebhookLifecycle,
    private readonly failures: FailureSettler,
    private readonly wakeUp: WakeUp,
    private readonly tally: Tally,
    private readonly places: DeliveryPlaces,
    private readonly untold: UntoldDeaths,
  ) {}

  async dispatch(
    source: Source,
    event: IncomingEvent,
    works: readonly InlineWork[],
    others: readonly Handler[],
  ): Promise<Verdict> {
    const inline: Inline = { source, event, works: new Map(works.map((work) => [work.name, work])), others };
    const progress: Progress = { startedAt: performance.now(), failed: false, afterCommit: [] };
    try {
      // One place for all of them: they share a connection.
      await this.places.run(works[0]!, source.ackTimeoutMs, (leftMs) =>
        this.runInPlace(inline, progress, works[0]!.name, leftMs),
      );
    } catch (error) {
      return await this.recover(inline, progress, error);
    }
    for (const tell of progress.afterCommit) tell();
    this.wakeUp.wake();
    return this.conclude(inline, progress.taken!, progress.failed);
  }

  private async runInPlace(
    inline: Inline,
    progress: Progress,
    name: string,
    timeoutMs: number,
  ): Promise<void> {
    const { source, event } = inline;
    const deadline = new Deadline(`the inline handlers of source '${source.name}'`, timeoutMs);
    try {
      await this.transactions.open(name, timeoutMs, async (transaction) => {
        if (!(await transaction.asOurs((manager) => this.claims.lockInline(manager, event))))
          throw new InFlight();
        const taken = await transaction.asOurs((manager) => this.take(manager, inline, false));
        progress.taken = taken;
        for (const row of ofInline(taken.leased, inline)) {
          const run = () => this.runUnderSavepoint(transaction, inline, row, deadline.signal, progress);
          const outcome = await attempted([row], (one) => [one], run, true);
          progress.failed ||= outcome === 'retry';
        }
      });
    } finally {
      deadline.end();
    }
  }

  /** After the commit: the rows that are not inline, and the verdict. */
  private async conclude(inline: Inline, taken: Taken, failed: boolean): Promise<Verdict> {
    const { source, event } = inline;
    this.providerRetries.tell(event, taken);
    this.logger.log(
      logLine(taken.won ? 'claimed' : 'duplicate', {
        source: source.name,
        tenant: event.tenant,
        event: event.eventId,
        type: event.type,
        id: event.id,
      }),
    );
    if (source.retries === 'own') return { kind: taken.won ? 'ok' : 'duplicate' };
    const inlineRan = ofInline(taken.leased, inline).length > 0;
    const leased = taken.leased.filter((row) => !inline.works.has(row.name));
    const verdict = await this.providerRetries.runTaken(source, { ...taken, leased });
    if (failed) return { kind: 'failed' };
    return verdict.kind === 'duplicate' && inlineRan ? { kind: 'ok' } : verdict;
  }

  private async runUnderSavepoint(
    transaction: UserTransaction,
    { source, works }: Inline,
    row: LeasedRow,
    signal: AbortSignal,
    { afterCommit }: Progress,
  ): Promise<RunOutcome> {
    const work = works.get(row.name)!;
    await transaction.query('SAVEPOINT webhook_inline');
    try {
      const outcome = await this.runner.runWithin(transaction, row, work.code, signal);
      await transaction.query(CHECK_DEFERRED);
      await transaction.query('RELEASE SAVEPOINT webhook_inline');
      this.logger.log(logLine(`${outcome} inline`, rowFacts(row)));
      if (outcome === 'done') this.tally.add(source.name, 'handled');
      afterCommit.push(() => this.lifecycle.emit('handled', () => ({ ...rowEvent(row), outcome })));
      return outcome;
    } catch (error) {
      // Time is up: the connection goes, and what is owed is claimed afresh on another.
      if (signal.aborted || error instanceof PausedMeanwhile) throw error;
      await transaction.query('ROLLBACK TO SAVEPOINT webhook_inline');
      return await transaction.asOurs((manager) =>
        this.settleFailure({ manager, afterCommit }, source, row, work, error),
      );
    }
  }

  /** The transaction is gone. Finds out what is known, or makes the claim afresh without inline work. */
  private async recover(
    inline: Inline,
    { taken, startedAt, afterCommit: told }: Progress,
    error: unknown,
  ): Promise<Verdict> {
    const { source, event } = inline;
    if (error instanceof PausedMeanwhile) throw error;
    if (error instanceof InFlight) return this.meetWinner(inline);
    if (error instanceof NotCommitted && error.inDoubt) {
      this.untold.doubt(startedAt);
      if (!(await this.isCommitted(inline, taken!)))
        return { kind: 'unavailable', why: 'the commit is in doubt' };
      for (const tell of told) tell();
      this.wakeUp.wake();
      return this.conclude(inline, taken!, false);
    }
    const facts = { source: source.name, tenant: event.tenant, event: event.eventId };
    this.logger.warn(
      logLine(`inline transaction failed, claimed without it: ${errorText(error)}`, {
        ...facts,
        at: placeOfError(error),
      }),
    );
    tellStack(this.logger, error, facts);
    let afterCommit: (() => void)[] = [];
    const verdict = await this.claimer.transaction(async (manager): Promise<Verdict> => {
      afterCommit = [];
      const fresh = await this.take(manager, inline, source.retries === 'own');
      if (source.retries === 'own') return { kind: fresh.won ? 'ok' : 'duplicate' };
      afterCommit.push(() => this.failures.tellExhausted(fresh.exhausted));
      if (fresh.busy > 0) return { kind: 'unavailable', why: 'the event is being handled' };
      const rows = ofInline(fresh.leased, inline);
      if (error instanceof NoPlace && rows.length > 0) {
        await this.store.release(manager, fresh.leased, untilRedelivered(source, rows[0]));
        return { kind: 'failed' };
      }
      let failed = false;
      // What failed them together says nothing about one of them: each is tried again.
      const failure = rows.length > 1 ? new Error(errorText(error), { cause: error }) : error;
      for (const row of rows) {
        const work = inline.works.get(row.name)!;
        failed =
          (await this.settleFailure({ manager, afterCommit }, source, row, work, failure)) === 'retry' ||
          failed;
      }
      const others = fresh.leased.filter((row) => !inline.works.has(row.name));
      // They wait for the same redelivery, or for our relay when none is to come.
      await this.store.release(manager, others, failed ? untilRedelivered(source, others[0]) : {});
      if (failed) return { kind: 'failed' };
      return { kind: fresh.won || fresh.leased.length > 0 ? 'ok' : 'duplicate' };
    });
    for (const tell of afterCommit) tell();
    this.wakeUp.wake();
    return verdict;
  }

  /** Claims with the rows owed, or takes what a redelivery may. `leaveInline`: inline rows are left to the relay. */
  private async take(manager: EntityManager, inline: Inline, leaveInline: boolean): Promise<Taken> {
    const { source, event, works, others } = inline;
    const otherNames = others.map((handler) => handler.name);
    if (source.retries === 'provider') {
      const routes = [...works.values()].map(({ name, retry }) => ({ name, maxAttempts: retry.maxAttempts }));
      return this.providerRetries.take(manager, source, event, [...works.keys(), ...otherNames], routes);
    }
    const leaseable = leaveInline ? [] : [...works.keys()];
    const unleased = leaveInline ? [...works.keys(), ...otherNames] : otherNames;
    return this.providerRetries.takeOwn(manager, source, event, leaseable, unleased);
  }

  /** 2xx only when the winner has committed: it may still roll back. */
  private async meetWinner({ source, event }: Inline): Promise<Verdict> {
    const state = await this.claims.progress(this.dataSource.manager, event);
    const known = source.retries === 'own' ? state !== 'unknown' : state === 'settled';
    return known
      ? { kind: 'duplicate' }
      : { kind: 'unavailable', why: 'another delivery of the event is being handled' };
  }

  private async isCommitted(inline: Inline, taken: Taken): Promise<boolean> {
    const { manager } = this.dataSource;
    if (inline.source.retries === 'own') return (await this.claims.find(manager, inline.event)) !== undefined;
    // Made dead in the lease: no settle tells of it, and the redelivery finds out.
    if (taken.exhausted.length > 0) return false;
    for (const row of ofInline(taken.leased, inline)) {
      if ((await this.settles.endOf(manager, row)) === undefined) return false;
    }
    return true;
  }

  private async settleFailure(
    within: Within,
    source: Source,
    row: LeasedRow,
    work: InlineWork,
    error: unknown,
  ): Promise<RunOutcome> {
    const awaiting = source.retries === 'provider' ? source : undefined;
    const outcome = await this.failures.settleHandler(row, error, work, awaiting, within);
    if (outcome === 'dead') this.untold.madeDead(row.id);
    return outcome;
  }
}

function ofInline(rows: readonly LeasedRow[], { works }: Inline): LeasedRow[] {
  return rows.filter((row) => works.has(row.name));
}
