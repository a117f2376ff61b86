import type { DataSource, EntityManager } from 'typeorm';
import { isLostStatement } from '../core/classify.js';
import { destroyConnection, onConnection, pgClient } from './connection.js';
import type { Statement } from './message.query.js';
import { inOneMessage, type Statements } from './one.message.js';

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
   * Has a statement sent as the last one on the connection. Nobody waits for its answer, which may take long; `ended` is called in any
   * case, with the error where it was not done.
   */
  readonly endWith: (statement: Statement, ended: (error?: unknown) => void) => void;
}

/**
 * Runs `work` on one connection, where each statement is a READ COMMITTED transaction of its own, sent with its BEGIN and COMMIT in one
 * message. For statements that call no user code.
 */
export function eachInTransaction<T>(
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
          // Whether it is needed is known only later: pg tells of the failure before the server says what state it is in. One that is
          // not answered (a `query_timeout` of the pool's) leaves a transaction behind that may be running still.
          await client.query('ROLLBACK').catch(() => destroyConnection(runner));
          throw error;
        }
      };
      const query = async (sql: string, values?: readonly unknown[]) => {
        const statements = [...begin, { sql, values }, { sql: 'COMMIT' }];
        const results = await send(statements).catch((error: unknown) => {
          // It was refused before its COMMIT, and this connection goes on without prepared statements.
          if (isLostStatement(error)) return send(statements);
          throw error;
        });
        return results[2]!.rows;
      };
      let last: { readonly statement: Statement; readonly ended: (error?: unknown) => void } | undefined;
      const endWith: Transactions['endWith'] = (statement, ended) => {
        last = { statement, ended };
      };
      try {
        const result = await work({ query: query as Statements['query'], endWith });
        // On its way before whoever gets the result goes on.
        const sent = last && send([last.statement]);
        resolve(result);
        await sent;
        last?.ended();
      } catch (error) {
        last?.ended(error);
        throw error;
      }
    };
    onConnection(dataSource, onOne, endAfterMs).catch(reject);
  });
}

// Whatever the application's default is: under REPEATABLE READ a duplicate is a serialization failure.
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
