import { toMs, type Duration } from '../core/duration.js';
import { ConfigurationError } from '../core/errors.js';
import type { ProviderRetries } from '../core/provider.js';
import { hours } from './times.js';

/** What the sender of a source without a catalogue entry does when a delivery fails. */
export interface RetryOptions {
  /** Whether the vendor retries on its own. @default true */
  readonly retriesAutomatically?: boolean;
  /** From the vendor's first attempt to its last: milliseconds or text such as '72h'. @default '72h' */
  readonly retryWindow?: Duration;
  /** How long after the event a person can have it sent again. @default the retry window */
  readonly manualResendWindow?: Duration;
  /** Whether a retry carries the same body bytes, so that other bytes under a known id are a conflict. @default false */
  readonly retriesSameBytes?: boolean;
  /** Whether a retry carries the first attempt's timestamp and signature. @default false */
  readonly retriesSameTimestamp?: boolean;
}

/** @throws ConfigurationError for a duration that is none */
export function retriesOf(provider: string, options: RetryOptions): ProviderRetries {
  const windowMs = durationOf(`${provider}.retryWindow`, options.retryWindow ?? hours(72));
  return {
    automatic: options.retriesAutomatically ?? true,
    windowMs,
    manualResendMs: durationOf(`${provider}.manualResendWindow`, options.manualResendWindow ?? windowMs),
    sameBytes: options.retriesSameBytes ?? false,
    sameTimestamp: options.retriesSameTimestamp ?? false,
  };
}

export const RETRY_OPTIONS = {
  retriesAutomatically: true,
  retryWindow: true,
  manualResendWindow: true,
  retriesSameBytes: true,
  retriesSameTimestamp: true,
} as const;

function durationOf(path: string, duration: Duration): number {
  const ms = toMs(duration);
  if (ms === undefined)
    throw new ConfigurationError(`${path}: expected a duration such as '72h', received '${duration}'`);
  return ms;
}
