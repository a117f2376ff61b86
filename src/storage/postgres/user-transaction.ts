import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { isServerUnusable } from '../../core/classify.js';
import { MAX_TIMER_MS } from '../../core/options/duration.js';
import type { OpenTransaction } from '../../core/options/options.js';
import {
  beginning,
  setting,
  markBegun,
  inPlaceOfQuery,
  markEnded,
  pgClient,
  type PgClient,
  type PgResult,
} from './connection.js';
import { HostTransaction, type Inside } from './host-transaction.js';
import { LazyBegin } from './lazy-begin.js';
import { learn } from './one-message.js';
import { TransactionEnd, type LastStatements } from './transaction-end.js';
import { wayOf } from './transaction-way.js';
import { ManagerMisused, REMEDY, UserGate, type Call } from './user-gate.js';

interface Bounds {
  readonly timeoutMs: number;
  readonly onMisuse: (detail: string) => void;
}

type Work<T> = (transaction: UserTransaction) => Promise<T>;

/** How long past its time a transaction may take to end, before its connection is given up: a half-open one never answers. */
const END_MS = 5_000;

/**
 * A transaction that user code runs in, on a connection whose gate is open only while that code runs. All queries pass through the pg
 * client, so that is where the gate is.
 */
export class UserTransaction {
  private readonly end: TransactionEnd;

  private constructor(
    private readonly runner: QueryRunner,
    private readonly client: PgClient,
    private readonly passThrough: PgClient['query'],
    private readonly lazy: LazyBegin,
    private readonly gate: UserGate,
  ) {
    this.end = new TransactionEnd(runner, client, passThrough, lazy, gate);
  }

  /** The manager that user code gets. */
  get manager(): EntityManager {
    return this.runner.manager;
  }

  get queryRunner(): QueryRunner {
    return this.runner;
  }

  /**
   * Runs `work` in a transaction and commits it. Rolls back when it throws. Where a part of the application sees transactions, it is one of
   * TypeORM's, or of the application's own. `timeoutMs` also bounds each statement and each pause between two, so that the server ends work
   * that this process has given up.
   * @throws NotCommitted when COMMIT did not answer COMMIT; ManagerMisused when user code left a query behind
   */
  static run<T>(dataSource: DataSource, bounds: Bounds, work: Work<T>): Promise<T> {
    const { isTypeorms, open } = wayOf(dataSource);
    return isTypeorms
      ? UserTransaction.runOfHost(dataSource, open, bounds, work)
      : UserTransaction.runOurs(dataSource, bounds, work);
  }

