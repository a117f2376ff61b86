import { hash } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { Query } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { sqlStateOf } from '../core/classify.js';
import { destroyConnection, onConnection, pgClient, type PgClient, type PgResult } from './connection.js';

/** What statements are sent through: a manager, or `Transactions`. */
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
  readonly prepared: Set<string>;
}

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
  const runner = manager.queryRunner ?? manager.dataSource.createQueryRunner();
  try {
    const [result] = await inOneMessage(await pgClient(runner), manager.dataSource, [{ sql, values }]);
    return result!.rows as T[];
  } finally {
    if (manager.queryRunner === undefined) await runner.release();
  }
}

/**
 * Sends statements in one message, a round trip for all of them, and gives their results in order. What fails ends the message: those
 * behind it are not run, a COMMIT among them.
 */
export async function inOneMessage(
  client: PgClient,
  dataSource: DataSource,
  statements: readonly Statement[],
): Promise<PgResult[]> {
  // pg-native speaks another protocol, and has no connection to write to.
  if (client.connection === undefined) return oneByOne(client, statements);
  const about = knownOf(client);
  if (about.direct === undefined && !unprepared.has(dataSource)) {
    const [answer] = await submit(client, about, [{ sql: SERVER_PROCESS }]);
    about.direct = answer!.rows[0]!['pid'] === client.processID;
  }
  try {
    return await submit(client, about, statements);
  } catch (error) {
    // Whatever it was that took them away, it may do so again: this connection goes on without.
    if (isLost(error)) about.direct = false;
    throw error;
  }
}

/** Limits of such a transaction, in milliseconds. */
export interface TransactionLimits {
  /** How long it waits for another transaction. */
  readonly lockTimeoutMs: number;
  /** When its connection is given up: a half-open one never answers. */
  readonly endAfterMs: number;
}

/**
 * Runs `work` on one connection, where each statement is a READ COMMITTED transaction of its own, sent with its BEGIN and COMMIT in one
 * message. For statements that call no user code.
 */
export async function eachInTransaction<T>(
  dataSource: DataSource,
  { lockTimeoutMs, endAfterMs }: TransactionLimits,
  work: (statements: Statements) => Promise<T>,
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
          if (isLost(error)) return send(statements);
          throw error;
        });
        return results[2]!.rows;
      };
      return work({ query: query as Statements['query'] });
    },
    endAfterMs,
  );
}

// Whatever the application's default is: under REPEATABLE READ a duplicate is a serialization failure.
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';

/** A prepared statement does not exist, exists already, or has another result than when it was prepared. */
const LOST = new Set(['26000', '42P05', '0A000']);

function isLost(error: unknown): boolean {
  return LOST.has(sqlStateOf(error) ?? '');
}

function knownOf(client: PgClient): Known {
  let about = known.get(client);
  if (about === undefined) {
    about = { direct: undefined, prepared: new Set() };
    known.set(client, about);
  }
  return about;
}

async function oneByOne(client: PgClient, statements: readonly Statement[]): Promise<PgResult[]> {
  const results: PgResult[] = [];
  for (const { sql, values } of statements) results.push(await client.query(sql, values));
  return results;
}

function submit(client: PgClient, about: Known, statements: readonly Statement[]): Promise<PgResult[]> {
  return new Promise((resolve, reject) => {
    client.query(
      new OneMessage(statements, about, (error, results) => {
        if (error === null) resolve([results].flat() as PgResult[]);
        else reject(error);
      }),
    );
  });
}

/** pg's Query, of which its types show little. */
const PgQuery = Query as unknown as new (config: { readonly text: string }) => EventEmitter;

type Done = (error: Error | null, results: unknown) => void;

/** To pg a query with several results, as one with several statements in its text is; what differs is how it is sent. */
export class OneMessage extends PgQuery {
  private readonly fresh: string[] = [];
  /** Of each statement. Made before anything is sent: half a message would never be answered. */
  private readonly encoded: readonly (readonly Encoded[])[];

  constructor(
    readonly statements: readonly Statement[],
    private readonly about: Known,
    done: Done,
  ) {
    super({ text: statements.map(({ sql }) => sql).join('; ') });
    this.encoded = statements.map(({ values = [] }) => values.map(encode));
    Object.assign(this, {
      callback: (error: Error | null, results: unknown) => {
        // After an error it is not known which of them were prepared.
        if (error === null) for (const name of this.fresh) about.prepared.add(name);
        // pg tells of a failure to the callback alone.
        this.emit('close');
        done(error, results);
      },
    });
  }

  /** Called by pg when it is this query's turn. What it returns, pg takes for an error. */
  submit(to: PgConnection): null {
    to.stream.cork?.();
    try {
      for (const [index, { sql }] of this.statements.entries()) this.send(to, sql, this.encoded[index]!);
      to.sync();
    } finally {
      to.stream.uncork?.();
    }
    return null;
  }

  private send(to: PgConnection, sql: string, values: readonly Encoded[]): void {
    const name = this.about.direct === true ? nameOf(sql) : undefined;
    if (name === undefined) to.parse({ text: sql });
    else if (!this.about.prepared.has(name)) {
      // One that is left over from a message that failed would be in the way. To close none is no error.
      to.close({ type: 'S', name });
      to.parse({ name, text: sql });
      this.fresh.push(name);
    }
    to.bind({ statement: name, values });
    to.describe({ type: 'P' });
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
