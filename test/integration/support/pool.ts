import type { DataSource } from 'typeorm';
import { until } from '../../support/application.js';

/** What the tests look at of a pg pool. */
export interface Pool {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
  readonly _idle: readonly { readonly client: { getTransactionStatus(): string | null } }[];
}

export function poolOf(dataSource: DataSource): Pool {
  return (dataSource.driver as unknown as { master: Pool }).master;
}

/** Every connection is back in the pool, nobody waits for one, each one's `query` is its own again, and none has a transaction open. */
export async function expectNoLeak(pool: Pool): Promise<void> {
  await until(() => pool.totalCount === pool.idleCount && pool.waitingCount === 0, 5_000).catch(() => {
    throw new Error(
      `the pool has ${pool.totalCount} connections, ${pool.idleCount} of them idle, and ${pool.waitingCount} callers wait for one`,
    );
  });
  for (const { client } of pool._idle) {
    expect(Object.hasOwn(client, 'query')).toBe(false);
    expect(client.getTransactionStatus()).toBe('I');
  }
}

/** Takes every connection of the pool; what is returned gives them back. */
export async function holdPool(dataSource: DataSource): Promise<() => Promise<void>> {
  const { max } = (poolOf(dataSource) as unknown as { options: { max: number } }).options;
  const runners = Array.from({ length: max }, () => dataSource.createQueryRunner());
  await Promise.all(runners.map((runner) => runner.connect()));
  return async () => {
    await Promise.all(runners.map((runner) => runner.release()));
  };
}
