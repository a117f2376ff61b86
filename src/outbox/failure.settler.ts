import { Injectable, Logger } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Alerts } from '../core/alerts.js';
import { classify, type Classifier } from '../core/classify.js';
import { errorText, logLine } from '../core/log.js';
import { UnreadableBody } from '../core/payload.js';
import { retryWindowMs, type Source } from '../core/resolve-source.js';
import { retryDelayMs, type RetryPolicy } from '../core/retry.js';
import type { DeadReason } from '../core/states.js';
import { Tally } from '../core/tally.js';
import {
  OutboxStore,
  type ExhaustedRow,
  type FailedSettle,
  type LeasedRow,
} from '../storage/outbox.store.js';
import { DeadLetters } from './dead.letters.js';
import { rowFacts } from './row-facts.js';

/** How a run ended. `lost`: the lease was no longer ours, so that nothing was recorded; another process has the row. */
export type RunOutcome = 'done' | 'retry' | 'dead' | 'lost';

/** What decides about a failed attempt. */
export interface FailurePolicy {
  readonly retry: RetryPolicy;
  readonly classifiers: readonly (Classifier | undefined)[];
  /** Set when the provider's redelivery is to try again, rather than our relay. */
  readonly awaitRedelivery?: Source;
}

/** Settles failed attempts: try again, or dead; and tells a person about the dead ones. */
@Injectable()
export class FailureSettler {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    private readonly store: OutboxStore,
    private readonly deadLetters: DeadLetters,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
  ) {}

  async settle(
    manager: EntityManager,
    row: LeasedRow,
    error: unknown,
    policy: FailurePolicy,
  ): Promise<Exclude<RunOutcome, 'done'>> {
    const to = decide(row, error, policy);
    const text = errorText(error);
    const settled = await this.store.fail(manager, row, to, text);
    this.logger.warn(
      logLine(
        settled ? `attempt failed: ${text}` : `attempt failed after its lease was lost: ${text}`,
        rowFacts(row, { next: to.state === 'dead' ? 'dead' : `${to.delayMs} ms` }),
      ),
    );
    if (!settled) return 'lost';
    this.tally.add(row.event?.source ?? '', to.state === 'pending' ? 'retried' : 'dead');
    if (to.state === 'pending') return 'retry';
    this.tellDead(row, to.reason, text);
    return 'dead';
  }

  /** Tells of rows that the lease found exhausted. */
  tellExhausted(rows: readonly ExhaustedRow[]): void {
    for (const row of rows) this.tellDead(row, row.reason, row.error);
  }

  private tellDead(row: LeasedRow | ExhaustedRow, reason: DeadReason, error: string | undefined): void {
    const { id: outboxId, name, attempt } = row;
    const event = row.event && {
      source: row.event.source,
      tenant: row.event.tenant,
      eventId: row.event.eventId,
    };
    this.alerts.raise({ kind: 'dead-letter', outboxId, name, attempt, reason, error, event });
    void this.deadLetters.check();
  }
}

function decide(row: LeasedRow, error: unknown, policy: FailurePolicy): FailedSettle {
  if (error instanceof UnreadableBody) return { state: 'dead', reason: 'unreadable-body' };
  const failure = classify(error, ...policy.classifiers);
  if (failure.kind === 'permanent') return { state: 'dead', reason: 'permanent-error' };
  // The next redelivery leases the row whatever its due time, and makes it dead when its attempts are used up.
  if (policy.awaitRedelivery)
    return { state: 'pending', delayMs: retryWindowMs(policy.awaitRedelivery.provider) };
  if (row.tries >= policy.retry.maxAttempts) return { state: 'dead', reason: 'attempts-exhausted' };
  return { state: 'pending', delayMs: retryDelayMs(policy.retry, row.tries, failure.delayMs) };
}
