import { toMs } from '../core/options/duration.js';
import { ConfigurationError } from '../core/errors.js';
import type { HandlerOptions } from '../core/options/work-options.js';
import type { Source } from '../core/options/resolve-source.js';
import type { Effect } from './handler.registry.js';

/**
 * Options of a handler that cannot both be meant.
 * @throws ConfigurationError
 */
export function refuseContradictions(source: Source, options: HandlerOptions, at: string): void {
  const now =
    options.inline === true
      ? 'inline: true'
      : source.retries === 'provider'
        ? "retries: 'provider'"
        : undefined;
  if (now !== undefined) {
    for (const option of ['key', 'batch'] as const) {
      if (options[option] !== undefined) {
        throw new ConfigurationError(
          `${at}: '${option}' needs the relay, and ${now} runs the handler before the answer; expected one of the two`,
        );
      }
    }
  }
  if (options.inline === true && options.hydrate !== undefined) {
    throw new ConfigurationError(
      `${at}: 'hydrate' calls the provider before the transaction, and an inline handler runs inside the claim's; expected one of the two`,
    );
  }
  const timeoutMs = options.timeout === undefined ? 0 : toMs(options.timeout)!;
  // The lease of a delivery is as long as its answer may wait, and is not renewed, as the relay's are.
  if (now !== undefined && timeoutMs > source.ackTimeoutMs) {
    throw new ConfigurationError(
      `${at}: with ${now} the answer waits for the handler; expected a timeout of at most the source's ackTimeout ` +
        `(${source.ackTimeoutMs} ms), received ${timeoutMs} ms: shorten it, raise ackTimeout, or leave the handler to the relay`,
    );
  }
  if (options.onDead !== undefined && options.key === undefined) {
    throw new ConfigurationError(`${at}: 'onDead' needs a key; expected 'key', received none`);
  }
}

/**
 * The automatic attempts must end before the other side forgets the key, or the last of them would be a new effect.
 * @throws ConfigurationError
 */
export function refuseForgottenKeys(effect: Effect, at: string): void {
  const { baseMs, capMs, maxAttempts } = effect.retry;
  let horizonMs = effect.timeoutMs;
  for (let attempt = 1; attempt < maxAttempts && horizonMs <= effect.keyRetentionMs; attempt += 1) {
    horizonMs += Math.min(capMs, baseMs * 2 ** Math.min(attempt - 1, 52)) + effect.timeoutMs;
  }
  if (horizonMs > effect.keyRetentionMs) {
    throw new ConfigurationError(
      `${at}: its ${maxAttempts} attempts may last longer than the ${effect.keyRetentionMs / 3_600_000} h for which the other service ` +
        `remembers the key (keyRetention); expected fewer attempts, a smaller retry.cap, or a longer keyRetention`,
    );
  }
  if (effect.options.probeFirst === true && effect.options.probe === undefined) {
    throw new ConfigurationError(
      `${at}: 'probeFirst' asks the probe before every attempt; expected 'probe', received none`,
    );
  }
}
