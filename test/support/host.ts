import {
  Module,
  type DynamicModule,
  type INestApplication,
  type LoggerService,
  type Provider,
  type Type,
} from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { listen, type Adapter } from './application.js';
import { options as dataSourceOptions } from './database.js';

/** An application as its `main.ts` starts it: through NestFactory, where the body parsers are installed as Nest does it. */
export interface Host {
  readonly databaseUrl: string;
  /** The module under test, as the application imports it. */
  readonly webhooks: DynamicModule | Promise<DynamicModule>;
  readonly imports?: readonly (DynamicModule | Type)[];
  readonly providers?: readonly Provider[];
  readonly controllers?: readonly Type[];
  /** The DataSource connects when the application says so, not at boot. @default false */
  readonly manualInitialization?: boolean;
  /** @default with TypeOrmModule */
  readonly typeOrm?: boolean;
  /** @default with ScheduleModule */
  readonly schedule?: boolean;
}

export function hostModule({
  databaseUrl,
  webhooks,
  imports = [],
  providers,
  controllers,
  schedule,
  typeOrm,
  manualInitialization,
}: Host): Type {
  @Module({
    imports: [
      ...(typeOrm === false
        ? []
        : [
            TypeOrmModule.forRoot({
              ...dataSourceOptions(databaseUrl),
              retryAttempts: 0,
              manualInitialization,
            }),
          ]),
      ...(schedule === false ? [] : [ScheduleModule.forRoot()]),
      webhooks,
      ...imports,
    ],
    providers: [...(providers ?? [])],
    controllers: [...(controllers ?? [])],
  })
  class AppModule {}
  return AppModule;
}

export interface Main {
  /** @default a new one of that kind */
  readonly httpAdapter?: AbstractHttpAdapter;
  /** Options of NestFactory.create. */
  readonly create?: {
    readonly rawBody?: boolean;
    readonly bodyParser?: boolean;
    readonly logger?: LoggerService;
  };
  /** What `main.ts` does between create and listen. */
  readonly configure?: (app: INestApplication) => void;
}

/** Starts the application and gives it with its origin. */
export async function startHost(
  adapter: Adapter,
  host: Host,
  { httpAdapter, create, configure }: Main = {},
): Promise<{ app: INestApplication; origin: string }> {
  const http = httpAdapter ?? (adapter === 'fastify' ? new FastifyAdapter() : new ExpressAdapter());
  const app = await NestFactory.create(hostModule(host), http, {
    logger: false,
    abortOnError: false,
    ...create,
  });
  try {
    configure?.(app);
    return { app, origin: await listen(app) };
  } catch (error) {
    await app.close();
    throw error;
  }
}
