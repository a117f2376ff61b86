import type { DataSource } from 'typeorm';

export interface Statement {
  readonly sql: string;
  readonly parameters: unknown[];
}

/** Every statement that goes through TypeORM while `work` runs; `heard` grows meanwhile. */
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
  try {
    await work(heard);
  } finally {
    dataSource.logger = logger;
  }
  return heard;
}
