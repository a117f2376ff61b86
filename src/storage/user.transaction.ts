import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { orAborted } from '../core/abort.js';
import { isServerUnusable, sqlStateOf } from '../core/classify.js';
import { MAX_TIMER_MS } from '../core/duration.js';
import { WebhookInboxError } from '../core/errors.js';
import {
  beginning,
  begun,
  broadcast,
  dataSourceOf,
  destroyConnection,
  pgClient,
  type PgClient,
  type PgResult,
} from './connection.js';
import { LazyBegin } from './lazy.begin.js';
import type { Statement } from './message.query.js';
import { inOneMessage, learn } from './one.message.js';
import { ManagerMisused, REMEDY, UserGate, type Call } from './user.gate.js';

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

/** What goes with the COMMIT. */
interface LastStatements {
  readonly statements: readonly Statement[];
  /** The error of a refusal, undefined when it is another. */
  readonly refusal: (error: unknown) => Error | undefined;
  /** Told the answers once they are committed. */
  readonly answered?: (answers: readonly PgResult[]) => void;
}

/** How long past its time a transaction may take to end, before its connection is given up: a half-open one never answers. */
const END_MS = 5_000;

/**
 * A transaction that user code runs in, on a connection whose gate is open only while that code runs. All queries pass through the pg
 * client, so that is where the gate is.
 */
export class UserTransaction {
  private last: LastStatements | undefined;
  /** With a BEGIN in front of it where nothing had begun: one that is refused leaves the transaction open. */
  private commitSent = false;
  private destroyed = false;

  private constructor(
    private readonly runner: QueryRunner,
    private readonly client: PgClient,
    private readonly passThrough: PgClient['query'],
    private readonly lazy: LazyBegin,
    private readonly gate: UserGate,
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
   * @throws NotCommitted when COMMIT did not answer COMMIT; ManagerMisused when user code left a query behind
   */
  static async run<T>(
    dataSource: DataSource,
    { timeoutMs, onMisuse }: { readonly timeoutMs: number; readonly onMisuse: (detail: string) => void },
    work: (transaction: UserTransaction) => Promise<T>,
  ): Promise<T> {
    const runner = dataSource.createQueryRunner();
    let transaction: UserTransaction | undefined;
    try {
      const client = await pgClient(runner);
      await learn(client, dataSource);
      const passThrough = client.query.bind(client);
      const lazy = new LazyBegin(client, passThrough, beginning(limits(timeoutMs)));
      transaction = new UserTransaction(runner, client, passThrough, lazy, new UserGate(lazy, onMisuse));
      return await transaction.finish(timeoutMs, work);
    } finally {
      const released = runner.release();
      transaction?.takeBack();
      await released;
    }
  }

  private async finish<T>(timeoutMs: number, work: (transaction: UserTransaction) => Promise<T>): Promise<T> {
    const end = setTimeout(() => void this.destroy(), Math.min(timeoutMs + END_MS, MAX_TIMER_MS));
    try {
      await broadcast(this.runner, 'BeforeTransactionStart');
      await begun(this.runner);
      this.client.query = this.gate.query as PgClient['query'];
      const result = await work(this);
      // A write that was started in the very turn in which the code returned is refused while there is something to roll back.
      if (this.last !== undefined) await nextTurn();
      const { misuse } = this.gate;
      if (misuse !== undefined) throw new ManagerMisused(misuse);
      await this.commit();
      return result;
    } catch (error) {
      if (isServerUnusable(error)) await this.destroy();
      await this.rollback();
      throw error;
    } finally {
      clearTimeout(end);
      // The pool lends the client again: its own method must be back.
      Reflect.deleteProperty(this.client, 'query');
    }
  }

  /**
   * Runs user code with the gate open. When it has ended, or `signal` fires, the gate closes: later queries are never sent.
   * @throws ManagerMisused when committing now would commit a part: a query is still running, a nested transaction is open, the
   * transaction has failed or is over
   */
  async asUser<T>(code: () => Promise<T> | T, signal?: AbortSignal): Promise<T> {
    // Time that went into waiting for a connection counts: code that nobody waits for is not started.
    signal?.throwIfAborted();
    const call: Call = { ofUser: true };
    const depth = nestingOf(this.runner);
    try {
      const result = await this.gate.run(call, () => {
        const running = Promise.resolve().then(code);
        return signal === undefined ? running : orAborted(running, signal);
      });
      // Closed in the same turn: between the two a query would be sent that nobody looks at.
      const fault = this.faultAfter(depth);
      if (fault !== undefined) throw new ManagerMisused(fault);
      return result;
    } catch (error) {
      this.gate.hasFailed(call, signal?.aborted === true);
      // A query that still runs would hold the ROLLBACK back, and may be the one that hangs; code that was given up on may have
      // the client itself in its hands.
      if (this.gate.running > 0 || signal?.aborted === true) await this.destroy();
      throw error;
    } finally {
      this.gate.close(call);
    }
  }

  private faultAfter(depth: number): string | undefined {
    const { running } = this.gate;
    if (running > 0) {
      const queries = running === 1 ? '1 query was' : `${running} queries were`;
      return `${queries} still running when the handler ended: ${REMEDY}`;
    }
    const status = this.client.getTransactionStatus();
    if (status === 'E') return this.gate.swallowed;
    if (status === 'I' && this.lazy.isOpen)
      return 'the handler ended the transaction: COMMIT and ROLLBACK are not its to send';
    if (nestingOf(this.runner) === depth) return undefined;
    return `a manager.transaction() was still running when the handler ended: ${REMEDY}`;
  }

  /** A statement of ours, whatever the gate. */
  async query(sql: string, parameters?: readonly unknown[]): Promise<Record<string, unknown>[]> {
    await this.lazy.begin();
    return (await this.passThrough(sql, parameters)).rows;
  }

  /** Runs statements of a store, which go through the manager, with the gate open for them alone. */
  async asOurs<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const call: Call = { ofUser: false };
    try {
      return await this.gate.run(call, () => work(this.manager));
    } finally {
      this.gate.close(call);
    }
  }

