import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { OneMessage } from '../../src/storage/postgres/message-query.js';

export interface Statement {
  readonly sql: string;
  readonly parameters: unknown[];
}

/**
 * Every statement that goes through TypeORM while `work` runs, and every one of ours that goes past it, in this process; `heard` grows
 * meanwhile.
 */
export async function hear(
  dataSource: DataSource,
  work: (heard: readonly Statement[]) => Promise<unknown>,
): Promise<Statement[]> {
  const heard: Statement[] = [];
  const { logger } = dataSource;
  const nothing = () => undefined;
  dataSource.logger = {
    logQuery: (sql, parameters: unknown[] = []) => void heard.push({ sql, parameters }),
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
      for (const { sql, values = [] } of message.statements) heard.push({ sql, parameters: [...values] });
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
