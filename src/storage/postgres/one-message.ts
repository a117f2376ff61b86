import { hash } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { isDatabaseUnavailable, isLostStatement } from '../../core/classify.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { dataSourceOf, pgClient, type PgClient, type PgResult } from './connection.js';
import {
  OneMessage,
  type Answers,
  type Prepared,
  type QueryBehind,
  type Statement,
} from './message-query.js';
import { qualified, type EachCommitted } from '../schema/own-schema.js';
import { OWN_TYPES } from './own-types.js';

/** The object that sends statements: a manager, or `eachInTransaction`'s, which commits each of them. */
export type Statements = EntityManager | EachCommitted;

/** The state of a connection. */
interface Known {
  /**
   * Whether it leads to one server process from its first statement to its last, so that what is prepared on it stays. Undefined until
   * it was asked.
   */
  direct: boolean | undefined;
  /** The statements prepared on it, by name. */
  readonly prepared: Map<string, Prepared>;
}

const known = new WeakMap<PgClient, Known>();
const unprepared = new WeakSet<DataSource>();
const names = new Map<string, string>();

/** A process sends its number to a client at the start. A pooler makes one up, since it lends many processes to one client. */
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
 * As `prepared`, and planned once for all values. PostgreSQL plans a statement anew each time where a plan for the given values looks
 * cheaper, as it does when they say how many rows there will be. Planning a lease takes longer than the lease. Inside a transaction the
 * setting also holds for later statements.
 */
export async function plannedOnce<T>(
  manager: EntityManager,
  sql: string,
  values: readonly unknown[],
): Promise<T[]> {
  return lastOf(manager, [ONE_PLAN, { sql, values }]);
}

/**
 * Until the end of the transaction, which a message without BEGIN is too. By index, row after row. A table that is often empty has
 * statistics of no rows, and each other way of reading seems cheaper then.
 */
export const ONE_PLAN = {
  sql: `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
               set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
               set_config('enable_mergejoin', 'off', true)`,
};

async function lastOf<T>(manager: EntityManager, statements: readonly Statement[]): Promise<T[]> {
  const dataSource = dataSourceOf(manager);
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
 * Sends statements in one message, with one round trip for all of them, and returns their results in order. An error ends the message:
 * later statements do not run, a COMMIT among them.
 * @param send past a gate on the client. @default the client's own
 */
export async function inOneMessage(
  client: PgClient,
  dataSource: DataSource,
  statements: readonly Statement[],
  send: PgClient['query'] = client.query.bind(client),
): Promise<PgResult[]> {
  const own = statements.map(({ sql, values }) => ({ sql: qualified(dataSource, sql), values }));
  const learning = learn(client, dataSource);
  if (learning !== undefined) await learning;
  const answers = writesProtocol(client) ? await submit(client, send, own) : undefined;
  if (answers === undefined) return oneByOne(send, own);
  if (answers.error !== null) throw answers.error;
  return answers.results;
}

/**
 * Whether a message can be sent. pg-native speaks another protocol, and has no connection to write to. A wrapper of the client that
 * copies queries has pg send the copy, as a query with one text.
 */
export function writesProtocol(client: PgClient): boolean {
  return client.connection !== undefined && !copied.has(client);
}

/** Asks what has to be known of a connection, unless it is known. */
export function learn(client: PgClient, dataSource: DataSource): Promise<void> | undefined {
  if (!writesProtocol(client) || knownOf(client).direct !== undefined || unprepared.has(dataSource))
    return undefined;
  return ask(client);
}

async function ask(client: PgClient): Promise<void> {
  const answers = await submit(client, client.query.bind(client), [{ sql: SERVER_PROCESS }]);
  if (answers === undefined) return;
  if (answers.error !== null) throw answers.error;
  knownOf(client).direct = answers.results[0]!.rows[0]!['pid'] === client.processID;
}

/**
 * A query of the application's, as pg writes it, behind statements of ours: in one message, sent at once.
 * @returns undefined when nothing of it was done: a wrapper of the client has copied it
 */
export function queryBehind(
  client: PgClient,
  statements: readonly Statement[],
  query: QueryBehind,
  send: PgClient['query'],
): Promise<Answers | undefined> {
  return submit(client, send, statements, query);
}

function knownOf(client: PgClient): Known {
  let about = known.get(client);
  if (about === undefined) {
    about = { direct: undefined, prepared: new Map() };
    known.set(client, about);
  }
  return about;
}

async function oneByOne(send: PgClient['query'], statements: readonly Statement[]): Promise<PgResult[]> {
  const results: PgResult[] = [];
  for (const { sql, values } of statements)
    results.push((await send({ text: sql, values, types: OWN_TYPES })) as PgResult);
  return results;
}

/** @returns undefined when nothing of it was done: a wrapper of the client has copied it */
function submit(
  client: PgClient,
  send: PgClient['query'],
  statements: readonly Statement[],
  query?: QueryBehind,
): Promise<Answers | undefined> {
  const about = knownOf(client);
  const named = statements.map(({ sql }) => (about.direct === true ? nameOf(sql) : undefined));
  return new Promise((resolve) => {
    const answer = (answers: Answers) => {
      if (isOfCopy(message, answers.error)) {
        goWithout(client);
        resolve(undefined);
        return;
      }
      if (isLostStatement(answers.error)) {
        // The cause may remove them again, so this connection goes on without prepared statements.
        about.direct = false;
        about.prepared.clear();
      }
      resolve(answers);
    };
    const message = new OneMessage(statements, query, named, about.prepared, answer);
    const ended = (error: Error | null) => answer(message.answers(error));
    const returned = send(message);
    // A wrapper may leave the message without its callback. Then its promise shows the end.
    if (returned instanceof Promise)
      returned.then(
        (value: unknown) =>
          (Object(value) as Partial<PgResult>).rows !== undefined || Array.isArray(value)
            ? ended(null)
            : undefined,
        ended,
      );
  });
}

/** pg has got something else than the message: its answer, or its refusal. A broken connection says nothing of that. */
function isOfCopy({ isReached }: OneMessage, error: Error | null): boolean {
  return !isReached && !isDatabaseUnavailable(error) && error?.message !== 'Query read timeout';
}

const copied = new WeakSet<PgClient>();
let told = false;

function goWithout(client: PgClient): void {
  copied.add(client);
  if (told) return;
  told = true;
  new InboxLogger().warn(
    logLine(
      'an instrumentation of the pg client copies queries (OpenTelemetry does with addSqlCommenterCommentToQueries). So several ' +
        'statements cannot go in one message: each takes a round trip of its own',
      {},
    ),
  );
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
