import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { placeOfError, logStack } from '../../core/log/stack.js';
import type { DeadReason, ParkedReason } from '../../core/states.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { measure } from '../../core/telemetry/meters.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { Handler } from '../../handlers/handler.registry.js';
import type { ExhaustedRow, LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore, type FailedSettle } from '../../storage/settle.store.js';
import { DeadLetters } from './dead-letters.js';
import { decide, nextOf, type FailurePolicy } from './failure-policy.js';
import { LoneStatements } from './lone-statements.js';
import { NewEffectsRefused } from './run.transaction.js';
import type { ResultRefused } from './result.js';
import { rowFacts } from '../relay/row-facts.js';

/** A warning for the person who decides about a parked effect. */
const MAY_DUPLICATE = '; another attempt may do it twice';

/**
 * How a run ended. `refused`: a repeated run would have enqueued new effects, and its row is as before. `put-off`: its destination must not
 * be called now, and the attempt does not count. `handed`: an engine has it. `lost`: the lease belonged to another process, so nothing was recorded.
 */
export type RunOutcome =
  'done' | 'superseded' | 'refused' | 'retry' | 'dead' | 'parked' | 'lost' | 'put-off' | 'handed';
export type FailureOutcome = Exclude<RunOutcome, 'done' | 'superseded' | 'put-off' | 'handed'>;

/** A transaction of the caller's. */
export interface CallerTransaction {
  readonly manager: EntityManager;
  /** Alerts that are raised after the commit. Before it, or after a rollback, a person would find nothing. */
  readonly afterCommit: (() => void)[];
}

/** Settles failed attempts: another attempt, or dead. Raises the alerts of dead and parked rows. */
@Injectable()
export class FailureSettler {
  private readonly logger = new InboxLogger();
  private readonly aborted = new WeakSet<LeasedRow>();
  private readonly excused = new WeakSet<LeasedRow>();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: SettleStore,
    private readonly statements: LoneStatements,
    private readonly deadLetters: DeadLetters,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /** Failures of these rows are not recorded, since they were released or their lease ends. A shutdown is not a failed attempt. */
  abandon(rows: readonly LeasedRow[]): void {
    for (const row of rows) this.aborted.add(row);
  }

  /** A loss of this attempt is not counted. */
  excuse(row: LeasedRow): void {
    this.excused.add(row);
  }

  /**
   * Settles a failed run of a handler.
   * @param awaitRedelivery the source, when its provider's redelivery must repeat the run
   */
  settleHandler(
    row: LeasedRow,
    error: unknown,
    work: Pick<Handler, 'retry' | 'classify' | 'source'>,
    awaitRedelivery?: Source,
    within?: CallerTransaction,
  ): Promise<FailureOutcome> {
    const source = this.options.sources.get(work.source);
    const classifiers = [work.classify, source?.classify];
    return this.settle(row, error, { retry: work.retry, classifiers, awaitRedelivery }, within);
  }

  /** @param within the transaction that the settle belongs to. @default none: it is recorded and alerted at once */
  async settle(
    row: LeasedRow,
    error: unknown,
    policy: FailurePolicy,
    within?: CallerTransaction,
  ): Promise<FailureOutcome> {
    if (this.aborted.has(row)) return 'lost';
    if (error instanceof NewEffectsRefused) return this.refuse(row, error, within);
    const to = decide(row, error, policy);
    const text = errorText(error);
    const at = placeOfError(error);
    const settled = await (within === undefined
      ? this.record(row, to, text, policy.inDoubt, at)
      : this.store.fail(within.manager, row, to, text, policy.inDoubt, false, at));
    this.logger.warn(
      logLine(
        settled ? `attempt failed: ${text}` : `attempt failed after its lease was lost: ${text}`,
        rowFacts(row, { next: nextOf(to, policy), at }),
      ),
    );
    logStack(this.logger, error, rowFacts(row));
    if (!settled) return 'lost';
    const tell = () => {
      if (to.state === 'pending') this.tally.add(row.event?.source ?? '', 'retried');
      else if (to.state === 'parked') this.reportParked(row, to.reason, text);
      else this.reportDead(row, to.reason, text);
    };
    if (within === undefined) tell();
    else within.afterCommit.push(tell);
    return to.state === 'pending' ? 'retry' : to.state;
  }

