import type { DataSource, EntityManager } from 'typeorm';
import { isLostStatement } from '../../core/classify.js';
import {
  destroyConnection,
  inTransaction,
  NotCommitted,
  onConnection,
  pgClient,
  setting,
} from './connection.js';
import { HostTransaction } from './host-transaction.js';
import type { Statement } from './message-query.js';
import { inOneMessage } from './one-message.js';
import { query, type EachCommitted } from '../schema/own-schema.js';
import { wayOf } from './transaction-way.js';

/** Limits of such a transaction, in milliseconds. */
export interface TransactionLimits {
  /** How long it waits for another transaction. */
  readonly lockTimeoutMs: number;
  /** When its connection is given up: a half-open one never answers. */
  readonly endAfterMs: number;
}

/** Statements that are a transaction each: `commit` sends them. */
export interface Transactions extends EachCommitted {
  /**
   * Sends a statement as the last one on the connection. The caller does not wait for its answer, which may take long. `ended` is called in
   * any case, with the error if it failed.
   */
  readonly endWith: (statement: Statement, ended: (error?: unknown) => void) => void;
}

/** Runs claims and what belongs to them in one READ COMMITTED transaction, which is TypeORM's where the application sees claims. */
export function claimTransaction<T>(
  dataSource: DataSource,
  { lockTimeoutMs, endAfterMs }: TransactionLimits,
  work: (manager: EntityManager) => Promise<T>,
): Promise<T> {
  if (!wayOf(dataSource).claimsAreTypeorms)
    return inTransaction(dataSource.manager, lockTimeoutMs, work, endAfterMs);
  return HostTransaction.run(dataSource, undefined, endAfterMs, async ({ manager }) => {
    await limitLocks(manager, lockTimeoutMs);
    return work(manager);
  });
}

function limitLocks(manager: EntityManager, lockTimeoutMs: number): Promise<unknown> {
  return manager.query(setting({ lock_timeout: lockTimeoutMs }).join('; '));
}

/** Runs `work` on one connection, where each statement is a transaction of its own, in one message or as TypeORM sends it. */
export function eachInTransaction<T>(
  dataSource: DataSource,
  limits: TransactionLimits,
  work: (statements: Transactions) => Promise<T>,
): Promise<T> {
  const each = wayOf(dataSource).claimsAreTypeorms ? eachByTypeorm : eachInOneMessage;
  return each(dataSource, limits, work);
}

function eachByTypeorm<T>(
  dataSource: DataSource,
  { lockTimeoutMs, endAfterMs }: TransactionLimits,
  work: (statements: Transactions) => Promise<T>,
): Promise<T> {
  const onOne = async (manager: EntityManager, resolve: (result: T) => void) => {
    const commit = <R>(sql: string, values?: unknown[]) =>
      HostTransaction.on(manager.queryRunner!, endAfterMs, async (inside) => {
        await limitLocks(inside, lockTimeoutMs);
        return query<R>(inside, sql, values);
      }).catch((error: unknown) => {
        // As a message fails: that the connection broke says that no other claim fares better.
        throw error instanceof NotCommitted && error.inDoubt ? error.cause : error;
      });
    const last = ({ sql, values = [] }: Statement) => query(manager, sql, [...values]);
    await thenLast(commit, work, resolve, last);
  };
  return new Promise((resolve, reject) => {
    onConnection(dataSource, (manager) => onOne(manager, resolve), endAfterMs).catch(reject);
  });
}

/**
 * Resolves with the work's result when the last statement is on its way, and ends when that is answered.
 * @param resolve called earlier, so that the caller does not wait for that answer
 */
async function thenLast<T>(
  commit: EachCommitted['commit'],
  work: (statements: Transactions) => Promise<T>,
  resolve: (result: T) => void,
  send: (statement: Statement) => Promise<unknown>,
): Promise<void> {
  let last: { readonly statement: Statement; readonly ended: (error?: unknown) => void } | undefined;
  const endWith: Transactions['endWith'] = (statement, ended) => {
    last = { statement, ended };
  };
  try {
    const result = await work({ commit, endWith });
    // It is sent before the caller goes on with the result.
    const sent = last && send(last.statement);
    resolve(result);
    await sent;
    last?.ended();
  } catch (error) {
    last?.ended(error);
    throw error;
  }
}

/**
 * Runs `work` on one connection, where each statement is a READ COMMITTED transaction of its own, sent with its BEGIN and COMMIT in one
 * message. For statements that call no user code.
 */
function eachInOneMessage<T>(
  dataSource: DataSource,
  { lockTimeoutMs, endAfterMs }: TransactionLimits,
  work: (statements: Transactions) => Promise<T>,
): Promise<T> {
  const begin = [
    { sql: BEGIN },
    { sql: `SET LOCAL lock_timeout = ${Math.max(1, Math.round(lockTimeoutMs))}` },
  ];
  return new Promise((resolve, reject) => {
    const onOne = async (manager: EntityManager) => {
      const runner = manager.queryRunner!;
      const client = await pgClient(runner);
      const send = async (statements: readonly Statement[]) => {
        try {
          return await inOneMessage(client, dataSource, statements);
        } catch (error) {
          // Only later is it known whether it is needed: pg reports the failure before the server says its state. A query without an answer
          // (a `query_timeout` of the pool) leaves a transaction behind that may still run.
          await client.query('ROLLBACK').catch(() => destroyConnection(runner));
          throw error;
        }
      };
      const commit = async <R>(sql: string, values?: unknown[]) => {
        const statements = [...begin, { sql, values }, { sql: 'COMMIT' }];
        const results = await send(statements).catch((error: unknown) => {
          // It was refused before its COMMIT, and this connection goes on without prepared statements.
          if (isLostStatement(error)) return send(statements);
          throw error;
        });
        return results[2]!.rows as R;
      };
      await thenLast(commit, work, resolve, (last) => send([last]));
    };
    onConnection(dataSource, onOne, endAfterMs).catch(reject);
  });
}

// It ignores the application's default: under REPEATABLE READ a duplicate is a serialization failure.
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
