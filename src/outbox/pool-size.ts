import type { DataSource } from 'typeorm';

/** Connections of the DataSource's pool: pg's default is 10. */
export function poolSize(dataSource: DataSource): number {
  const { extra, poolSize: size } = dataSource.options as { extra?: { max?: number }; poolSize?: number };
  return extra?.max ?? size ?? 10;
}
