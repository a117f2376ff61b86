import type { DataSource, EntityManager, EntityTarget, FindOptionsWhere, ObjectLiteral } from 'typeorm';
import type { OnAlert } from '../telemetry/alert.js';
import type { Around } from '../around.js';
import type { Classifier } from '../classify.js';
import type { CompletionContext } from '../context.js';
import type { Duration } from './duration.js';
import type { WebhookEvent } from '../event.js';
import type { SourceDefinition } from './source.js';
import type { StandardSchema } from './standard-schema.js';

/** As the option `claims`. */
export type ClaimsMode = 'auto' | 'typeorm' | 'message';

/** Opens a transaction, has `run` work in it with its manager, and commits it; rolls back when `run` rejects. */
export type OpenTransaction = (
  dataSource: DataSource,
  run: (manager?: EntityManager) => Promise<void>,
) => Promise<unknown>;

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
  /** Reconciliation after boot, and once more nine minutes later, for what older receivers of a rolling deploy took. @default true */
  readonly reconcile?: boolean;
  /** Told of what a person should know, besides the log. */
  readonly onAlert?: OnAlert;
  /**
   * Called around the application's own code: handlers, effects, probes, `complete` and `hydrate.fetch`. It opens contexts of the
   * application, as of nestjs-cls, calls `run` once, and awaits it. What it throws is a failed attempt. @default none
   */
  readonly around?: Around;
  /** Number of dead rows at which `onAlert` gets `dead-letters`. @default 10 */
  readonly deadLetterThreshold?: number;
  /** When `onAlert` gets `backlog`, `rejection-burst` and `duplicate-ratio`. @default { } */
  readonly alerts?: AlertOptions;
  /** What is kept of requests that were not believed, besides their counts and an explanation. @default { } */
  readonly rejections?: RejectionOptions;
  /** Bytes of webhook bodies held in memory at once; above it a request is answered 503. @default 67108864 */
  readonly byteBudget?: number;
  /**
   * How long a body may take to arrive, and a third of it without a byte; then the request is answered 503 and its connection is
   * closed. At least 1 s. @default '30s'
   */
  readonly bodyTimeout?: Duration;
  /** Pending rows above which a delivery is answered 503; false for no limit. @default false */
  readonly maxPending?: number | false;
  /** How long an answer waits for the database (a connection, a lock, the commit) before it is 503. @default '5s' */
  readonly claimTimeout?: Duration;
  /**
   * Whether deliveries that arrive while a commit is under way share the next one. What is inline, or retried by its provider, has
   * a commit of its own all the same. @default true
   */
  readonly groupCommit?: boolean;
  /**
   * How claims are committed. `message`: BEGIN, claim and COMMIT in one message, which TypeORM knows nothing of. `typeorm`: in
   * TypeORM's own transaction, so that subscribers and loggers see the claim; it costs round trips. `auto`: `typeorm` where a
   * subscriber has a hook for transactions or queries, or the DataSource logs queries; otherwise `message`. @default 'auto'
   */
  readonly claims?: ClaimsMode;
  /**
   * Opens the transaction of each handler, route and `complete`, so that services under `@Transactional()` join it. It opens a
   * transaction of its own each time (REQUIRES_NEW), awaits `run(manager)` in it, and commits. Without an argument `run` takes
   * `dataSource.manager`, which such libraries make the open transaction's.
   * @default TypeORM's own transaction, or a message of ours
   */
  readonly transaction?: OpenTransaction;
  /**
   * Have the busiest statements prepared once on each connection, where it leads straight to PostgreSQL. Behind a pooler in transaction
   * mode, which would lose them, none is prepared whatever this says. @default true
   */
  readonly preparedStatements?: boolean;
  /**
   * The schema of the package's tables, the one that `webhookInboxMigrations({ schema })` made them in. Two services in one database
   * need one each. No `search_path` changes it. @default the DataSource's `schema`, else PostgreSQL's `current_schema()` as it connects
   */
  readonly schema?: string;
}

