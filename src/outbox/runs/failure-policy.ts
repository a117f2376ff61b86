import { classify, type Classifier } from '../../core/classify.js';
import { retryWindowMs, type Source } from '../../core/options/resolve-source.js';
import { retryDelayMs, type RetryPolicy } from '../../core/options/retry.js';
import { UnreadableBody } from '../../core/body.js';
import type { Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { FailedSettle } from '../../storage/settle.store.js';
import { ResultRefused } from './result.js';

/** The settings that decide about a failed attempt. */
export interface FailurePolicy {
  readonly retry: RetryPolicy;
  readonly classifiers: readonly (Classifier | undefined)[];
  /** Set when the provider's redelivery must try again, rather than our relay. */
  readonly awaitRedelivery?: Source;
  /** Set for effects whose outside call may have to be made again. */
  readonly effect?: Effect;
  /** The outside call of this attempt, or of an earlier one, may have gone through. @default false */
  readonly inDoubt?: boolean;
}

/** Whether the effect records that its call begins: only then is an attempt without an end known to be one. */
export function tracksDoubt({ options }: Effect): boolean {
  return options.probe !== undefined || options.inDoubt === 'park';
}

/** The step after a failed attempt, for the log. */
export function nextOf(to: FailedSettle, { awaitRedelivery }: FailurePolicy): string {
  if (to.state !== 'pending') return to.state;
  return awaitRedelivery ? "the provider's redelivery" : `${to.delayMs} ms`;
}

/** The state of a row after a failed attempt. */
export function decide(
  row: Pick<LeasedRow, 'tries' | 'ageMs' | 'event'>,
  error: unknown,
  policy: FailurePolicy,
): FailedSettle {
  if (error instanceof UnreadableBody) {
    return { state: 'dead', reason: policy.effect ? 'unreadable-payload' : 'unreadable-body' };
  }
  // Another attempt would call once more, so the effect's own classifier is not asked.
  if (error instanceof ResultRefused) return { state: 'dead', reason: 'permanent-error' };
  const failure = classify(error, ...policy.classifiers);
  if (failure.kind === 'permanent') return { state: 'dead', reason: 'permanent-error' };
  // The next redelivery leases the row before its due time, and makes it dead when its attempts are used up.
  // Our relay runs it when no redelivery can come any more. The provider counts its window from the first delivery.
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
