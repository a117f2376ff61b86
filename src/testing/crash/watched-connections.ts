import type { DataSource } from 'typeorm';
import { inPlaceOfQuery, type PgClient } from '../../storage/postgres/connection.js';
import { OneMessage } from '../../storage/postgres/message-query.js';
import { queryText } from '../../storage/postgres/query-text.js';
import { insideUserCode } from '../../storage/postgres/user-gate.js';
import {
  SETTLE,
  SETTLE_MANY,
  SETTLE_OR_FAIL,
  SETTLE_WITH_RESULT,
  SETTLE_WITH_RESULT_OR_FAIL,
} from '../../storage/settle.sql.js';
import type { CrashPlan } from './crash-plan.js';

type Release = (error?: Error) => void;
type Lent = [client: PgClient, release: Release];

/** The place in TypeORM's driver where every query runner gets its connection, and the pool behind it. */
interface Driver {
  obtainMasterConnection(): Promise<Lent>;
  readonly master?: { readonly _clients?: readonly PgClient[] };
}

const SETTLES: ReadonlySet<string> = new Set([
  SETTLE,
  SETTLE_MANY,
  SETTLE_OR_FAIL,
  SETTLE_WITH_RESULT,
  SETTLE_WITH_RESULT_OR_FAIL,
]);

/**
 * The connections of an application that may crash. It sees their queries at the pg client, and destroys their sockets. After that, the
 * application hears of nothing: a process that was killed does not hear of errors either.
 */
export class WatchedConnections {
  private readonly driver: Driver;
  private readonly releases = new Set<Release>();
  /** Connections whose transaction is that of a handler's run. */
  private readonly ofHandlers = new WeakSet<PgClient>();
  /**
   * Rejections for code of the package that waits, called at the end so that the application can be closed. The user's code waits for ever.
   */
  private readonly waiting: ((error: Error) => void)[] = [];
  private isDead = false;
  private isOver = false;
  /** Server processes of the connections that were destroyed. */
  pids: readonly number[] = [];

  constructor(
    dataSource: DataSource,
    private readonly plan: CrashPlan,
    private readonly onCrash: () => void,
  ) {
    this.driver = dataSource.driver;
    const obtain = this.driver.obtainMasterConnection.bind(this.driver);
    this.driver.obtainMasterConnection = async () =>
      this.isDead ? this.untilEnd() : this.watched(await obtain());
  }

  get areDead(): boolean {
    return this.isDead;
  }

  /**
   * Destroys the connections.
   * @returns a promise that never ends, for user code that is not to go on
   */
  destroy<T>(): Promise<T> {
    if (!this.isDead) {
      this.isDead = true;
      const clients = this.driver.master?._clients ?? [];
      this.pids = clients.flatMap(({ processID }) => processID ?? []);
      for (const client of clients) destroySocket(client);
      this.onCrash();
    }
    return never();
  }

  /** Gives the pool its connections back, and fails waiting calls, so that the application can be closed. */
  end(): void {
    this.isOver = true;
    for (const fail of this.waiting) fail(closed());
    for (const giveBack of this.releases) giveBack(closed());
  }

  /** For code of the package: fails at the end. */
  private untilEnd<T>(): Promise<T> {
    if (this.isOver) return Promise.reject(closed());
    return new Promise((_, reject) => this.waiting.push(reject));
  }

  private watched([client, release]: Lent): Lent {
    const send = client.query.bind(client);
    const query = (...args: Parameters<PgClient['query']>) => this.query(client, send, args);
    const putBack = inPlaceOfQuery(client, query as PgClient['query']);
    const giveBack: Release = (error) => {
      if (!this.releases.delete(giveBack)) return;
      putBack();
      release(error);
    };
    this.releases.add(giveBack);
    return [client, giveBack];
  }

  private query(client: PgClient, send: PgClient['query'], args: Parameters<PgClient['query']>): unknown {
    const [query] = args as readonly unknown[];
    if (query instanceof OneMessage) return this.message(client, query, () => send(query));
    const text = typeof query === 'string' ? query : Object(query).text;
    const isPromised = typeof text === 'string' && typeof args.at(-1) !== 'function';
    // Cursors and streams answer by other means than a promise.
    if (!isPromised) return send(...args);
    const ofUser = insideUserCode();
    const silence = () => {
      void this.destroy();
      return ofUser ? never() : this.untilEnd();
    };
    const passing = this.pass(client, text, ofUser);
    if (this.isDead || passing?.before === true) return silence();
    return Promise.resolve(send(...args)).then(
      (result) => (this.isDead || passing?.after === true ? silence() : result),
      (error: unknown) => {
        if (this.isDead) return silence();
        throw error;
      },
    );
  }

  /** The message reports its end by its callback. */
  private message(client: PgClient, message: OneMessage, send: () => unknown): unknown {
    const ofUser = message.query !== undefined && insideUserCode();
    const ours = message.statements.map(({ sql }) => this.pass(client, sql, false));
    const passing =
      message.query === undefined ? ours : [...ours, this.pass(client, message.query.sql, ofUser)];
    const told = Reflect.get(message, 'callback') as (error: unknown, results?: unknown) => void;
    const silence = () => {
      void this.destroy();
      if (!ofUser) this.untilEnd().catch((error: unknown) => told.call(message, error));
    };
    if (this.isDead || passing.some((one) => one?.before)) return silence();
    const callback = (error: unknown, results?: unknown) => {
      if (this.isDead || (!error && passing.some((one) => one?.after))) silence();
      else told.call(message, error, results);
    };
    Object.assign(message, { callback });
    return send();
  }

  /** Undefined for a query that is no point: one of the package's, or outside of a handler. */
  private pass(client: PgClient, sent: string, ofUser: boolean): ReturnType<CrashPlan['pass']> | undefined {
    // As the stores have it, without the schema of the tables.
    const text = sent.replaceAll(/"(?:[^"]|"")+"\.(?=webhook_)/g, '');
    if (/^(START TRANSACTION|BEGIN)/.test(text)) {
      this.ofHandlers.delete(client);
      return undefined;
    }
    if (SETTLES.has(text) || ofUser) this.ofHandlers.add(client);
    if (text === 'COMMIT') return this.ofHandlers.delete(client) ? this.plan.pass('commit') : undefined;
    if (!ofUser) return undefined;
    return /\bwebhook_/.test(text)
      ? this.plan.pass('enqueue')
      : this.plan.pass('query', ` (${queryText(sent)})`);
  }
}

/** The socket, and not the client: the server hears of it as of the end of a process. */
function destroySocket(client: PgClient): void {
  const stream: unknown = client.connection && Reflect.get(client.connection, 'stream');
  const { destroy } = Object(stream) as { readonly destroy?: () => void };
  if (destroy === undefined) client.end().catch(() => undefined);
  else destroy.call(stream);
}

const closed = () => new Error('the application has crashed, and is closed');

export function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}