  private static async runOurs<T>(
    dataSource: DataSource,
    { timeoutMs, onMisuse }: Bounds,
    work: Work<T>,
  ): Promise<T> {
    const runner = dataSource.createQueryRunner();
    let transaction: UserTransaction | undefined;
    try {
      const client = await pgClient(runner);
      const learning = learn(client, dataSource);
      if (learning !== undefined) await learning;
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

  private static async runOfHost<T>(
    dataSource: DataSource,
    open: OpenTransaction | undefined,
    { timeoutMs, onMisuse }: Bounds,
    work: Work<T>,
  ): Promise<T> {
    // Queries of TypeORM and subscribers, before and after the work.
    const around: Call = { ofUser: false };
    let last: LastStatements | undefined;
    let answers: readonly PgResult[] = [];
    const inside = async (within: Inside) => {
      const { runner, client, passThrough } = within;
      const lazy = LazyBegin.begun(client, passThrough);
      const gate = new UserGate(lazy, onMisuse, around);
      const transaction = new UserTransaction(runner, client, passThrough, lazy, gate);
      within.leave = () => transaction.leave(around);
      within.swallowed = () => gate.swallowed;
      within.changesSession = () => gate.changesSession;
      client.query = gate.query as PgClient['query'];
      await runner.query(setting(limits(timeoutMs)).join('; '));
      const result = await transaction.unlessUnusable(work);
      ({ last } = transaction.end);
      answers = await transaction.end.sendLast();
      return result;
    };
    const result = await UserGate.runAs(around, () =>
      HostTransaction.run(dataSource, open, timeoutMs + END_MS, inside),
    );
    last?.answered?.(answers);
    return result;
  }

  private async unlessUnusable<T>(work: Work<T>): Promise<T> {
    try {
      const result = await work(this);
      await this.refuseMisuse();
      return result;
    } catch (error) {
      if (isServerUnusable(error)) await this.end.destroy();
      throw error;
    }
  }

  /** A write that was started in the very turn in which the code returned is refused while there is something to roll back. */
  private async refuseMisuse(): Promise<void> {
    if (this.end.last !== undefined) await nextTurn();
    const { misuse } = this.gate;
    if (misuse !== undefined) throw new ManagerMisused(misuse);
  }

  private async finish<T>(timeoutMs: number, work: Work<T>): Promise<T> {
    const end = setTimeout(() => void this.end.destroy(), Math.min(timeoutMs + END_MS, MAX_TIMER_MS));
    markBegun(this.runner);
    const putBack = inPlaceOfQuery(this.client, this.gate.query as PgClient['query']);
    try {
      const result = await this.unlessUnusable(work);
      await this.end.commit();
      return result;
    } catch (error) {
      await this.end.rollback();
      throw error;
    } finally {
      clearTimeout(end);
      markEnded(this.runner);
      putBack();
      // A plain SET would hold for the next user of the connection, a claim or another tenant's request.
      if (this.gate.changesSession) await this.end.destroy();
    }
  }

  /**
   * Runs user code with the gate open. When it has ended, or `signal` fires, the gate closes: later queries are never sent.
   * @throws ManagerMisused when committing now would commit a part: a query is still running, a nested transaction is open, the
   * transaction has failed or is over
   */
  async asUser<T>(code: () => Promise<T> | T, signal?: AbortSignal): Promise<T> {
    // The wait for a connection counts too. Code is not started once its caller has given up.
    signal?.throwIfAborted();
    const call: Call = { ofUser: true };
    const depth = nestingOf(this.runner);
    try {
      const result = await this.gate.run(call, code, signal);
      // In the same turn as the check: a query that came between them would be sent, and no check would see it.
      this.gate.close(call);
      if (call.fault !== undefined) throw call.fault;
      const fault = this.stillRunning() ?? (await this.awaitFault(depth));
      if (fault !== undefined) throw new ManagerMisused(fault);
      return result;
    } catch (error) {
      this.gate.fail(call, signal?.aborted === true);
      // A query that still runs would delay the ROLLBACK, and may be the one that hangs. Code that was given up may still hold the client
      // itself.
      if (this.gate.isBusy || signal?.aborted === true) await this.end.destroy();
      throw call.fault ?? error;
    } finally {
      this.gate.close(call);
    }
  }

  private stillRunning(): string | undefined {
    const { running } = this.gate;
    if (running === 0) return undefined;
    const queries = running === 1 ? '1 query was' : `${running} queries were`;
    return `${queries} still running when the handler ended: ${REMEDY}`;
  }

  /**
   * pg reports a failed query before the server has sent the transaction's state. Until then pg shows the state before that query. An empty
   * query is answered after it, also in a transaction that has failed.
   */
  private async awaitFault(depth: number): Promise<string | undefined> {
    if (this.gate.hasRefused) await this.passThrough('');
    return this.faultAfter(depth);
  }

  private faultAfter(depth: number): string | undefined {
    const status = this.client.getTransactionStatus();
    if (status === 'E') return this.gate.swallowed;
    if (status === 'I' && this.lazy.isOpen)
      return 'the handler ended the transaction: it must not send COMMIT or ROLLBACK';
    if (nestingOf(this.runner) === depth) return undefined;
    return `a manager.transaction() was still running when the handler ended: ${REMEDY}`;
  }

  /** Sends a statement of ours past the gate. */
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
    this.end.last = last;
  }

  /** When everything has been answered, the hooks of subscribers included. */
  private async leave(around: Call): Promise<() => void> {
    await this.gate.idle();
    around.settled = true;
    this.gate.end();
    return () => this.takeBack();
  }

  /**
   * After the release TypeORM throws when code still uses the manager. If no code awaits it, that would end the process as an unhandled
   * rejection. So such calls reach the gate instead, and never the connection, which has another user by now.
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
