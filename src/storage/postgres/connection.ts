import { AsyncResource } from 'node:async_hooks';
import type { EventEmitter } from 'node:events';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { isServerUnusable } from '../../core/classify.js';
import { MAX_TIMER_MS } from '../../core/options/duration.js';
import { WebhookInboxError } from '../../core/errors.js';
import { neutral } from '../../core/neutral.js';

/** The part of a pooled pg client that this package uses. TypeORM's `connect()` returns it untyped. */
export interface PgClient {
  query(text: string, values?: readonly unknown[]): Promise<PgResult>;
  query(query: object): unknown;
  end(): Promise<void>;
  /** As PostgreSQL last said: idle (no transaction), in one, or in one that has failed. */
  getTransactionStatus(): 'I' | 'T' | 'E' | null;
  /** Number of the server's process, as the server sent it at the start. */
  readonly processID: number | null;
  /** Undefined under pg-native. */
  readonly connection?: object;
}
export interface PgResult {
  /** Null until it has ended. */
  readonly command: string | null;
  readonly rows: Record<string, unknown>[];
}

/** A COMMIT whose end is unknown (the connection broke), or that PostgreSQL answered with ROLLBACK. */
export class NotCommitted extends WebhookInboxError {
  constructor(
    /** True when the transaction may have been committed all the same. */
    readonly inDoubt: boolean,
    message: string,
    options?: ErrorOptions,
  ) {
    super('TRANSACTION_NOT_COMMITTED', message, options);
  }
}

export class TimedOut extends WebhookInboxError {
  constructor(what: string, timeoutMs: number) {
    super('TIMED_OUT', `${what} did not end within ${timeoutMs} ms; raise its timeout, or do less in it`);
  }
}

/** An EntityManager's DataSource, by the name that TypeORM 1 gives it, or TypeORM 0.3. */
export interface ManagerOfEither {
  readonly dataSource?: DataSource;
  readonly connection?: DataSource;
}

export function dataSourceOf(manager: EntityManager): DataSource {
  const either: ManagerOfEither = manager;
  return (either.dataSource ?? either.connection)!;
}

export async function pgClient(runner: QueryRunner): Promise<PgClient> {
  return (await runner.connect()) as PgClient;
}

/**
 * Puts `query` in the place of the client's own, which may be its class's or a wrapper of the application's on this very client.
 * @returns what puts that back: the pool lends the client again
 */
export function inPlaceOfQuery(client: PgClient, query: PgClient['query']): () => void {
  const own = Object.getOwnPropertyDescriptor(client, 'query');
  client.query = query;
  return () => {
    if (own === undefined) Reflect.deleteProperty(client, 'query');
    else Object.defineProperty(client, 'query', own);
  };
}

/** A pool of pg's. */
interface Pool extends EventEmitter {
  /** Those that are there already: TypeORM has made one when it was initialised. */
  readonly _clients?: readonly EventEmitter[];
  newClient?(waiting: { callback: (...given: unknown[]) => void }): void;
}

/**
 * Gives each client of the DataSource's pools a listener of its own. A server that shuts down while a connection is made sends its farewell
 * with its greeting, before the pool's borrower listens. An 'error' event without a listener ends the process.
 */
export function hearErrors(dataSource: DataSource): void {
  const driver = dataSource.driver as unknown as {
    master?: Pool;
    slaves?: Pool[];
    connect(): Promise<void>;
  };
  const hear = () => {
    for (const pool of [driver.master ?? [], driver.slaves ?? []].flat()) {
      for (const client of pool._clients ?? []) client.on('error', () => undefined);
      pool.on('connect', (client: EventEmitter) => client.on('error', () => undefined));
      openNeutrally(pool);
    }
  };
  hear();
  // One that is initialised later, or again, has other pools.
  const connect = driver.connect.bind(driver);
  driver.connect = async () => {
    await connect();
    hear();
  };
}

/**
 * A connection outlives the request for which it is opened. Its events (a notice, an error) must not run in the async context of that
 * request.
 */
function openNeutrally(pool: Pool): void {
  const newClient = pool.newClient?.bind(pool);
  if (newClient === undefined) return;
  pool.newClient = (waiting) => {
    waiting.callback = AsyncResource.bind(waiting.callback);
    neutral(() => newClient(waiting));
  };
}

