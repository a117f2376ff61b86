import { AsyncLocalStorage } from 'node:async_hooks';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { orAborted } from '../core/abort.js';
import { WebhookInboxError } from '../core/errors.js';
import { destroyConnection, pgClient, type PgClient, type PgResult } from './connection.js';

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

/** User code left a query running, or used its manager after it had ended. */
export class ManagerMisused extends WebhookInboxError {
  constructor(message: string) {
    super('MANAGER_MISUSED', message);
  }
}

export class TimedOut extends WebhookInboxError {
  constructor(what: string, timeoutMs: number) {
    super('TIMED_OUT', `${what} did not end within ${timeoutMs} ms; raise its timeout, or do less in it`);
  }
}

/** Which call of user code a query belongs to, so that one left over from an earlier call is told from the present one. */
const currentUser = new AsyncLocalStorage<symbol>();

/**
 * A transaction that user code runs in, on a connection whose gate is open only while that code runs: TypeORM offers no way to
 * take a manager back, and a write that was not awaited would land after the rollback, in the next transaction of the pool's
 * connection. All queries pass through the pg client, so that is where the gate is.
 */
export class UserTransaction {
  private user: symbol | undefined;
  private running = 0;
  private destroyed = false;

  private constructor(
    private readonly runner: QueryRunner,
    private readonly client: PgClient,
    private readonly passThrough: PgClient['query'],
    private readonly onMisuse: (detail: string) => void,
  ) {}

  /** The manager that user code gets. */
  get manager(): EntityManager {
    return this.runner.manager;
  }

  get queryRunner(): QueryRunner {
    return this.runner;
  }

  /**
   * Runs `work` in a transaction and commits it; rolls back when it throws.
   * `timeoutMs` also bounds each statement and each pause between two, so that the server ends what this process has given up.
   * @throws NotCommitted when COMMIT did not answer COMMIT
   */
  static async run<T>(
    dataSource: DataSource,
    options: { readonly timeoutMs: number; readonly onMisuse: (detail: string) => void },
    work: (transaction: UserTransaction) => Promise<T>,
  ): Promise<T> {
    const runner = dataSource.createQueryRunner();
    try {
      const client = await pgClient(runner);
      await runner.startTransaction('READ COMMITTED');
      const bound = Math.max(1, Math.round(options.timeoutMs));
      await client.query(
        `SET LOCAL statement_timeout = ${bound}; SET LOCAL idle_in_transaction_session_timeout = ${bound + 1000}`,
      );
      const transaction = new UserTransaction(runner, client, client.query.bind(client), options.onMisuse);
      return await transaction.finish(work);
    } finally {
      await runner.release();
    }
  }

  private async finish<T>(work: (transaction: UserTransaction) => Promise<T>): Promise<T> {
    this.client.query = this.gated.bind(this) as PgClient['query'];
    try {
      const result = await work(this);
      await this.commit();
      return result;
    } catch (error) {
      await this.rollback();
      throw error;
    } finally {
      // The pool lends the client again: its own method must be back.
      Reflect.deleteProperty(this.client, 'query');
    }
  }

  /**
   * Runs user code with the gate open. When it has ended, or `signal` fires, the gate closes: later queries are never sent.
   * @throws ManagerMisused when a query is still running: committing now would commit without it
   */
  async asUser<T>(code: () => Promise<T> | T, signal?: AbortSignal): Promise<T> {
    const user = Symbol('user');
    this.user = user;
    try {
      const result = await currentUser.run(user, () => {
        const running = Promise.resolve().then(code);
        return signal === undefined ? running : orAborted(running, signal);
      });
      if (this.running > 0) {
        throw new ManagerMisused(
          `${this.running} ${this.running === 1 ? 'query was' : 'queries were'} still running when the handler ended: ` +
            `await every call on the manager, manager.transaction() and Promise.all() included`,
        );
      }
      return result;
    } catch (error) {
      // A query that still runs would hold the ROLLBACK back, and may be the one that hangs.
      if (this.running > 0) await this.destroy();
      throw error;
    } finally {
      this.user = undefined;
    }
  }

  /** A statement of ours, whatever the gate. */
  async query(sql: string, parameters?: readonly unknown[]): Promise<Record<string, unknown>[]> {
    return (await this.passThrough(sql, parameters)).rows;
  }

  /** Runs statements of a store, which go through the manager, with the gate open. */
  async asOurs<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const ours = Symbol('ours');
    const before = this.user;
    this.user = ours;
    try {
      return await currentUser.run(ours, () => work(this.manager));
    } finally {
      this.user = before;
    }
  }

  private async commit(): Promise<void> {
    await this.asOurs(async () => this.runner.broadcaster.broadcast('BeforeTransactionCommit'));
    let answer: PgResult;
    try {
      answer = await this.passThrough('COMMIT');
    } catch (error) {
      await this.destroy();
      throw new NotCommitted(true, 'the connection broke during COMMIT', { cause: error });
    }
    if (answer.command !== 'COMMIT') {
      // PostgreSQL answers ROLLBACK to the COMMIT of an aborted transaction, without an error.
      await this.destroy();
      throw new NotCommitted(
        false,
        `COMMIT was answered ${answer.command}: a query failed and its error was swallowed`,
      );
    }
    await this.runner.broadcaster.broadcast('AfterTransactionCommit').catch(() => undefined);
  }

  private async rollback(): Promise<void> {
    if (this.destroyed) return;
    try {
      await this.passThrough('ROLLBACK');
      await this.runner.broadcaster.broadcast('AfterTransactionRollback').catch(() => undefined);
    } catch {
      await this.destroy();
    }
  }

  private async destroy(): Promise<void> {
    this.destroyed = true;
    await destroyConnection(this.runner);
  }

  private gated(...args: Parameters<PgClient['query']>): unknown {
    const user = this.user;
    const caller = currentUser.getStore();
    // Without a caller (a library that lost its context) the gate alone decides.
    if (user === undefined || (caller !== undefined && caller !== user)) {
      this.onMisuse(
        `a query was started after the handler had ended and was not sent: ${args[0].slice(0, 80)}`,
      );
      return never();
    }
    const sent: unknown = this.passThrough(...args);
    if (!(sent instanceof Promise)) return sent;
    this.running += 1;
    // Once the gate has closed, nobody is there to catch a failure: it would end the process as an unhandled rejection.
    return new Promise((resolve, reject) => {
      sent.then(
        (result) => {
          this.running -= 1;
          if (this.user === user) resolve(result);
        },
        (error: unknown) => {
          this.running -= 1;
          if (this.user === user) reject(error);
        },
      );
    });
  }
}

/** A promise that never settles and is collected with whoever waits for it. */
function never(): Promise<never> {
  return new Promise<never>(() => undefined);
}
