import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { OneMessage } from '../../src/storage/postgres/message-query.js';

export interface Statement {
  readonly sql: string;
  readonly parameters: unknown[];
}

/**
 * Every statement that goes through TypeORM while `work` runs, and every one of ours that goes past it, in this process; `heard` grows
 * meanwhile. Texts are as the stores have them, without the schema of the tables.
 */
export async function hear(
  dataSource: DataSource,
  work: (heard: readonly Statement[]) => Promise<unknown>,
): Promise<Statement[]> {
  const heard: Statement[] = [];
  const { logger } = dataSource;
  const nothing = () => undefined;
  const add = (sql: string, parameters: readonly unknown[]) =>
    void heard.push({ sql: sql.replaceAll('"public".', ''), parameters: [...parameters] });
  dataSource.logger = {
    logQuery: (sql, parameters: unknown[] = []) => add(sql, parameters),
    logQueryError: nothing,
    logQuerySlow: nothing,
    logSchemaBuild: nothing,
    logMigration: nothing,
    log: nothing,
  };
  const query = Reflect.get(Client.prototype, 'query') as (...args: unknown[]) => unknown;
  Client.prototype.query = function (this: Client, ...args: unknown[]) {
    const [message] = args;
    if (message instanceof OneMessage)
      for (const { sql, values = [] } of message.statements) add(sql, values);
    return query.apply(this, args);
  } as unknown as Client['query'];
  try {
    await work(heard);
  } finally {
    dataSource.logger = logger;
    Client.prototype.query = query as unknown as Client['query'];
  }
  return heard;
}
