import { hash } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { Query } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { isLostStatement, isServerUnusable } from '../core/classify.js';
import { destroyConnection, onConnection, pgClient, type PgClient, type PgResult } from './connection.js';

/** What statements are sent through: a manager, or what `eachInTransaction` gives. */
export type Statements = Pick<EntityManager, 'query'>;

/** SQL of ours with its values. The text is one of few: each is prepared once on a connection, and kept there. */
export interface Statement {
  readonly sql: string;
  readonly values?: readonly unknown[];
}

/** What this package uses of pg's connection below its queries, as pg-cursor does. */
interface PgConnection {
  readonly stream: { cork?(): void; uncork?(): void };
  parse(statement: { readonly name?: string; readonly text: string }): void;
  bind(portal: { readonly statement?: string; readonly values: readonly Encoded[] }): void;
  describe(portal: { readonly type: 'P' }): void;
  execute(portal: object): void;
  close(statement: { readonly type: 'S'; readonly name: string }): void;
  sync(): void;
}

/** What is known of a connection. */
interface Known {
  /**
   * Whether it leads to one server process from its first statement to its last, so that what is prepared on it stays. Undefined until
   * it was asked.
   */
  direct: boolean | undefined;
  /** What is prepared on it, by name. */
  readonly prepared: Map<string, Prepared>;
}

interface Prepared {
  readonly since: number;
  /** Of its rows; undefined where it gives none. Described once: of thirty columns that takes longer than reading a row of them. */
  readonly fields: unknown;
}

/**
 * A plan that is kept is that of the table as it was: of one with a page, read from end to end, whatever has come since. PostgreSQL
 * makes it anew when autovacuum has looked, a minute later; here it is never older than this.
 */
const PLAN_MS = 1_000;

const known = new WeakMap<PgClient, Known>();
const unprepared = new WeakSet<DataSource>();
const names = new Map<string, string>();

/** A process tells a client its number at the start; a pooler makes one up, since it lends many processes to one client. */
const SERVER_PROCESS = 'SELECT pg_backend_pid() AS pid';

/** Has no statement of this DataSource prepared. */
export function withoutPreparedStatements(dataSource: DataSource): void {
  unprepared.add(dataSource);
}

/** One statement on the manager's connection, prepared where that lasts. */
export async function prepared<T>(
  manager: EntityManager,
  sql: string,
  values: readonly unknown[],
): Promise<T[]> {
  return lastOf(manager, [{ sql, values }]);
}

/**
 * As `prepared`, and planned once for all values: PostgreSQL plans a statement anew each time where a plan for the very values looks
 * cheaper, as it does when they say how many rows there will be. Planning a lease takes longer than the lease. Inside a transaction it
 * holds for what comes behind, too.
 */
export async function plannedOnce<T>(
  manager: EntityManager,
  sql: string,
  values: readonly unknown[],
): Promise<T[]> {
  return lastOf(manager, [ONE_PLAN, { sql, values }]);
}

/** Until the end of the transaction, which a message without BEGIN is too. */
const ONE_PLAN = { sql: `SELECT set_config('plan_cache_mode', 'force_generic_plan', true)` };

async function lastOf<T>(manager: EntityManager, statements: readonly Statement[]): Promise<T[]> {
  const { dataSource } = manager;
  const runner = manager.queryRunner ?? dataSource.createQueryRunner();
  try {
    const client = await pgClient(runner);
    const results = await inOneMessage(client, dataSource, statements).catch((error: unknown) => {
      // Nothing was done, and this time nothing is prepared; a transaction would be lost with it.
      if (!isLostStatement(error) || runner.isTransactionActive) throw error;
      return inOneMessage(client, dataSource, statements);
    });
    return results.at(-1)!.rows as T[];
  } finally {
    if (manager.queryRunner === undefined) await runner.release();
  }
}

/**
 * Sends statements in one message, a round trip for all of them, and gives their results in order. What fails ends the message: those
 * behind it are not run, a COMMIT among them.
 * @param send past a gate on the client. @default the client's own
 */
export async function inOneMessage(
  client: PgClient,
  dataSource: DataSource,
  statements: readonly Statement[],
  send: PgClient['query'] = client.query.bind(client),
): Promise<PgResult[]> {
  const { error, results } = await answersTo(client, dataSource, statements, send);
  if (error !== null) throw error;
  return results;
}

async function answersTo(
  client: PgClient,
  dataSource: DataSource,
  statements: readonly Statement[],
  send: PgClient['query'] = client.query.bind(client),
): Promise<Answers> {
  if (!writesProtocol(client)) return oneByOne(send, statements);
  await learn(client, dataSource);
  return submit(client, send, statements);
}

/** pg-native speaks another protocol, and has no connection to write to. */
export function writesProtocol(client: PgClient): boolean {
  return client.connection !== undefined;
}

/** Asks what has to be known of a connection, unless it is known. */
export function learn(client: PgClient, dataSource: DataSource): Promise<void> | undefined {
  if (!writesProtocol(client) || knownOf(client).direct !== undefined || unprepared.has(dataSource))
    return undefined;
  return ask(client);
}

async function ask(client: PgClient): Promise<void> {
  const { error, results } = await submit(client, client.query.bind(client), [{ sql: SERVER_PROCESS }]);
  if (error !== null) throw error;
  knownOf(client).direct = results[0]!.rows[0]!['pid'] === client.processID;
}

/** What became of a message: when it failed, the results are those of the statements before. */
export interface Answers {
  readonly error: Error | null;
  readonly results: PgResult[];
}

/** A query of the application's, as pg writes it, behind statements of ours: in one message, sent at once. */
export function queryBehind(
  client: PgClient,
  statements: readonly Statement[],
  query: Required<Statement>,
  send: PgClient['query'],
): Promise<Answers> {
  return submit(client, send, statements, query);
}

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

