import type { EntityManager } from 'typeorm';
import type { WebhookEvent } from './event.js';

/**
 * Names and payloads of the application's effects, for type-checked `enqueue` calls. Augment it:
 * `declare module 'nestjs-webhook-inbox' { interface WebhookEffects { 'send-receipt': { invoiceId: string } } }`
 */
export interface WebhookEffects {}

/** The names that `WebhookEffects` declares; any text while it declares none. */
export type EffectName = keyof WebhookEffects extends never ? string : Extract<keyof WebhookEffects, string>;
/** The payload that `WebhookEffects` declares for an effect; unknown for another name. */
export type EffectPayload<N> = N extends keyof WebhookEffects ? WebhookEffects[N] : unknown;

/** Key and time of an effect that is enqueued. */
export interface EnqueueOptions {
  /** Distinguishes several effects of one name in one run. It must be the same when the run is repeated. At most 255 bytes. @default '' */
  readonly key?: string;
  /** Not before this time. */
  readonly runAt?: Date;
  /** Not before so many milliseconds from now, by the database's clock. @default 0 */
  readonly delayMs?: number;
}

/** The row of an effect. */
export interface Enqueued {
  /** The outbox id: the idempotency key of the effect. */
  readonly id: string;
  /** A former run enqueued it: its payload stays as it was. */
  readonly existing: boolean;
}

/**
 * Enqueues an effect in the run's transaction. A run that is repeated gets the row of the first: a done effect is not done again.
 * @throws EffectKeyRequired when one run enqueues the same effect twice under one key
 * @throws WebhookInboxError UNKNOWN_EFFECT when no `@OnEffect` carries the name
 */
export type Enqueue = <N extends EffectName>(
  effect: N,
  payload: EffectPayload<N>,
  options?: EnqueueOptions,
) => Promise<Enqueued>;

/** The second argument of a handler. */
export interface HandlerContext {
  /** Writes through it commit with the run's completion. It is closed when the handler ends. */
  readonly manager: EntityManager;
  readonly enqueue: Enqueue;
  /** Fires when the handler's time is up. */
  readonly signal: AbortSignal;
  /** Which attempt this is, counted from 1 over all processes. */
  readonly attempt: number;
  /** The outbox id of this run. */
  readonly outboxId: string;
  /** The value that `hydrate` fetched. Undefined without `hydrate`. */
  readonly current?: unknown;
}

/** One event of a batch. The effects that it enqueues belong to this event. */
export interface BatchEvent<TPayload = unknown> extends WebhookEvent<TPayload> {
  readonly enqueue: Enqueue;
  readonly current?: unknown;
}

/** The second argument of a handler with `batch`. */
export interface BatchContext extends Pick<HandlerContext, 'manager' | 'signal'> {
  /** Use the `enqueue` of an event: an effect of a batch must belong to one of its events. */
  readonly enqueue?: never;
}

/** The second argument of an effect. */
export interface EffectContext {
  /** The idempotency key: the outbox id, the same at each attempt. */
  readonly key: string;
  /** Fires when the effect's time is up, or its lease is about to end. */
  readonly signal: AbortSignal;
  /** How long one attempt may take, in milliseconds: the effect's `timeout`. */
  readonly timeoutMs: number;
  /** Which attempt this is, counted from 1 over all processes. */
  readonly attempt: number;
  /**
   * Only in a consumer of an engine that has a DataSource. Its writes commit with the record that the effect is done.
   * Undefined where a relay runs the effect.
   */
  readonly manager?: EntityManager;
  /**
   * The result of an earlier attempt whose completion failed, as JSON keeps it. That attempt made the outside call, and it need not be made
   * again.
   */
  readonly previous?: { readonly result: unknown };
  /**
   * Work that commits with the effect's completion. It runs once, after the method has returned. The method's result is kept for it as
   * whole JSON, up to 1 MB. A larger result, or one that is no JSON (a BigInt, a circle), makes the row dead without the work: another
   * attempt would make the call again. Return an id and load the rest.
   */
  readonly complete: (work: (context: CompletionContext) => unknown) => Promise<void>;
}

/** The argument of the work that `complete` was given. */
export interface CompletionContext {
  readonly manager: EntityManager;
  /** Enqueues follow-up effects. */
  readonly enqueue: Enqueue;
  /** The result of the effect's method, as JSON keeps it. A Date is text and undefined is null, at each attempt. */
  readonly result: unknown;
}
