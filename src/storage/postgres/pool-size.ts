import type { DataSource } from 'typeorm';

interface PoolOptions {
  readonly max?: number;
  readonly poolSize?: number;
}

/** Connections of the DataSource's pool: pg's default is 10. */
export function poolSize(dataSource: DataSource): number {
  const { extra, poolSize: size } = dataSource.options as { extra?: PoolOptions; poolSize?: number };
  // As pg reads them: 0 is none.
  return Number(extra?.max ?? size) || Number(extra?.poolSize) || 10;
}
