import { toMs, type Duration } from '../core/options/duration.js';
import type { ProviderRetries } from '../core/provider.js';
import { hours } from './times.js';

/** The retries of a sender without a catalogue entry, after a delivery fails. */
export interface SenderRetryOptions {
  /** Whether the vendor retries on its own. @default true */
  readonly retriesAutomatically?: boolean;
  /** From the vendor's first attempt to its last: milliseconds or text such as '72h'. @default '72h' */
  readonly retryWindow?: Duration;
  /** How long after the event a person can have it sent again. @default the retry window */
  readonly manualResendWindow?: Duration;
  /** Whether a retry carries the same body bytes, so that other bytes under a known id are a conflict. @default false */
  readonly retriesSameBytes?: boolean;
  /**
   * Dotted paths of what a retry changes in an event's JSON. Where the id is signed, any other difference under a known id is a conflict.
   * @default []: nothing
   */
  readonly retriesChange?: readonly string[];
  /** Whether a retry carries the first attempt's timestamp and signature. @default false */
  readonly retriesSameTimestamp?: boolean;
}

/** @param options whose values have been checked */
export function retriesOf(options: SenderRetryOptions): ProviderRetries {
  const windowMs = toMs(options.retryWindow ?? hours(72))!;
  return {
    automatic: options.retriesAutomatically ?? true,
    windowMs,
    manualResendMs: toMs(options.manualResendWindow ?? windowMs),
    sameBytes: options.retriesSameBytes ?? false,
    changes: options.retriesChange ?? [],
    sameTimestamp: options.retriesSameTimestamp ?? false,
  };
}

export const RETRY_OPTIONS = {
  retriesAutomatically: true,
  retryWindow: true,
  manualResendWindow: true,
  retriesSameBytes: true,
  retriesChange: true,
  retriesSameTimestamp: true,
} as const;
