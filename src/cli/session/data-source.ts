import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { DataSource } from 'typeorm';
import { UsageError } from '../terminal/exit.js';
import { loadTypeScript } from './typescript.js';

/** Connections of a command: one of its own work, one of a bounded read, and one of a notification. */
const POOL = 3;

/** The part of TypeORM's own loader that this file uses. */
interface Loader {
  readonly CommandUtils: { loadDataSource(file: string): Promise<DataSource> };
}

/**
 * The DataSource of a file, loaded by TypeORM's own CLI code: a file that `typeorm -d` takes is taken here. It runs no migration,
 * synchronizes nothing and has no subscribers, as under TypeORM's CLI.
 * @throws UsageError
 */
export async function loadDataSource(file: string): Promise<DataSource> {
  const path = resolve(file);
  if (!existsSync(path))
    throw new UsageError(`-d: expected a DataSource file that is there, received '${file}' (${path})`);
  await loadTypeScript(path);
  const dataSource = await loaded(path, file);
  if (dataSource.options.type !== 'postgres')
    throw new UsageError(
      `-d ${file}: expected a DataSource of type 'postgres', received '${dataSource.options.type}'`,
    );
  dataSource.setOptions({
    synchronize: false,
    migrationsRun: false,
    dropSchema: false,
    subscribers: [],
    logging: false,
  });
  return dataSource;
}

async function loaded(path: string, file: string): Promise<DataSource> {
  const own = createRequire(path).resolve('typeorm/commands/CommandUtils.js');
  const loader = (await import(pathToFileURL(own).href)) as Loader;
  try {
    return await loader.CommandUtils.loadDataSource(path);
  } catch (error) {
    throw new UsageError(
      `-d ${file}: ${error instanceof Error ? error.message : String(error)}. Expected a file that exports one DataSource, as TypeORM's ` +
        `CLI takes it. A TypeScript file needs ts-node, tsx or @swc-node/register in the application, or give the built .js file`,
    );
  }
}

/** @throws UsageError for what is no address of PostgreSQL */
export function dataSourceOfUrl(url: string): DataSource {
  if (!/^postgres(?:ql)?:\/\//.test(url))
    throw new UsageError(
      'DATABASE_URL: expected postgres://user:password@host:5432/database, received another kind of address',
    );
  return new DataSource({
    type: 'postgres',
    url,
    logging: false,
    applicationName: 'webhook-inbox',
    poolSize: POOL,
  });
}