function knownOf(client: PgClient): Known {
  let about = known.get(client);
  if (about === undefined) {
    about = { direct: undefined, prepared: new Map() };
    known.set(client, about);
  }
  return about;
}

async function oneByOne(send: PgClient['query'], statements: readonly Statement[]): Promise<Answers> {
  const results: PgResult[] = [];
  try {
    for (const { sql, values } of statements) results.push(await send(sql, values));
    return { error: null, results };
  } catch (error) {
    return { error: error as Error, results };
  }
}

function submit(
  client: PgClient,
  send: PgClient['query'],
  statements: readonly Statement[],
  query?: Required<Statement>,
): Promise<Answers> {
  const about = knownOf(client);
  return new Promise((resolve) => {
    send(
      new OneMessage(statements, query, about, (answers) => {
        // Whatever it was that took them away, it may do so again: this connection goes on without.
        if (isLostStatement(answers.error)) about.direct = false;
        resolve(answers);
      }),
    );
  });
}

/** pg's Query, of which its types show little. */
const PgQuery = Query as unknown as new (
  text: string,
  values?: readonly unknown[],
) => EventEmitter & {
  readonly _results: PgResult | PgResult[];
  /** Writes the query itself, to its end, with the Sync behind it. */
  prepare(to: PgConnection): void;
  handleRowDescription(message: { readonly fields: unknown }): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: unknown): void;
};

/** To pg a query with several results, as one with several statements in its text is; what differs is how it is sent. */
export class OneMessage extends PgQuery {
  /** The fields of what is prepared by it, as they are described. */
  private readonly fresh = new Map<string, unknown>();
  /** For each statement that is not described any more. */
  private readonly known = new Map<number, unknown>();
  /** Values of each statement. Made before anything is sent: half a message would never be answered. */
  private readonly encoded: readonly (readonly Encoded[])[];
  /** Which statement's answer comes. */
  private nth = 0;

  constructor(
    /** Of ours. */
    readonly statements: readonly Statement[],
    /** Behind them, of the application's. */
    readonly query: Required<Statement> | undefined,
    private readonly about: Known,
    done: (answers: Answers) => void,
  ) {
    super(query?.sql ?? statements[0]!.sql, query?.values);
    this.encoded = statements.map(({ values = [] }) => values.map(encode));
    Object.assign(this, {
      callback: (error: Error | null) => {
        // After an error it is not known which of them were prepared.
        if (error === null)
          for (const [name, fields] of this.fresh)
            about.prepared.set(name, { since: performance.now(), fields });
        // pg tells of a failure to the callback alone.
        this.emit('close');
        const results = [this._results].flat();
        done({
          error,
          results: error === null ? results : results.filter(({ command }) => command !== null),
        });
      },
    });
  }

  /** Called by pg when it is this query's turn. What it returns, pg takes for an error. */
  submit(to: PgConnection): null {
    to.stream.cork?.();
    try {
      for (const nth of this.statements.keys()) this.send(to, nth);
      if (this.query === undefined) to.sync();
      else this.prepare(to);
    } finally {
      to.stream.uncork?.();
    }
    return null;
  }

  override handleRowDescription(message: { readonly fields: unknown }): void {
    const name = this.nameAt(this.nth);
    if (name !== undefined && this.fresh.has(name)) this.fresh.set(name, message.fields);
    super.handleRowDescription(message);
  }

  override handleDataRow(message: unknown): void {
    const fields = this.known.get(this.nth);
    if (fields !== undefined) {
      this.known.delete(this.nth);
      super.handleRowDescription({ fields });
    }
    super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, connection: unknown): void {
    this.nth += 1;
    super.handleCommandComplete(message, connection);
  }

  private nameAt(nth: number): string | undefined {
    const statement = this.statements[nth];
    return statement && this.about.direct === true ? nameOf(statement.sql) : undefined;
  }

  private send(to: PgConnection, nth: number): void {
    const { sql } = this.statements[nth]!;
    const name = this.nameAt(nth);
    const is = name === undefined ? undefined : this.about.prepared.get(name);
    const isPrepared = is !== undefined && performance.now() - is.since < PLAN_MS;
    if (name === undefined) to.parse({ text: sql });
    else if (!isPrepared) {
      // One that is old, or left over from a message that failed, would be in the way. To close none is no error.
      to.close({ type: 'S', name });
      to.parse({ name, text: sql });
      this.fresh.set(name, undefined);
    }
    to.bind({ statement: name, values: this.encoded[nth]! });
    if (isPrepared) this.known.set(nth, is.fields);
    else to.describe({ type: 'P' });
    to.execute({});
  }
}

/** A hash, and no number: a process may have this package twice, each with numbers of its own, on connections of one pool. */
function nameOf(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `webhook_inbox_${hash('sha256', sql).slice(0, 32)}`;
    names.set(sql, name);
  }
  return name;
}

type Encoded = string | Buffer | null;

/** A value as PostgreSQL reads it. Bytes stay bytes; arrays of ours have one dimension. */
function encode(value: unknown): Encoded {
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return value;
  if (!Array.isArray(value)) return text(value);
  let list = '{';
  for (let index = 0; index < value.length; index += 1) {
    if (index > 0) list += ',';
    list += element(value[index]);
  }
  return `${list}}`;
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Buffer.isBuffer(value)) return `"\\\\x${value.toString('hex')}"`;
  const plain = text(value);
  return SPECIAL.test(plain) ? `"${plain.replaceAll(SPECIALS, '\\$&')}"` : `"${plain}"`;
}

const SPECIAL = /["\\]/;
const SPECIALS = /["\\]/g;

function text(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Date ? value.toISOString() : String(value);
}