/** Ends the connection under a runner, so that the pool drops it at release instead of lending it again. */
export async function destroyConnection(runner: QueryRunner): Promise<void> {
  const client = await pgClient(runner);
  // Not awaited: on a half-open socket the end never comes, and the pool does not wait for it either.
  client.end().catch(() => undefined);
}

/**
 * Runs statements on one connection, each by itself. A connection to a server that cannot be used is dropped. After a failover, the pool
 * would lend connections to the demoted server for ever, since they work except for writing.
 * @param endAfterMs when the connection is given up: a half-open one never answers. @default never
 * @param on a replica of the DataSource, for reads that decide nothing. @default 'master'
 */
export async function onConnection<T>(
  dataSource: DataSource,
  work: (manager: EntityManager) => Promise<T>,
  endAfterMs?: number,
  on?: 'master' | 'slave',
): Promise<T> {
  const runner = dataSource.createQueryRunner(on);
  let end: NodeJS.Timeout | undefined;
  try {
    await runner.connect();
    end = endAfter(runner, endAfterMs);
    return await work(runner.manager);
  } catch (error) {
    if (isServerUnusable(error)) await destroyConnection(runner);
    throw error;
  } finally {
    clearTimeout(end);
    await runner.release();
  }
}

function endAfter(runner: QueryRunner, ms: number | undefined): NodeJS.Timeout | undefined {
  return ms === undefined
    ? undefined
    : setTimeout(() => void destroyConnection(runner), Math.min(ms, MAX_TIMER_MS));
}

/**
 * Begins a READ COMMITTED transaction with its settings, in milliseconds. It ignores the application's default: under REPEATABLE READ a
 * duplicate is a serialization failure.
 */
export function beginning(settings: Readonly<Record<string, number>>): string[] {
  return ['START TRANSACTION ISOLATION LEVEL READ COMMITTED', ...setting(settings)];
}

/** Settings of a transaction, in milliseconds. */
export function setting(settings: Readonly<Record<string, number>>): string[] {
  return Object.entries(settings).map(([name, ms]) => `SET LOCAL ${name} = ${Math.max(1, Math.round(ms))}`);
}

/** Makes TypeORM treat a transaction that it did not begin as open, so that a nested one is a savepoint. */
export function markBegun(runner: QueryRunner): void {
  Object.assign(runner, { isTransactionActive: true, transactionDepth: 1 });
}

/** Has it know that the transaction is over. */
export function markEnded(runner: QueryRunner): void {
  Object.assign(runner, { isTransactionActive: false, transactionDepth: 0 });
}

/**
 * Runs database work that calls no user code in one READ COMMITTED transaction. The application's subscribers are not called: one that
 * throws would keep the record from being written.
 * @param endAfterMs when the connection is given up: a half-open one never answers. @default ten times `lockTimeoutMs`
 */
export async function inTransaction<T>(
  manager: EntityManager,
  lockTimeoutMs: number,
  work: (manager: EntityManager) => Promise<T>,
  endAfterMs = 10 * lockTimeoutMs,
  on?: 'master' | 'slave',
): Promise<T> {
  const inside = async (within: EntityManager) => {
    const runner = within.queryRunner!;
    const client = await pgClient(runner);
    try {
      // In one message, where TypeORM sends one for each.
      await client.query(beginning({ lock_timeout: lockTimeoutMs }).join('; '));
      markBegun(runner);
      const result = await work(within);
      const { command } = await client.query('COMMIT');
      if (command !== 'COMMIT') throw new NotCommitted(false, `COMMIT was answered ${command}`);
      return result;
    } catch (error) {
      // The error that matters is the first one.
      await client.query('ROLLBACK').catch(() => destroyConnection(runner));
      throw error;
    } finally {
      markEnded(runner);
    }
  };
  return onConnection(dataSourceOf(manager), inside, endAfterMs, on);
}

interface PoolOptions {
  readonly max?: number;
  readonly poolSize?: number;
}

/** Connections of the DataSource's pool: pg's default is 10. */
export function poolSize(dataSource: DataSource): number {
  const { extra, poolSize: size } = dataSource.options as { extra?: PoolOptions; poolSize?: number };
  // As pg reads them: 0 counts as not given.
  return Number(extra?.max ?? size) || Number(extra?.poolSize) || 10;
}
