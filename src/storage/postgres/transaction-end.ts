import type { QueryRunner } from 'typeorm';
import { isServerUnusable, sqlStateOf } from '../../core/classify.js';
import { dataSourceOf, destroyConnection, NotCommitted, type PgClient, type PgResult } from './connection.js';
import type { LazyBegin } from './lazy-begin.js';
import type { Statement } from './message-query.js';
import { inOneMessage } from './one-message.js';
import type { UserGate } from './user-gate.js';

/** Statements that are sent with the COMMIT. */
export interface LastStatements {
  readonly statements: readonly Statement[];
  /** The error of a refusal, undefined when it is another. */
  readonly refusal: (error: unknown) => Error | undefined;
  /** Called with the answers once they are committed. */
  readonly answered?: (answers: readonly PgResult[]) => void;
}

/** Ends a user transaction: by its COMMIT with the last statements, by ROLLBACK, or with its connection. */
export class TransactionEnd {
  last: LastStatements | undefined;
  /** Whether the COMMIT was sent, with a BEGIN in front of it where nothing had begun. A refused COMMIT leaves the transaction open. */
  private sent = false;
  private destroyed = false;

  constructor(
    private readonly runner: QueryRunner,
    private readonly client: PgClient,
    private readonly passThrough: PgClient['query'],
    private readonly lazy: LazyBegin,
    private readonly gate: UserGate,
  ) {}

  async commit(): Promise<void> {
    const { statements = [] } = this.last ?? {};
    await this.lazy.opening;
    const begin = this.lazy.isOpen ? [] : this.lazy.statements;
    // Nothing was begun, and there is nothing to do.
    if (begin.length > 0 && statements.length === 0) return;
    let answers: PgResult[];
    try {
      answers = await this.send([...begin, ...statements, { sql: 'COMMIT' }]);
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
    this.last?.answered?.(answers.slice(begin.length));
  }

  /** Sends the last statements where other code commits. */
  async sendLast(): Promise<readonly PgResult[]> {
    const { statements = [], refusal } = this.last ?? {};
    if (statements.length === 0) return [];
    try {
      return await this.send(statements);
    } catch (error) {
      throw refusal?.(error) ?? error;
    }
  }

  private send(statements: readonly Statement[]): Promise<PgResult[]> {
    this.sent = true;
    return inOneMessage(this.client, dataSourceOf(this.runner.manager), statements, this.passThrough);
  }

  async rollback(): Promise<void> {
    if (this.destroyed) return;
    try {
      if (this.lazy.opening !== undefined || this.sent) await this.passThrough('ROLLBACK');
    } catch {
      await this.destroy();
    }
  }

  async destroy(): Promise<void> {
    this.destroyed = true;
    await destroyConnection(this.runner);
  }
}
