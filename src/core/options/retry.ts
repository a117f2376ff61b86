/** When a failed row is tried again. */
export interface RetryPolicy {
  /** First delay, in milliseconds. */
  readonly baseMs: number;
  /** Longest delay, in milliseconds. */
  readonly capMs: number;
  /** Attempts until the row is dead. */
  readonly maxAttempts: number;
}

/** The longest delay that the other side may ask for. A longer one, or one that is no number, is taken for a mistake. */
const MAX_ASKED_MS = 30 * 86_400_000;

/**
 * Exponential back-off with full jitter: anywhere between 0 and base × 2^(attempt - 1), capped, so that rows that failed
 * together do not come back together. Never sooner than the other side asked for, within 30 days.
 */
export function retryDelayMs(
  policy: RetryPolicy,
  attempt: number,
  askedMs = 0,
  random = Math.random,
): number {
  const ceiling = Math.min(policy.capMs, policy.baseMs * 2 ** Math.min(attempt - 1, 52));
  const asked = Number.isNaN(askedMs) ? 0 : Math.min(askedMs, MAX_ASKED_MS);
  return Math.max(Math.round(random() * ceiling), asked);
}