  /**
   * Leaves the last statements to be sent with the COMMIT, in one message: a round trip less for each run. One that is refused must
   * fail, so that nothing is committed.
   */
  commitWith(last: LastStatements): void {
    this.last = last;
  }

  private async commit(): Promise<void> {
    if (dataSourceOf(this.runner.manager).subscribers.length > 0)
      await this.asOurs(async () => broadcast(this.runner, 'BeforeTransactionCommit'));
    let answers: PgResult[];
    await this.lazy.opening;
    try {
      answers = await this.sendCommit();
    } catch (error) {
      const refusal = this.last?.refusal(error);
      if (refusal !== undefined) throw refusal;
      // An answer all the same, and no doubt about the end: a deferred constraint, for one.
      if (sqlStateOf(error) !== undefined && !isServerUnusable(error)) throw error;
      await this.destroy();
      throw new NotCommitted(true, 'the connection broke during COMMIT', { cause: error });
    }
    const answer = answers.at(-1);
    if (answer?.command !== 'COMMIT') {
      // PostgreSQL answers ROLLBACK to the COMMIT of an aborted transaction, without an error.
      await this.destroy();
      throw new NotCommitted(false, `COMMIT was answered ${answer?.command}: ${this.gate.swallowed}`);
    }
    this.last?.answered?.(answers);
    await broadcast(this.runner, 'AfterTransactionCommit')?.catch(() => undefined);
  }

  private async sendCommit(): Promise<PgResult[]> {
    const { statements = [] } = this.last ?? {};
    const begin = this.lazy.isOpen ? [] : this.lazy.statements;
    const message = [...begin, ...statements, { sql: 'COMMIT' }];
    const dataSource = dataSourceOf(this.runner.manager);
    this.commitSent = true;
    const answers = await inOneMessage(this.client, dataSource, message, this.passThrough);
    return answers.slice(begin.length);
  }

  private async rollback(): Promise<void> {
    if (this.destroyed) return;
    try {
      if (this.lazy.opening !== undefined || this.commitSent) await this.passThrough('ROLLBACK');
      await broadcast(this.runner, 'AfterTransactionRollback')?.catch(() => undefined);
    } catch {
      await this.destroy();
    }
  }

  private async destroy(): Promise<void> {
    this.destroyed = true;
    await destroyConnection(this.runner);
  }

  /**
   * After the release. TypeORM throws at whoever still calls the manager; of code that nobody awaits, that would end the process
   * as an unhandled rejection. Such calls come to the gate instead, and never to the connection, which is another's by now.
   */
  private takeBack(): void {
    Object.assign(this.runner, { isReleased: false, databaseConnection: { query: this.gate.query } });
  }
}

/** PostgreSQL refuses more than 2^31 - 1 ms. */
function limits(timeoutMs: number): Record<string, number> {
  const bound = Math.min(Math.max(1, timeoutMs), MAX_TIMER_MS - 1000);
  return { statement_timeout: bound, idle_in_transaction_session_timeout: bound + 1000 };
}

/** How many transactions are open on a runner, nested ones counted: TypeORM's own, protected count. */
function nestingOf(runner: QueryRunner): number {
  return (runner as unknown as { transactionDepth: number }).transactionDepth;
}