/** The loop that leases and runs rows, in this process. */
export interface RelayOptions {
  /** Longest pause between two looks at the outbox; a commit of this process wakes the relay at once. @default '1s' */
  readonly pollInterval?: Duration;
  /** How long a row is ours before another process may take it; renewed at a third. At least 500 ms. @default '30s' */
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
  /**
   * Whether processes see each other end, so that the work of a killed one goes on within two seconds, and not at its leases' ends. It
   * needs `listen`, and a connection that leads to one server process; elsewhere the leases decide. A process that can neither keep nor
   * withdraw its lock for a second, as while the database is away, aborts what it runs. @default true
   */
  readonly takeover?: boolean;
  /**
   * Whether a row that finds a free place in the process that claims it is run there at once after the commit, without being leased
   * first. Rows with an order key, and those of handlers or sources with a `concurrency`, are always leased. @default true
   */
  readonly handOff?: boolean;
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

/** Samples of rejected requests. */
export interface RejectionOptions {
  /**
   * For how long samples of rejected requests are kept with bytes and signature, so that they can be verified again once a secret
   * is corrected. They hold whatever was sent, believed or not. @default false: only an explanation is kept
   */
  readonly keep?: Duration | false;
}

/** The nightly deletion. */
export interface RetentionOptions {
  /** Cron expression of the nightly run. @default '17 3 * * *' */
  readonly schedule?: string;
  /** How long settled effects that belong to no event are kept, by the time they were settled. @default '30d' */
  readonly effects?: Duration;
  /** Claims of a source that no running instance has configured any more go when nothing has come from it for so long. @default '30d' */
  readonly formerSources?: Duration;
  /** How long the audit, people's words on dead rows and the uses of secrets are kept. @default '365d' */
  readonly audit?: Duration;
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

/** How rows are put in order: two with one key never run at once, and they run in the order in which they came. */
export interface OrderOptions {
  /** What a dead or parked row does to its key: `release` lets the next run, `block` holds the key until a person decides. @default 'release' */
  readonly onDead?: 'release' | 'block';
}

/** Options of `@OnWebhook`. */
export interface HandlerOptions<TPayload = unknown> extends WorkOptions, OrderOptions {
  /** The stable id of the handler, unique for a source: outbox ids hang on it. @default 'Class.method' */
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
  /** Any Standard Schema: the payload is validated, and replaced by what it returns. A mismatch is permanent. */
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
 * The record that a handler leaves for each event. After boot and on demand the reconciler looks for those of its `done` rows, and
 * where one is missing (a table restored from an older backup, a record deleted by mistake) the handler runs again: once a row.
 */
export type BusinessRecord<TPayload = unknown> = BusinessRecordPolicy &
  (RecordByEntity<TPayload> | RecordByFunction<TPayload>);

/** When the reconciler looks for a record, and its action for a missing one. */
export interface BusinessRecordPolicy {
  /** How far back, by arrival of the event. @default '24h' */
  readonly window?: Duration;
  /** Rows settled more recently are left alone. @default '1m' */
  readonly minAge?: Duration;
  /** Longest look, for one batch; then its `signal` fires and its rows stay unchecked. @default '30s' */
  readonly timeout?: Duration;
  /** `report` raises the alert only. @default 'reprocess' */
  readonly onMissing?: 'reprocess' | 'report';
}

/** A business record that is a row of an entity. */
export interface RecordByEntity<TPayload = unknown> {
  readonly entity: EntityTarget<ObjectLiteral>;
  /** What identifies the record; an empty condition is refused, since it would match any. */
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
  /**
   * What to do with an attempt whose end is unknown and stays so: `retry` under the same key, or `park` for a person. @default 'retry'
   */
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

/** What a probe found out. `done` may tell the result, which is kept as if the effect had returned it. */
export type ProbeAnswer = 'done' | 'not-done' | 'unknown' | { readonly done: unknown };
