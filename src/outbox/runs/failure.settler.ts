import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { classify, type Classifier } from '../../core/classify.js';
import { errorText, logLine } from '../../core/log/log.js';
import { UnreadableBody } from '../../core/payload.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { retryWindowMs, type Source } from '../../core/options/resolve-source.js';
import { retryDelayMs, type RetryPolicy } from '../../core/options/retry.js';
import { placeOfError, tellStack } from '../../core/log/stack.js';
import type { DeadReason, ParkedReason } from '../../core/states.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { measure } from '../../core/telemetry/meters.js';
import { Tally } from '../../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { Effect, Handler } from '../../handlers/handler.registry.js';
import type { ExhaustedRow, LeasedRow } from '../../storage/leased-rows.js';
import { SettleStore, type FailedSettle } from '../../storage/settle.store.js';
import { DeadLetters } from './dead-letters.js';
import { LoneStatements } from './lone-statements.js';
import { NewEffectsRefused } from './new-effects.js';
import { ResultRefused } from './result.js';
import { rowFacts } from '../relay/row-facts.js';

/** What a person is to know who decides about a parked effect. */
const MAY_DUPLICATE = '; another attempt may do it twice';

/**
 * How a run ended. `refused`: it would have enqueued effects that its handler, once done for the event, had not; its row is what it was
 * before. `put-off`: its destination is not to be called now; the attempt does not count. `lost`: the lease was no longer ours, so that nothing was recorded; another process has the row.
 */
export type RunOutcome = 'done' | 'superseded' | 'refused' | 'retry' | 'dead' | 'parked' | 'lost' | 'put-off';
export type FailureOutcome = Exclude<RunOutcome, 'done' | 'superseded' | 'put-off'>;

/** What decides about a failed attempt. */
export interface FailurePolicy {
  readonly retry: RetryPolicy;
  readonly classifiers: readonly (Classifier | undefined)[];
  /** Set when the provider's redelivery is to try again, rather than our relay. */
  readonly awaitRedelivery?: Source;
  /** Set for effects whose outside call may have to be made again: what they say about that. */
  readonly effect?: Effect;
  /** The outside call of this attempt, or of an earlier one, may have gone through. @default false */
  readonly inDoubt?: boolean;
}

/** A transaction of the caller's. */
export interface Within {
  readonly manager: EntityManager;
  /** What is to be told once it has committed: a person who looks before that, or after a rollback, finds nothing. */
  readonly afterCommit: (() => void)[];
}

