import { hash } from 'node:crypto';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { ConfigurationError } from '../../core/errors.js';
import { dataSourceOf, pgClient, type PgClient } from '../postgres/connection.js';
import { OWN_TYPES } from '../postgres/own-types.js';

/** Where our tables are, with the texts of our statements for it. */
interface OwnSchema {
  readonly name: string;
  /** Of its notifications: another schema's are another service's. */
  readonly channel: string;
  readonly texts: Map<string, string>;
}

const schemas = new WeakMap<DataSource, OwnSchema>();

/** Far more than the statements that are fixed. */
const MAX_TEXTS = 2_000;

/** A table or view of ours in a statement. Statements hold no other word that begins so. */
const OWN_NAME = /(?<![\w.])webhook_[a-z_]+/g;

/**
 * Fixes the schema of our tables for a DataSource. From then on no `search_path` matters: not that of a role, nor that of a
 * connection, nor what a handler sets. Of one that is not connected yet, the first statement fixes it.
 * @param name as the application says; otherwise the DataSource's, or the one in which its server makes tables
 */
export function fixSchema(dataSource: DataSource, name?: string): void {
  if (name !== undefined) schemas.set(dataSource, ownSchema(name));
  else if (dataSource.isInitialized) own(dataSource);
}

/**
 * Lets a transaction of another DataSource write to our tables. False where it leads to another database, in which they are not.
 */
export function sharesTables(other: DataSource, ours: DataSource): boolean {
  if (other === ours) return true;
  if (other.options.type !== 'postgres' || other.driver.database !== ours.driver.database) return false;
  if (!schemas.has(other)) schemas.set(other, own(ours));
  return true;
}

/** The schema of our tables. */
export function schemaOf(dataSource: DataSource): string {
  return own(dataSource).name;
}

/** The channel of our notifications. */
export function channelOf(dataSource: DataSource): string {
  return own(dataSource).channel;
}

/** The name for an advisory lock. Advisory locks belong to the database, and another schema's work belongs to another service. */
export function lockName(dataSource: DataSource, what: string): string {
  return `webhook-inbox:${own(dataSource).name}:${what}`;
}

/** A statement of ours with its tables named by their schema. */
export function qualified(dataSource: DataSource, sql: string): string {
  const { name, texts } = own(dataSource);
  let text = texts.get(sql);
  if (text === undefined) {
    text = inSchema(name, sql);
    // Filters that people write make texts without end.
    if (texts.size >= MAX_TEXTS) texts.clear();
    texts.set(sql, text);
  }
  return text;
}

export function inSchema(schema: string, sql: string): string {
  return sql.replaceAll(OWN_NAME, (name) => `${quoted(schema)}.${name}`);
}

/** An identifier as PostgreSQL reads it, with any characters. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** A connection on which each statement is a transaction of its own. `eachInTransaction` gives it. */
export interface EachCommitted {
  /** One call is one transaction: BEGIN, the statement, COMMIT. Resolves with the statement's rows once they are committed. */
  readonly commit: <T>(sql: string, values?: unknown[]) => Promise<T>;
}

/**
 * Sends a statement of ours, in the transaction of a manager, or with a COMMIT of its own. Code that has no manager qualifies its statements
 * itself. On a connection that is there it waits for nothing before it is sent: an enqueue would come behind a savepoint that a handler
 * begins later.
 */
export function query<T>(on: EntityManager | EachCommitted, sql: string, values?: unknown[]): Promise<T> {
  if (!('query' in on)) return on.commit<T>(sql, values);
  const { queryRunner } = on;
  const dataSource = dataSourceOf(on);
  const text = qualified(dataSource, sql);
  if (queryRunner === undefined) return readAlone(dataSource.createQueryRunner(), text, values);
  const { databaseConnection } = Object(queryRunner) as { readonly databaseConnection?: PgClient };
  return databaseConnection === undefined
    ? readConnected(queryRunner, text, values)
    : readOwn(queryRunner, databaseConnection, text, values);
}

async function readAlone<T>(runner: QueryRunner, text: string, values?: unknown[]): Promise<T> {
  try {
    return await readConnected<T>(runner, text, values);
  } finally {
    await runner.release();
  }
}

async function readConnected<T>(runner: QueryRunner, text: string, values?: unknown[]): Promise<T> {
  return readOwn(runner, await pgClient(runner), text, values);
}

/** Through TypeORM, so that loggers see it. It takes its connection at once, and that one has pg parse the answer with our parsers. */
function readOwn<T>(
  runner: QueryRunner,
  databaseConnection: PgClient,
  text: string,
  values?: unknown[],
): Promise<T> {
  const reading = {
    query: (sql: string, parameters?: unknown[]) =>
      databaseConnection.query({ text: sql, values: parameters, types: OWN_TYPES }),
  };
  Object.assign(runner, { databaseConnection: reading });
  const answer = runner.query(text, values) as Promise<T>;
  Object.assign(runner, { databaseConnection });
  return answer;
}

function own(dataSource: DataSource): OwnSchema {
  let schema = schemas.get(dataSource);
  if (schema === undefined) {
    schema = ownSchema(schemaBy(dataSource));
    schemas.set(dataSource, schema);
  }
  return schema;
}

/** A schema's name may be as long as a channel's: a hash of it has room beside ours. */
function ownSchema(name: string): OwnSchema {
  return { name, channel: `webhook_inbox_${hash('sha256', name).slice(0, 16)}`, texts: new Map() };
}

/** TypeORM asks the server when it connects, unless the DataSource has the option. */
function schemaBy(dataSource: DataSource): string {
  const { schema } = dataSource.driver;
  if (schema !== undefined && schema !== null && schema !== '') return schema;
  throw new ConfigurationError(
    `The schema of the package's tables is not known: the search_path of the DataSource's connection names no schema that exists. ` +
      `Set it: WebhooksModule.forRoot({ schema: 'webhooks', … }), or TypeOrmModule.forRoot({ schema: 'webhooks', … })`,
  );
}
