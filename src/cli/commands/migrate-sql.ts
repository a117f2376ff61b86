import { Option } from 'commander';
import type { PlainDefinition } from '../command.js';

export const migrateSql: PlainDefinition<{ readonly schema: string; readonly revert?: boolean }> = {
  usage: 'migrate-sql',
  about:
    'Prints the migrations as SQL, for a review or for databases that only a DBA may change. Each statement may run twice.',
  needs: 'nothing',
  options: [
    new Option('--schema <name>', 'schema of the tables').default('public'),
    new Option('--revert', 'the SQL that drops them'),
  ],
  run: async (out, { schema, revert = false }) => {
    const statements = await statementsOf(schema, revert);
    out.line(
      `-- nestjs-webhook-inbox, schema ${JSON.stringify(schema)}: ${revert ? 'drops' : 'makes'} its tables and views.`,
    );
    out.line('BEGIN;');
    for (const statement of statements) out.line(`\n${statement};`);
    out.line('\nCOMMIT;');
    return undefined;
  },
};

/** The statements that the migrations send to a database without their objects. Reads of the catalogue are left out. */
async function statementsOf(schema: string, revert: boolean): Promise<string[]> {
  const [{ DataSource }, { webhookInboxMigrations }] = await Promise.all([
    import('typeorm'),
    import('../../../migrations/index.js'),
  ]);
  const runner = new DataSource({ type: 'postgres' }).createQueryRunner();
  const sent: string[] = [];
  const query = (sql: string) => {
    sent.push(sql);
    return Promise.resolve([]);
  };
  Object.assign(runner, { query });
  const migrations = webhookInboxMigrations({ schema }).map((Migration) => new Migration());
  if (revert) for (const migration of migrations.toReversed()) await migration.down(runner);
  else for (const migration of migrations) await migration.up(runner);
  return sent.map(trimmed).filter((sql) => !/^SELECT\b/i.test(sql));
}

/** Without the indentation of the code. */
function trimmed(sql: string): string {
  const lines = sql.trim().split('\n');
  const indents = lines
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line) => /^ */.exec(line)![0].length);
  const least = Math.min(...indents, 40);
  return [lines[0]!, ...lines.slice(1).map((line) => line.slice(least))].join('\n');
}