  /** Has a person decide about a run that was done once and would now do more. */
  private async refuse(
    row: LeasedRow,
    error: NewEffectsRefused,
    within?: CallerTransaction,
  ): Promise<FailureOutcome> {
    const { effects } = error;
    const text = errorText(error);
    const refuse = (manager: EntityManager) => this.store.refuseRerun(manager, row, effects, text);
    const recorded = await (within === undefined
      ? this.statements.send(
          async (manager) => (await refuse(manager)) || (await this.store.isRefusedRerun(manager, row)),
        )
      : refuse(within.manager));
    this.logger.warn(logLine(`run refused: ${text}`, rowFacts(row)));
    if (!recorded) return 'lost';
    const tell = () => {
      const names = [...new Set(effects.map(({ name }) => name))];
      const { outboxId, name, event } = eventFields(row);
      this.alerts.raise({ kind: 'new-effects-refused', outboxId, name, event: event!, effects: names });
    };
    if (within === undefined) tell();
    else within.afterCommit.push(tell);
    return 'refused';
  }

  /** Parks a leased effect: its end is not known, or its key may be forgotten. */
  async park(row: LeasedRow, reason: ParkedReason): Promise<FailureOutcome> {
    const text =
      reason === 'in-doubt'
        ? 'an attempt was begun and its end is unknown'
        : 'the other side may have forgotten the key';
    if (!(await this.record(row, { state: 'parked', reason }, text + MAY_DUPLICATE, row.begun)))
      return 'lost';
    this.reportParked(row, reason, text);
    return 'parked';
  }

  /**
   * Makes a row dead whose attempt ended after its lease, so that it is not called again. It does nothing once another attempt has begun.
   */
  async refuseLate(row: LeasedRow, error: ResultRefused): Promise<void> {
    const text = errorText(error);
    const to = { state: 'dead', reason: 'permanent-error' } as const;
    this.logger.warn(logLine(`a late end was refused: ${text}`, rowFacts(row)));
    const settled = await this.statements.send(
      async (manager) =>
        (await this.store.failLate(manager, row, to, text, placeOfError(error))) ||
        (await this.store.hasFailed(manager, row, to, text)),
    );
    if (settled) this.reportDead(row, to.reason, text);
  }

  /** A handler's row whose claim is gone (deleted by hand, or restored from an older backup) has nothing to be run with. */
  async bury(row: LeasedRow): Promise<void> {
    const reason = 'unreadable-body';
    const text = 'its claim is gone, and the body with it';
    try {
      if (await this.record(row, { state: 'dead', reason }, text)) this.reportDead(row, reason, text);
    } catch (error) {
      // Its lease will end: those leased beside it run all the same.
      this.logger.error(
        logLine(`a row could not be recorded as dead (${text}): ${errorText(error)}`, rowFacts(row)),
      );
    }
  }

  /** Raises the alerts of rows that the lease found exhausted. */
  reportExhausted(rows: readonly ExhaustedRow[]): void {
    for (const row of rows) {
      if (row.reason === 'in-doubt')
        this.reportParked(row, row.reason, 'the last attempt was begun and never ended');
      else this.reportDead(row, row.reason, row.error);
    }
  }

  /** Also true when the statement was sent twice because its first answer was lost. */
  private record(
    row: LeasedRow,
    to: FailedSettle,
    error: string,
    inDoubt?: boolean,
    at?: string,
  ): Promise<boolean> {
    return this.statements.send(
      async (manager) =>
        (await this.store.fail(manager, row, to, error, inDoubt, this.excused.has(row), at)) ||
        (await this.store.hasFailed(manager, row, to, error)),
    );
  }

  private reportDead(row: LeasedRow | ExhaustedRow, reason: DeadReason, error: string | undefined): void {
    this.tally.add(row.event?.source ?? '', 'dead');
    this.lifecycle.emit('dead', () => ({ ...eventFields(row), reason }));
    measure('webhook_inbox.dead', 1, { name: row.name, reason });
    this.alerts.raise({ kind: 'dead-letter', ...eventFields(row), reason, error });
    void this.deadLetters.check();
  }

  private reportParked(row: LeasedRow | ExhaustedRow, reason: ParkedReason, error: string): void {
    this.lifecycle.emit('parked', () => ({ ...eventFields(row), reason }));
    measure('webhook_inbox.parked', 1, { name: row.name, reason });
    this.alerts.raise({ kind: 'parked', ...eventFields(row), reason, error: error + MAY_DUPLICATE });
  }
}

function eventFields({ id: outboxId, name, attempt, event }: LeasedRow | ExhaustedRow) {
  return {
    outboxId,
    name,
    attempt,
    event: event && { source: event.source, tenant: event.tenant, eventId: event.eventId },
  };
}
