import type { DataSource } from 'typeorm';

/** Connections of the DataSource's pool: pg's default is 10. */
export function poolSize(dataSource: DataSource): number {
  const { driver } = dataSource as { driver: { master?: { options?: { max?: number } } } };
  return driver.master?.options?.max ?? 10;
}
