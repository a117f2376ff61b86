import { sqlStateOf } from '../../core/classify.js';
import { errorText } from '../../core/log/log.js';

const UNDEFINED_TABLE = '42P01';

/**
 * An error of our own statements as text for logs. The most common error of a first start, a missing table, comes with its remedy. The
 * server may word it in any language, and the table's name is the same in all of them.
 */
export function storeErrorText(error: unknown): string {
  const text = errorText(error);
  const table = sqlStateOf(error) === UNDEFINED_TABLE ? /\bwebhook_\w+/.exec(text)?.[0] : undefined;
  if (table === undefined) return text;
  return (
    `the table ${table} is missing. Run the package's migrations: list webhookInboxMigrations ` +
    `(from nestjs-webhook-inbox/migrations) among the migrations of the DataSource, and run them or \`await migrate(dataSource)\``
  );
}
