import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { sqlStateOf, isServerUnusable } from '../../core/classify.js';
import { MAX_TIMER_MS } from '../../core/options/duration.js';
import type { OpenTransaction } from '../../core/options/options.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import {
  inPlaceOfQuery,
  NotCommitted,
  pgClient,
  TimedOut,
  type PgClient,
  type PgResult,
} from './connection.js';

/** The parts of such a transaction for the work in it. */
export interface Inside {
  readonly manager: EntityManager;
  readonly runner: QueryRunner;
  readonly client: PgClient;
  /** The client's own way, for what stands in its place meanwhile. */
  readonly passThrough: PgClient['query'];
  /** Called when all is over, before the pool has the connection again: it may wait, and then what it returns is called. */
  leave: () => Promise<() => void>;
  /** Whether settings of the session have been changed, so that the pool must not lend the connection again. */
  changesSession?: () => boolean;
  /** Says which query has failed, where the COMMIT is answered ROLLBACK. */
  swallowed?: () => string;
}

/** After its connection was given up, for code that waits for something else. */
const LAST_MS = 1_000;

/**
 * A transaction that TypeORM, or the application, begins and ends, so that subscribers and loggers see all of it. Only the end is checked:
 * PostgreSQL answers ROLLBACK to the COMMIT of a transaction that has failed, and TypeORM takes it for success.
 */
export class HostTransaction<T> {
  private static readonly logger = new InboxLogger();
  private inside: Inside | undefined;
  private putBack: (() => void) | undefined;
  private result: { readonly value: T } | undefined;
  private committed = false;
  private failure: Error | undefined;
  private left = false;

  private constructor(private readonly work: (inside: Inside) => Promise<T>) {}

  /**
   * @param endAfterMs when its connection is given up: a half-open one never answers, and a subscriber may wait for ever
   * @throws what `work` threw; NotCommitted when COMMIT did not answer COMMIT
   */
  static async run<T>(
    dataSource: DataSource,
    open: OpenTransaction | undefined,
    endAfterMs: number,
    work: (inside: Inside) => Promise<T>,
  ): Promise<T> {
    const transaction = new HostTransaction(work);
    if (open !== undefined) return transaction.outcome(transaction.by(open, dataSource), endAfterMs);
    return transaction.outcome(transaction.byTypeorm(dataSource.createQueryRunner()), endAfterMs);
  }

  /** On a connection of the caller's, by TypeORM. */
  static async on<T>(
    runner: QueryRunner,
    endAfterMs: number,
    work: (manager: EntityManager) => Promise<T>,
  ): Promise<T> {
    const transaction = new HostTransaction<T>(({ manager }) => work(manager));
    const release = runner.release.bind(runner);
    // It goes on with the connection.
    runner.release = async () => undefined;
    const opened = transaction.byTypeorm(runner).finally(() => Object.assign(runner, { release }));
    return transaction.outcome(opened, endAfterMs);
  }

  private async byTypeorm(runner: QueryRunner): Promise<void> {
    try {
      await this.enter(runner);
      await runner.manager.transaction('READ COMMITTED', () => this.runOnce());
    } finally {
      await runner.release();
    }
  }

  private async by(open: OpenTransaction, dataSource: DataSource): Promise<void> {
    await open(dataSource, async ({ queryRunner: runner } = dataSource.manager) => {
      if (runner === undefined || !runner.isTransactionActive) throw new NotCommitted(false, NOT_OPENED);
      await this.enter(runner);
      await this.runOnce();
    });
  }

  private async enter(runner: QueryRunner): Promise<void> {
    if (this.inside !== undefined) throw new NotCommitted(false, `\`run\` was called a second time: ${ONCE}`);
    const client = await pgClient(runner);
    const passThrough = client.query.bind(client);
    const { manager } = runner;
    this.inside = { manager, runner, client, passThrough, leave: async () => () => undefined };
    const seen = ((...args: Parameters<PgClient['query']>) =>
      this.seen(args[0], passThrough(...args))) as PgClient['query'];
    Object.assign(this.inside, { passThrough: seen });
    this.putBack = inPlaceOfQuery(client, seen);
    const release = runner.release.bind(runner);
    runner.release = () => this.release(release);
  }

  private async runOnce(): Promise<void> {
    this.result = { value: await this.work(this.inside!) };
  }

  /** The COMMIT that ends it is the first one after the work. */
  private seen(text: unknown, sent: unknown): unknown {
    if (text !== 'COMMIT' || this.result === undefined || this.committed || !(sent instanceof Promise))
      return sent;
    return (sent as Promise<PgResult>).then(
      (answer) => {
        this.committed = answer.command === 'COMMIT';
        if (this.committed) return answer;
        const why = this.inside!.swallowed?.() ?? SWALLOWED;
        throw this.failed(new NotCommitted(false, `COMMIT was answered ${answer.command}: ${why}`));
      },
      (error: unknown) => {
        // With an answer there is no doubt about the end: a deferred constraint, for one.
        if (sqlStateOf(error) !== undefined && !isServerUnusable(error)) throw error;
        throw this.failed(new NotCommitted(true, 'the connection broke during COMMIT', { cause: error }));
      },
    );
  }

  private failed(error: Error): Error {
    this.failure = error;
    return error;
  }

  private async release(release: () => Promise<void>): Promise<void> {
    if (this.left) return;
    this.left = true;
    const { client, leave, changesSession } = this.inside!;
    const afterwards = await leave();
    this.putBack!();
    // A hook that throws before ROLLBACK keeps TypeORM from sending it, and the pool would lend the open transaction.
    const isUnfit = client.getTransactionStatus() !== 'I' || changesSession?.() === true;
    if (isUnfit) client.end().catch(() => undefined);
    const released = release();
    afterwards();
    await released;
  }

  private async outcome(opened: Promise<void>, endAfterMs: number): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const timedOut = new Promise<void>((_, reject) => {
      const giveUp = () => {
        reject(new TimedOut('the transaction, with the hooks of its subscribers,', endAfterMs));
        void this.inside?.runner.release();
      };
      const end = () => {
        this.inside?.client.end().catch(() => undefined);
        timer = setTimeout(giveUp, LAST_MS);
      };
      timer = setTimeout(end, Math.min(endAfterMs, MAX_TIMER_MS));
    });
    try {
      await Promise.race([opened, timedOut]);
    } catch (error) {
      if (!this.committed) throw this.failure ?? error;
      HostTransaction.logger.warn(
        logLine(`failed after a COMMIT, without effect on it: ${errorText(error)}`, {}),
      );
    } finally {
      clearTimeout(timer);
      opened.catch(() => undefined);
    }
    if (!this.committed || this.result === undefined) throw new NotCommitted(false, NOT_COMMITTED);
    return this.result.value;
  }
}

const ONCE = 'the option `transaction` opens one transaction for each call';
const SWALLOWED = 'a query failed, and its error was swallowed';
const NOT_OPENED =
  'the option `transaction` called `run` outside a transaction: expected `run(manager)` with the manager of an open one, ' +
  'or a dataSource.manager that is its manager';
const NOT_COMMITTED =
  'the option `transaction` resolved without the COMMIT of the transaction that `run` worked in: it must open a transaction of its ' +
  'own each time (REQUIRES_NEW), and commit it before it resolves';
