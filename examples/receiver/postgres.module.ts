import { Global, Inject, Module, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import type { Postgres } from '../support/postgres.js';

const POSTGRES = Symbol('postgres');

/**
 * Stops the PostgreSQL that was started for this process, after everything that uses it: Nest stops global modules last, and of
 * those the one that is imported first. An application with a database of its own has no need of this.
 */
@Global()
@Module({})
export class PostgresModule implements OnApplicationShutdown {
  constructor(@Inject(POSTGRES) private readonly postgres: Postgres) {}

  static with(postgres: Postgres): DynamicModule {
    return { module: PostgresModule, providers: [{ provide: POSTGRES, useValue: postgres }] };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.postgres.stop();
  }
}
