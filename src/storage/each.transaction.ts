import type { DataSource } from 'typeorm';
import { isLostStatement, isServerUnusable } from '../core/classify.js';
import { destroyConnection, onConnection, pgClient } from './connection.js';
import { answersTo, type Statements } from './one.message.js';
import type { Statement } from './message.query.js';

/** Limits of such a transaction, in milliseconds. */
export interface TransactionLimits {
  /** How long it waits for another transaction. */
  readonly lockTimeoutMs: number;
  /** When its connection is given up: a half-open one never answers. */
  readonly endAfterMs: number;
}

/** Statements that are a transaction each. */
export interface Transactions extends Statements {
  /**
   * Has a statement sent behind the next one's COMMIT, in the same message. It is another transaction: should it fail, what was committed
   * stays so, and `done` is not called.
   */
  followWith(statement: Statement, done: () => void): void;
}

/**
 * Runs `work` on one connection, where each statement is a READ COMMITTED transaction of its own, sent with its BEGIN and COMMIT in one
 * message. For statements that call no user code.
 */
export async function eachInTransaction<T>(
  dataSource: DataSource,
  { lockTimeoutMs, endAfterMs }: TransactionLimits,
  work: (statements: Transactions) => Promise<T>,
): Promise<T> {
  const begin = [
    { sql: BEGIN },
    { sql: `SET LOCAL lock_timeout = ${Math.max(1, Math.round(lockTimeoutMs))}` },
  ];
  return onConnection(
    dataSource,
    async (manager) => {
      const runner = manager.queryRunner!;
      const client = await pgClient(runner);
      /** @param needed how many of them must succeed */
      const send = async (statements: readonly Statement[], needed: number) => {
        try {
          const { error, results } = await answersTo(client, dataSource, statements);
          if (results.length < needed) throw error;
          if (isServerUnusable(error)) await destroyConnection(runner);
          return results;
        } catch (error) {
          // Whether it is needed is known only later: pg tells of the failure before the server says what state it is in. One that is
          // not answered (a `query_timeout` of the pool's) leaves a transaction behind that may be running still.
          await client.query('ROLLBACK').catch(() => destroyConnection(runner));
          throw error;
        }
      };
      let follows: { readonly statement: Statement; readonly done: () => void } | undefined;
      const query = async (sql: string, values?: readonly unknown[]) => {
        const transaction = [...begin, { sql, values }, { sql: 'COMMIT' }];
        const follower = follows;
        follows = undefined;
        const statements = follower === undefined ? transaction : [...transaction, follower.statement];
        const results = await send(statements, transaction.length).catch((error: unknown) => {
          // It was refused before its COMMIT, and this connection goes on without prepared statements.
          if (isLostStatement(error)) return send(statements, transaction.length);
          throw error;
        });
        if (results.length > transaction.length) follower?.done();
        return results[2]!.rows;
      };
      const followWith = (statement: Statement, done: () => void) => {
        follows = { statement, done };
      };
      return work({ query: query as Statements['query'], followWith });
    },
    endAfterMs,
  );
}

// Whatever the application's default is: under REPEATABLE READ a duplicate is a serialization failure.
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
