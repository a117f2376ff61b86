import { toMs, type Duration } from './options/duration.js';

/** Stable codes of every error this package throws on purpose. */
export type ErrorCode =
  | 'CONFIGURATION'
  | 'SIGNATURE_REJECTED'
  | 'EVENT_ID_UNUSABLE'
  | 'UNKNOWN_SOURCE'
  | 'UNKNOWN_EFFECT'
  | 'UNKNOWN_HANDLER'
  | 'EFFECT_KEY_REQUIRED'
  | 'PERMANENT'
  | 'RETRY_AFTER'
  | 'TIMED_OUT'
  | 'LEASE_LOST'
  | 'TRANSACTION_NOT_COMMITTED'
  | 'MANAGER_MISUSED'
  | 'OUTSIDE_TRANSACTION'
  | 'PAYLOAD_REFUSED'
  | 'ENQUEUE_REFUSED'
  | 'NEW_EFFECTS_REFUSED'
  | 'HTTP_FAILED'
  | 'CLAIMS_QUEUED'
  | 'NOT_ANSWERED'
  | 'BACKFILL_REFUSED'
  | 'INPUT_REFUSED';

/** Base of the package's errors. `code` is stable. The message names the place, the expected and the received value, and the remedy. */
export class WebhookInboxError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An option, a decorator or the application around the module is wrong. Thrown at boot. */
export class ConfigurationError extends WebhookInboxError {
  constructor(message: string, options?: ErrorOptions) {
    super('CONFIGURATION', message, options);
  }
}

/** Thrown by a handler or an effect: trying again cannot help. The row is dead at once. */
export class PermanentError extends WebhookInboxError {
  constructor(message: string, options?: ErrorOptions) {
    super('PERMANENT', message, options);
  }
}

/**
 * Thrown by a handler or an effect: try again, but not before `delay` has passed: milliseconds, or text such as '30s'. An invalid delay
 * leaves the pause to `retry`: another error here would hide that nothing was done.
 */
export class RetryAfter extends WebhookInboxError {
  readonly delayMs: number;

  constructor(delay: Duration, message?: string, options?: ErrorOptions) {
    super(
      'RETRY_AFTER',
      message ?? `asked to wait ${typeof delay === 'number' ? `${delay} ms` : `'${delay}'`}`,
      options,
    );
    this.delayMs = typeof delay === 'number' ? delay : (toMs(delay) ?? Number.NaN);
  }
}

/** An HTTP answer that is no 2xx: its status decides whether trying again can help, `Retry-After` when. */
export class HttpFailure extends WebhookInboxError {
  constructor(
    readonly status: number,
    /** Lower-case names. */
    readonly headers: Readonly<Record<string, string>>,
    /** The body of the answer, up to 64 kB. It is neither logged nor stored, since answers echo the request. */
    readonly body: string,
    origin: string,
  ) {
    super('HTTP_FAILED', `${origin} answered ${status}`);
  }
}

/** The same effect was enqueued twice under the same key in one run: which of the two is meant cannot be known. */
export class EffectKeyRequired extends WebhookInboxError {
  constructor(effect: string, key: string) {
    super(
      'EFFECT_KEY_REQUIRED',
      `Effect '${effect}' was enqueued twice with key '${key}' in one run. ` +
        `Give each a key of its own that is the same when the handler runs again: enqueue('${effect}', payload, { key }).`,
    );
  }
}

/** Input of an operator, a person or a program, that is not valid. The message says which input is. */
export class InputRefused extends WebhookInboxError {
  constructor(message: string) {
    super('INPUT_REFUSED', message);
  }
}

/** Why a request was rejected. It is logged and counted, and never part of the answer over HTTP. */
export type RejectionReason =
  | 'missing-signature'
  | 'malformed-signature'
  | 'repeated-header'
  | 'wrong-signature'
  | 'missing-timestamp'
  | 'malformed-timestamp'
  | 'outside-window'
  | 'unusable-key'
  /** The vendor's key could not be fetched just now: the only reason that another try can cure. */
  | 'key-unavailable';

/** A request failed verification. Every provider throws this error and no other, for any bytes. */
export class SignatureRejection extends WebhookInboxError {
  constructor(
    readonly reason: RejectionReason,
    detail: string,
    options?: ErrorOptions,
  ) {
    super('SIGNATURE_REJECTED', detail, options);
  }
}

/** A verified request has no usable event id: absent, blank, not a string or a number, or with characters no key may hold. */
export class EventIdUnusable extends WebhookInboxError {
  constructor(detail: string) {
    super('EVENT_ID_UNUSABLE', detail);
  }
}

/** A person's question got no answer: too many wait before it, or the database does not answer. */
export class NotAnswered extends WebhookInboxError {
  constructor(why: string) {
    super('NOT_ANSWERED', `${why}; ask again in a moment`);
  }
}
