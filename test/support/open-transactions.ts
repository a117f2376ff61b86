import type { TestDatabase } from './database.js';

/**
 * Whether some client keeps a transaction open all the time, for three seconds: one that spans a call. Those of others that come and
 * go (a relay gives turns, a reconciler looks) end in between, on a busy machine too.
 */
export async function transactionHeld({ query }: Pick<TestDatabase, 'query'>): Promise<boolean> {
  const open = async () =>
    (
      await query<{ pid: number; xact_start: string }>(
        `SELECT pid, xact_start::text FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'`,
      )
    ).map(({ pid, xact_start }) => `${pid} ${xact_start}`);
  let held = await open();
  for (const end = Date.now() + 3_000; held.length > 0 && Date.now() < end;) {
    const now = await open();
    held = held.filter((one) => now.includes(one));
  }
  return held.length > 0;
}