/** Settles failed attempts: try again, or dead; and tells a person about the dead ones. */
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

  /** A shutdown is nobody's failed attempt: a failure of these rows, given back or with a lease that will end, is not recorded. */
  abandon(rows: readonly LeasedRow[]): void {
    for (const row of rows) this.aborted.add(row);
  }

  /** A loss of this attempt is not counted. */
  excuse(row: LeasedRow): void {
    this.excused.add(row);
  }

  /**
   * Settles a failed run of a handler.
   * @param awaitRedelivery the source, when its provider's redelivery is to repeat the run
   */
  settleHandler(
    row: LeasedRow,
    error: unknown,
    work: Pick<Handler, 'retry' | 'classify' | 'source'>,
    awaitRedelivery?: Source,
    within?: Within,
  ): Promise<FailureOutcome> {
    const source = this.options.sources.get(work.source);
    const classifiers = [work.classify, source?.classify];
    return this.settle(row, error, { retry: work.retry, classifiers, awaitRedelivery }, within);
  }

  /** @param within the transaction that it belongs to. @default none: recorded, and told, at once */
  async settle(
    row: LeasedRow,
    error: unknown,
    policy: FailurePolicy,
    within?: Within,
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
    tellStack(this.logger, error, rowFacts(row));
    if (!settled) return 'lost';
    const tell = () => {
      if (to.state === 'pending') this.tally.add(row.event?.source ?? '', 'retried');
      else if (to.state === 'parked') this.tellParked(row, to.reason, text);
      else this.tellDead(row, to.reason, text);
    };
    if (within === undefined) tell();
    else within.afterCommit.push(tell);
    return to.state === 'pending' ? 'retry' : to.state;
  }

  /** Has a person decide about a run that was done once and would now do more. */
  private async refuse(row: LeasedRow, error: NewEffectsRefused, within?: Within): Promise<FailureOutcome> {
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
      const { outboxId, name, event } = told(row);
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
    this.tellParked(row, reason, text);
    return 'parked';
  }

  /** Makes a row dead whose attempt has ended after its lease, so that it is not called again; not once another attempt has begun. */
  async refuseLate(row: LeasedRow, error: ResultRefused): Promise<void> {
    const text = errorText(error);
    const to = { state: 'dead', reason: 'permanent-error' } as const;
    this.logger.warn(logLine(`a late end was refused: ${text}`, rowFacts(row)));
    const settled = await this.statements.send(
      async (manager) =>
        (await this.store.failLate(manager, row, to, text, placeOfError(error))) ||
        (await this.store.hasFailed(manager, row, to, text)),
    );
    if (settled) this.tellDead(row, to.reason, text);
  }

  /** A handler's row whose claim is gone (deleted by hand, or restored from an older backup) has nothing to be run with. */
  async bury(row: LeasedRow): Promise<void> {
    const reason = 'unreadable-body';
    const text = 'its claim is gone, and the body with it';
    try {
      if (await this.record(row, { state: 'dead', reason }, text)) this.tellDead(row, reason, text);
    } catch (error) {
      // Its lease will end: those leased beside it run all the same.
      this.logger.error(
        logLine(`a row could not be recorded as dead (${text}): ${errorText(error)}`, rowFacts(row)),
      );
    }
  }

  /** Tells of rows that the lease found exhausted. */
  tellExhausted(rows: readonly ExhaustedRow[]): void {
    for (const row of rows) {
      if (row.reason === 'in-doubt')
        this.tellParked(row, row.reason, 'the last attempt was begun and never ended');
      else this.tellDead(row, row.reason, row.error);
    }
  }

  /** Also true where the statement was sent twice, since the first answer was lost, and the first had been done. */
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

  private tellDead(row: LeasedRow | ExhaustedRow, reason: DeadReason, error: string | undefined): void {
    this.tally.add(row.event?.source ?? '', 'dead');
    this.lifecycle.emit('dead', () => ({ ...told(row), reason }));
    measure('webhook_inbox.dead', 1, { name: row.name, reason });
    this.alerts.raise({ kind: 'dead-letter', ...told(row), reason, error });
    void this.deadLetters.check();
  }

  private tellParked(row: LeasedRow | ExhaustedRow, reason: ParkedReason, error: string): void {
    this.lifecycle.emit('parked', () => ({ ...told(row), reason }));
    measure('webhook_inbox.parked', 1, { name: row.name, reason });
    this.alerts.raise({ kind: 'parked', ...told(row), reason, error: error + MAY_DUPLICATE });
  }
}

/** Whether the effect records that its call begins: only then is an attempt without an end known to be one. */
export function tracksDoubt({ options }: Effect): boolean {
  return options.probe !== undefined || options.inDoubt === 'park';
}

function told({ id: outboxId, name, attempt, event }: LeasedRow | ExhaustedRow) {
  return {
    outboxId,
    name,
    attempt,
    event: event && { source: event.source, tenant: event.tenant, eventId: event.eventId },
  };
}

/** What comes after a failed attempt, in words. */
function nextOf(to: FailedSettle, { awaitRedelivery }: FailurePolicy): string {
  if (to.state !== 'pending') return to.state;
  return awaitRedelivery ? "the provider's redelivery" : `${to.delayMs} ms`;
}

function decide(row: LeasedRow, error: unknown, policy: FailurePolicy): FailedSettle {
  if (error instanceof UnreadableBody) {
    return { state: 'dead', reason: policy.effect ? 'unreadable-payload' : 'unreadable-body' };
  }
  // Whatever the effect's own classifier makes of other errors: another attempt would call once more.
  if (error instanceof ResultRefused) return { state: 'dead', reason: 'permanent-error' };
  const failure = classify(error, ...policy.classifiers);
  if (failure.kind === 'permanent') return { state: 'dead', reason: 'permanent-error' };
  // The next redelivery leases the row whatever its due time, and makes it dead when its attempts are used up.
  // Ours when none can come any more: the provider counts its window from the first delivery, whichever has failed.
  if (policy.awaitRedelivery) {
    const delayMs = retryWindowMs(policy.awaitRedelivery.provider);
    return { state: 'pending', delayMs, since: row.event?.receivedAt };
  }
  const exhausted = row.tries >= policy.retry.maxAttempts;
  const { effect } = policy;
  const parks = policy.inDoubt === true && effect?.options.inDoubt === 'park';
  if (parks && (exhausted || !effect.options.probe)) return { state: 'parked', reason: 'in-doubt' };
  if (exhausted) return { state: 'dead', reason: 'attempts-exhausted' };
  const delayMs = retryDelayMs(policy.retry, row.tries, failure.delayMs);
  // The next attempt, run to its longest, would end after the other side may have forgotten the key.
  if (effect !== undefined && row.ageMs + delayMs + 2 * effect.timeoutMs > effect.keyRetentionMs) {
    return { state: 'parked', reason: 'key-expired' };
  }
  return { state: 'pending', delayMs };
}
