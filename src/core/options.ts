import type { EntityManager, EntityTarget, FindOptionsWhere, ObjectLiteral } from 'typeorm';
import type { OnAlert } from './alert.js';
import type { Classifier } from './classify.js';
import type { Duration } from './duration.js';
import type { WebhookEvent } from './event.js';
import type { SourceDefinition } from './source.js';

/** Options of `WebhooksModule.forRoot`. Durations are milliseconds, or text such as '30s', '4h', '30d'. */
export interface WebhooksOptions {
  /** The endpoints: `stripe: stripe({ secrets: […] })` is served at `POST /webhooks/stripe`. */
  readonly sources: Readonly<Record<string, SourceDefinition>>;
  /** `false`: this process receives but runs nothing; another one must. @default { } */
  readonly relay?: false | RelayOptions;
  /** Whether commits of this process wake the relays of others (NOTIFY, outside the claim transaction). @default true */
  readonly notify?: boolean;
  /** When old claims, with the rows owed for them, are deleted. @default { } */
  readonly retention?: false | RetentionOptions;
  /** Reconciliation after boot. @default true */
  readonly reconcile?: boolean;
  /** Told of what a person should know, besides the log. */
  readonly onAlert?: OnAlert;
  /** Number of dead rows at which `onAlert` gets `dead-letters`. @default 10 */
  readonly deadLetterThreshold?: number;
  /** Bytes of webhook bodies held in memory at once; above it a request is answered 503. @default 67108864 */
  readonly byteBudget?: number;
  /** Pending rows above which a delivery is answered 503; false for no limit. @default false */
  readonly maxPending?: number | false;
  /** How long an answer waits for the database (a connection, a lock, the commit) before it is 503. @default '5s' */
  readonly claimTimeout?: Duration;
}

export interface RelayOptions {
  /** Longest pause between two looks at the outbox; a commit of this process wakes the relay at once. @default '1s' */
  readonly pollInterval?: Duration;
  /** How long a row is ours before another process may take it; renewed at a third. @default '30s' */
  readonly lease?: Duration;
  /** Handlers that run at once; each holds a connection. @default the pool's size less a reserve for claims */
  readonly handlers?: number;
  /** Effects that run at once. @default 20 */
  readonly effects?: number;
  /** How long running work may go on at shutdown before it is aborted. @default '10s' */
  readonly shutdownGrace?: Duration;
  /**
   * Whether other instances' commits wake this relay through LISTEN, on a connection of its own beside the pool's. Behind a
   * transaction pooler it needs a `url` that leads past it. Without it their work is found by polling.
   * @default true: with the settings of the DataSource
   */
  readonly listen?: boolean | { readonly url: string };
}

export interface RetentionOptions {
  /** Cron expression of the nightly run. @default '17 3 * * *' */
  readonly schedule?: string;
  /** How long settled effects that belong to no event are kept, by the time they were settled. @default '30d' */
  readonly effects?: Duration;
}

/** Retries of a handler or an effect: exponential with full jitter. */
export interface RetryOptions {
  /** First delay. @default '1s' */
  readonly base?: Duration;
  /** Longest delay. @default '1h' */
  readonly cap?: Duration;
  /** Attempts until the row is dead. @default 20, or the source's */
  readonly maxAttempts?: number;
}

/** What handlers and effects have in common. */
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

/** Options of `@OnWebhook`. */
export interface HandlerOptions extends WorkOptions {
  /** The stable id of the handler, unique for a source: outbox ids hang on it. @default 'Class.method' */
  readonly name?: string;
  /** Former names, so that rows and effects of before the renaming stay the same ones. */
  readonly was?: readonly string[];
  /** How the reconciler finds events that are done although what the handler wrote is not there. */
  readonly businessRecord?: BusinessRecord;
  /** Run inside the claim's own transaction, before the answer. For quick database work only. @default false */
  readonly inline?: boolean;
}

/**
 * The record that a handler leaves for each event. After boot and on demand the reconciler looks for those of its `done` rows, and
 * where one is missing (a table restored from an older backup, a record deleted by mistake) the handler runs again: once a row.
 */
export type BusinessRecord = BusinessRecordPolicy & (RecordByEntity | RecordByFunction);

export interface BusinessRecordPolicy {
  /** How far back, by arrival of the event. @default '24h' */
  readonly window?: Duration;
  /** Rows settled more recently are left alone. @default '1m' */
  readonly minAge?: Duration;
  /** `report` raises the alert only. @default 'reprocess' */
  readonly onMissing?: 'reprocess' | 'report';
}

export interface RecordByEntity {
  readonly entity: EntityTarget<ObjectLiteral>;
  /** What identifies the record; an empty condition is refused, since it would match any. */
  where(event: WebhookEvent): FindOptionsWhere<ObjectLiteral> | FindOptionsWhere<ObjectLiteral>[];
}

export interface RecordByFunction {
  /** Returns those of the events, up to 200 at once, whose record is missing. Only reads; asked again, one by one, under lock. */
  missing(
    events: readonly WebhookEvent[],
    manager: EntityManager,
  ): Promise<readonly WebhookEvent[]> | readonly WebhookEvent[];
}

/** Options of `@OnEffect`. */
export interface EffectOptions extends WorkOptions {
  /** Former names of the effect. */
  readonly was?: readonly string[];
}
