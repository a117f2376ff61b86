import type { DataSource, EntityManager } from 'typeorm';
import type { OnAlert } from '../telemetry/alert.js';
import type { Around } from '../around.js';
import type { Duration } from './duration.js';
import type { EffectTransport } from './effect-transport.js';
import type { SourceDefinition } from './source.js';

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
  /**
   * Engines that effects are handed to. Consumers in this or another application run them there (`EffectConsumerModule`), and report
   * how they ended. @default none: this application's relays run every effect
   */
  readonly transports?: readonly TransportOptions[];
  /** Whether commits of this process wake the relays of others (NOTIFY, outside the claim transaction). @default true */
  readonly notify?: boolean;
  /** When old claims, with the rows owed for them, are deleted. @default { } */
  readonly retention?: false | RetentionOptions;
  /** Reconciliation after boot, and once more nine minutes later, for what older receivers of a rolling deploy took. @default true */
  readonly reconcile?: boolean;
  /** Called with each alert, besides the log. */
  readonly onAlert?: OnAlert;
  /**
   * Called around the application's own code: handlers, effects, probes, `complete` and `hydrate.fetch`. It opens contexts of the
   * application, as of nestjs-cls, calls `run` once, and awaits it. An error that it throws is a failed attempt. @default none
   */
  readonly around?: Around;
  /** Number of dead rows at which `onAlert` gets `dead-letters`. @default 10 */
  readonly deadLetterThreshold?: number;
  /** When `onAlert` gets `backlog`, `rejection-burst` and `duplicate-ratio`. @default { } */
  readonly alerts?: AlertOptions;
  /** Settings for requests that were rejected: counts and explanations are always kept. @default { } */
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
   * Whether deliveries that arrive during a commit share the next one. Inline work and `retries: 'provider'` always have a commit of their
   * own. @default true
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
   * Prepares the busiest statements once on each connection that leads straight to PostgreSQL. Behind a pooler in transaction mode, which
   * would lose them, none is prepared. @default true
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
  /** Longest pause between two polls of the outbox. A commit of this process wakes the relay at once. @default '1s' */
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
   * Whether a row that finds a free slot in the process that claims it is run there at once after the commit, without being leased
   * first. Rows with an order key, and those of handlers or sources with a `concurrency`, are always leased. @default true
   */
  readonly handOff?: boolean;
}

/** Effects that go to one engine. */
export interface TransportOptions {
  readonly transport: EffectTransport;
  /**
   * Names of effects with an `@OnEffect` method in this application. The relay does not call the method, but for a completion that is all
   * that is missing. Leave the list empty to take reports only, while effects move back to the relay. @default none
   */
  readonly effects?: readonly string[];
  /** Names of effects whose method only the consumer's application has. @default none */
  readonly elsewhere?: readonly string[];
  /** How long an effect may be with the engine without a report. Then comes an alert, and it is handed over again. @default '1h' */
  readonly unheardAfter?: Duration;
}

/** Thresholds. Each alert fires once. It fires again after its figure has dropped below half of the threshold. */
export interface AlertOptions {
  /** How long a row may be due without a lease. @default '5m' */
  readonly backlogAge?: Duration;
  /** Rejected requests of one source within a minute, in one process. @default 60 */
  readonly rejectionsPerMinute?: number;
  /** Part of a source's deliveries that are known events, over five minutes and at least 100 deliveries. @default 0.9 */
  readonly duplicateRatio?: number;
}

/** Samples of rejected requests. */
export interface RejectionOptions {
  /**
   * How long samples of rejected requests are kept with bytes and signature, so that they can be verified again once a secret is corrected.
   * They may hold any bytes that were sent. @default false: only an explanation is kept
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
