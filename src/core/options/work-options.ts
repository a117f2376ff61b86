import type { EntityManager, EntityTarget, FindOptionsWhere, ObjectLiteral } from 'typeorm';
import type { Classifier } from '../classify.js';
import type { CompletionContext } from '../context.js';
import type { WebhookEvent } from '../event.js';
import type { Duration } from './duration.js';
import type { StandardSchema } from './standard-schema.js';

/** Retries of a handler or an effect: exponential with full jitter. */
export interface RetryOptions {
  /** First delay. @default '1s' */
  readonly base?: Duration;
  /** Longest delay. @default '1h' */
  readonly cap?: Duration;
  /** Attempts until the row is dead. @default 20, or the source's */
  readonly maxAttempts?: number;
}

/** Options that handlers and effects share. */
export interface WorkOptions {
  /** @default exponential from '1s' to '1h', 20 attempts */
  readonly retry?: RetryOptions;
  /** Longest run; then the `signal` fires and the attempt has failed. @default '30s' */
  readonly timeout?: Duration;
  /** Runs at once in one process. @default the relay's */
  readonly concurrency?: number;
  /** Overrides whether a failure is transient or permanent. */
  readonly classify?: Classifier;
}

/** How rows are put in order: two with one key never run at once, and they run in the order in which they came. */
export interface OrderOptions {
  /**
   * How a dead or parked row treats its key: `release` lets the next row run, `block` holds the key until a person decides. @default
   * 'release'
   */
  readonly onDead?: 'release' | 'block';
}

/** Options of `@OnWebhook`. */
export interface HandlerOptions<TPayload = unknown> extends WorkOptions, OrderOptions {
  /** The stable id of the handler, unique for a source. Outbox ids are derived from it. @default 'Class.method' */
  readonly name?: string;
  /** Former names, the oldest first, so that rows and effects of before the renaming stay the same ones. */
  readonly was?: readonly string[];
  /** How the reconciler finds events that are done although what the handler wrote is not there. */
  readonly businessRecord?: BusinessRecord<TPayload>;
  /** Run inside the claim's own transaction, before the answer. For quick database work only. @default false */
  readonly inline?: boolean;
  /** The order key of an event: events of one key are handled one after the other. @default none, no order */
  key?(event: WebhookEvent<TPayload>): string | undefined;
  /** Up to so many events in one transaction: the method gets an array of `BatchEvent`. A batch that fails is split. @default 1 */
  readonly batch?: number;
  /** Skip an event older than the newest one this handler has seen of the same resource. */
  readonly skipStale?: SkipStale<TPayload>;
  /** Any Standard Schema. It validates the payload, and the handler gets the value that it returns. A mismatch is permanent. */
  readonly schema?: StandardSchema<TPayload>;
  /** Fetches the resource's current state before the transaction; the handler finds it in `context.current`. */
  readonly hydrate?: Hydrate<TPayload>;
}

/** Marks an event as superseded when a newer one of its resource was handled. */
export interface SkipStale<TPayload = unknown> {
  /** The resource that the event is about. */
  key(event: WebhookEvent<TPayload>): string;
  /** The time to compare; equal times run. Undefined: the event runs. @default the event's `occurredAt` */
  at?(event: WebhookEvent<TPayload>): Date | undefined;
}

/** `this` of both functions is the handler's instance. */
export interface Hydrate<TPayload = unknown, TCurrent = unknown> {
  /** The resource to fetch: runs in flight for one resource share a fetch. */
  key(event: WebhookEvent<TPayload>): string;
  /** Fetches the resource's state, for `context.current`. An error of it is a failed attempt. */
  fetch(event: WebhookEvent<TPayload>, context: { readonly signal: AbortSignal }): Promise<TCurrent>;
}

/**
 * The record that a handler writes for each event. After boot and on demand the reconciler searches for the records of its `done` rows. A
 * record may be missing after a table was restored from an older backup, or a record was deleted by mistake. The handler then runs again,
 * once for a row.
 */
