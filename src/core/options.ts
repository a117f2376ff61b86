import type { OnAlert } from './alert.js';
import type { Classifier } from './classify.js';
import type { Duration } from './duration.js';
import type { SourceDefinition } from './source.js';

/** Options of `WebhooksModule.forRoot`. Durations are milliseconds, or text such as '30s', '4h', '30d'. */
export interface WebhooksOptions {
  /** The endpoints: `stripe: stripe({ secrets: […] })` is served at `POST /webhooks/stripe`. */
  readonly sources: Readonly<Record<string, SourceDefinition>>;
  /** `false`: this process receives but runs nothing; another one must. @default { } */
  readonly relay?: false | RelayOptions;
  /** When old claims, with the rows owed for them, are deleted. @default { } */
  readonly retention?: false | RetentionOptions;
  /** Reconciliation after boot. @default true */
  readonly reconcile?: boolean;
  /** Told of what a person should know, besides the log. */
  readonly onAlert?: OnAlert;
  /** Number of dead rows at which `onAlert` gets `dead-letters`. @default 10 */
  readonly deadLetterThreshold?: number;
  /** When `onAlert` gets `backlog`, `rejection-burst` and `duplicate-ratio`. @default { } */
  readonly alerts?: AlertOptions;
  /** What is kept of requests that were not believed, besides their counts and an explanation. @default { } */
  readonly rejections?: RejectionOptions;
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
}

/** Thresholds; each alert is told once, and again only after its figure fell to half of it. */
export interface AlertOptions {
  /** How long a row may be due before nobody has taken it. @default '5m' */
  readonly backlogAge?: Duration;
  /** Rejected requests of one source within a minute, in one process. @default 60 */
  readonly rejectionsPerMinute?: number;
  /** Part of a source's deliveries that are known events, over five minutes and at least 100 deliveries. @default 0.9 */
  readonly duplicateRatio?: number;
}

export interface RejectionOptions {
  /**
   * For how long samples of rejected requests are kept with bytes and signature, so that they can be verified again once a secret
   * is corrected. They hold whatever was sent, believed or not. @default false: only an explanation is kept
   */
  readonly keep?: Duration | false;
}

export interface RetentionOptions {
  /** Cron expression of the nightly run. @default '17 3 * * *' */
  readonly schedule?: string;
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
  /** Run inside the claim's own transaction, before the answer. For quick database work only. @default false */
  readonly inline?: boolean;
}

/** Options of `@OnEffect`. */
export interface EffectOptions extends WorkOptions {
  /** Former names of the effect. */
  readonly was?: readonly string[];
}
