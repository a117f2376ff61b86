import type { EventEmitter } from 'node:events';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { isServerUnusable } from '../core/classify.js';
import { MAX_TIMER_MS } from '../core/duration.js';

/** What this package uses of a pooled pg client. TypeORM's `connect()` gives it untyped. */
export interface PgClient {
  query(text: string, values?: readonly unknown[]): Promise<PgResult>;
  query(query: object): unknown;
  end(): Promise<void>;
  /** As PostgreSQL last said: idle (no transaction), in one, or in one that has failed. */
  getTransactionStatus(): 'I' | 'T' | 'E' | null;
  /** Number of the server's process, as it was told at the start. */
  readonly processID: number | null;
  /** Undefined under pg-native. */
  readonly connection?: object;
}
export interface PgResult {
  /** Null until it has ended. */
  readonly command: string | null;
  readonly rows: Record<string, unknown>[];
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

/** A pool of pg's. */
interface Pool extends EventEmitter {
  /** Those that are there already: TypeORM has made one when it was initialised. */
  readonly _clients?: readonly EventEmitter[];
}

/**
 * Gives each client of the DataSource's pools a listener of its own. A server that is shut down while a connection is made sends its
 * farewell with its greeting, before the pool's borrower listens: an 'error' that nobody hears ends the process.
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

/** Ends the connection under a runner, so that the pool drops it at release instead of lending it again. */
export async function destroyConnection(runner: QueryRunner): Promise<void> {
  const client = await pgClient(runner);
  // Not awaited: on a half-open socket the end never comes, and the pool does not wait for it either.
  client.end().catch(() => undefined);
}

/**
 * Runs statements on one connection, each by itself. The connection is dropped when it leads to a server that cannot be used: after
 * a failover, the pool would lend those to the demoted server for ever, since they are sound but for writing.
 * @param endAfterMs when the connection is given up: a half-open one never answers. @default never
 */
export async function onConnection<T>(
  dataSource: DataSource,
  work: (manager: EntityManager) => Promise<T>,
  endAfterMs?: number,
): Promise<T> {
  const runner = dataSource.createQueryRunner();
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
 * Begins a READ COMMITTED transaction with its settings (milliseconds) in one message, where TypeORM sends one for each. Its own
 * count has to know of the transaction: what is nested in it is a savepoint. READ COMMITTED whatever the application's default is:
 * under REPEATABLE READ a duplicate is a serialization failure.
 */
export async function begin(runner: QueryRunner, settings: Readonly<Record<string, number>>): Promise<void> {
  const client = await pgClient(runner);
  await broadcast(runner, 'BeforeTransactionStart');
  await client.query(beginning(settings).join('; '));
  await begun(runner);
}

/** The statements of it. */
export function beginning(settings: Readonly<Record<string, number>>): string[] {
  const local = Object.entries(settings).map(
    ([name, ms]) => `SET LOCAL ${name} = ${Math.max(1, Math.round(ms))}`,
  );
  return ['START TRANSACTION ISOLATION LEVEL READ COMMITTED', ...local];
}

/** Has TypeORM know of the transaction. */
export async function begun(runner: QueryRunner): Promise<void> {
  Object.assign(runner, { isTransactionActive: true, transactionDepth: 1 });
  await broadcast(runner, 'AfterTransactionStart');
}

/** Tells the application's subscribers; where there are none, TypeORM's own way through them costs as much as a statement. */
export function broadcast(
  runner: QueryRunner,
  event: Parameters<QueryRunner['broadcaster']['broadcast']>[0],
): Promise<void> | undefined {
  return dataSourceOf(runner.manager).subscribers.length === 0
    ? undefined
    : runner.broadcaster.broadcast(event);
}

/**
 * Runs database work that calls no user code in one READ COMMITTED transaction.
 * @param endAfterMs when the connection is given up: a half-open one never answers. @default ten times `lockTimeoutMs`
 */
export async function inTransaction<T>(
  manager: EntityManager,
  lockTimeoutMs: number,
  work: (manager: EntityManager) => Promise<T>,
  endAfterMs = 10 * lockTimeoutMs,
): Promise<T> {
  const runner = dataSourceOf(manager).createQueryRunner();
  let end: NodeJS.Timeout | undefined;
  try {
    await runner.connect();
    end = endAfter(runner, endAfterMs);
    await begin(runner, { lock_timeout: lockTimeoutMs });
    const result = await work(runner.manager);
    await runner.commitTransaction();
    return result;
  } catch (error) {
    if (isServerUnusable(error)) await destroyConnection(runner);
    // The error that matters is the first one.
    if (runner.isTransactionActive) await runner.rollbackTransaction().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(end);
    await runner.release();
  }
}