export type BusinessRecord<TPayload = unknown> = BusinessRecordPolicy &
  (RecordByEntity<TPayload> | RecordByFunction<TPayload>);

/** When the reconciler looks for a record, and its action for a missing one. */
export interface BusinessRecordPolicy {
  /** How far back, by arrival of the event. @default '24h' */
  readonly window?: Duration;
  /** Rows settled more recently are left alone. @default '1m' */
  readonly minAge?: Duration;
  /** Longest search, for one batch. Then its `signal` fires and its rows stay unchecked. @default '30s' */
  readonly timeout?: Duration;
  /** `report` raises the alert only. @default 'reprocess' */
  readonly onMissing?: 'reprocess' | 'report';
}

/** A business record that is a row of an entity. */
export interface RecordByEntity<TPayload = unknown> {
  readonly entity: EntityTarget<ObjectLiteral>;
  /** The condition that identifies the record. An empty condition is refused, since it would match any record. */
  where(event: WebhookEvent<TPayload>): FindOptionsWhere<ObjectLiteral> | FindOptionsWhere<ObjectLiteral>[];
}

/** A business record that a function of the application looks for. */
export interface RecordByFunction<TPayload = unknown> {
  /** Returns those of the events, up to 200 at once, whose record is missing. Only reads; asked again, one by one, under lock. */
  missing(
    events: readonly WebhookEvent<TPayload>[],
    manager: EntityManager,
    context: { readonly signal: AbortSignal },
  ): Promise<readonly WebhookEvent<TPayload>[]> | readonly WebhookEvent<TPayload>[];
}

/** Options of `@OnEffect`. */
export interface EffectOptions<TPayload = unknown> extends WorkOptions, OrderOptions {
  /** Former names of the effect. */
  readonly was?: readonly string[];
  /** The order key of a payload: effects of one key are done one after the other. @default none, no order */
  key?(payload: TPayload): string | undefined;
  /**
   * Asks the other side whether the effect was done, when an attempt began and its end is unknown. `this` is the effect's instance.
   */
  probe?(payload: TPayload, context: ProbeContext): Promise<ProbeAnswer>;
  /** Ask before every attempt, the first included: check, then act, for sinks without idempotency keys. @default false */
  readonly probeFirst?: boolean;
  /** How to go on when the end of an attempt is unknown: `retry` under the same key, or `park` for a person. @default 'retry' */
  readonly inDoubt?: 'retry' | 'park';
  /**
   * How long the other side remembers an idempotency key. Automatic attempts end before; then the row is parked.
   * `false`: it never forgets. @default '24h'
   */
  readonly keyRetention?: Duration | false;
  /**
   * The place that a payload is sent to, such as the host or the id of a customer's endpoint. Rates, waiting and failures are the
   * destination's: those of one do not delay the others. @default the name of the effect
   */
  destination?(payload: TPayload): string;
  /** Most calls to a destination, by all instances together: '50/s', '100/min' or '1000/h'. @default no limit */
  readonly rate?: string;
  /**
   * After so many failures in a row (time-outs, broken connections, 408, 429, 5xx) nothing but a probe is sent to the destination, until
   * one is answered. Rows wait, and lose no attempt. @default 10
   */
  readonly opensAfter?: number | false;
}

/** The second argument of an effect's `probe`. */
export interface ProbeContext {
  /** The idempotency key that the attempts used. */
  readonly key: string;
  readonly signal: AbortSignal;
  /**
   * For an effect whose method calls `complete`: work that commits with the effect's completion when the answer is `done`, since the
   * method is not called then. An answer that is another drops it.
   */
  readonly complete: (work: (context: CompletionContext) => unknown) => Promise<void>;
}

/** The answer of a probe. `done` may carry the result, which is kept as if the effect had returned it. */
export type ProbeAnswer = 'done' | 'not-done' | 'unknown' | { readonly done: unknown };
