import fastifyCompress from '@fastify/compress';
import fastifyCookie from '@fastify/cookie';
import fastifyHelmet from '@fastify/helmet';
import compression from 'compression';
import cookieParser from 'cookie-parser';
import helmet from 'helmet';
import {
  Catch,
  Controller,
  Get,
  Injectable,
  Module,
  Post,
  SetMetadata,
  VersioningType,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import {
  APP_FILTER,
  APP_GUARD,
  APP_INTERCEPTOR,
  APP_PIPE,
  HttpAdapterHost,
  NestFactory,
  Reflector,
} from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ClsModule, ClsService, ClsServiceManager } from 'nestjs-cls';
import { Logger, LoggerModule } from 'nestjs-pino';
import { map } from 'rxjs';
import { DataSource, type EntitySubscriberInterface } from 'typeorm';
import {
  addTransactionalDataSource,
  initializeTransactionalContext,
  Propagation,
  runInTransaction,
  Transactional,
} from 'typeorm-transactional';
import {
  OnEffect,
  OnWebhook,
  UseWebhook,
  WebhooksModule,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import type { Adapter } from '../../support/application.js';
import { options } from '../../support/database.js';
import { validationPipe } from '../../support/validation.js';
import { awardeeSource } from '../../support/sources.js';

const Public = () => SetMetadata('public', true);

@Injectable()
class TokenGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return (
      this.reflector.getAllAndOverride<boolean>('public', [context.getHandler(), context.getClass()]) ?? false
    );
  }
}

@Injectable()
class Envelope implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

@Catch()
class CatchAll implements ExceptionFilter {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch(error: Error, host: ArgumentsHost): void {
    const body = { problem: error.message };
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), body, 418);
  }
}

/** What the application's own code has seen. */
const seen = { hooks: [] as string[], runs: [] as unknown[], lines: [] as object[] };

/** Every hook of a transaction, each with a query of its own. */
const subscriber: EntitySubscriberInterface = {};
for (const hook of [
  'beforeTransactionStart',
  'afterTransactionStart',
  'beforeTransactionCommit',
  'afterTransactionCommit',
  'beforeTransactionRollback',
  'afterTransactionRollback',
] as const)
  subscriber[hook] = async ({ queryRunner }) => {
    seen.hooks.push(hook);
    await queryRunner.query('SELECT 1');
  };

@Injectable()
class Billing {
  constructor(private readonly dataSource: DataSource) {}

  @Transactional()
  async book({ source, eventId, type }: WebhookEvent): Promise<void> {
    await this.dataSource.manager.query(
      `INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)`,
      [source, eventId, type],
    );
  }
}

@Injectable()
class Handlers {
  constructor(
    private readonly billing: Billing,
    private readonly cls: ClsService,
  ) {}

  @OnWebhook('awardee', '*', { name: 'grant', retry: { base: 1 } })
  async grant(event: WebhookEvent, { attempt, enqueue }: HandlerContext) {
    await this.billing.book(event);
    seen.runs.push({ kind: 'handler', attempt, event: event.eventId, cls: this.cls.get('event') });
    await enqueue('mail', { eventId: event.eventId });
    if (attempt === 1) throw new Error('not yet');
  }

  @OnEffect('mail')
  mail({ eventId }: { eventId: string }, { attempt }: EffectContext) {
    seen.runs.push({ kind: 'effect', attempt, event: eventId, cls: this.cls.get('event') });
  }
}

@Controller('orders')
class Orders {
  @Get()
  @Public()
  list() {
    return [];
  }
}

@Controller('billing')
class Invoices {
  @Post('invoices')
  @Public()
  @UseWebhook('billing')
  receive() {}
}

function moduleOf(databaseUrl: string) {
  @Module({
    imports: [
      TypeOrmModule.forRootAsync({
        useFactory: () => ({ ...options(databaseUrl), retryAttempts: 0 }),
        dataSourceFactory: async (given) => {
          const dataSource = addTransactionalDataSource(new DataSource(given!));
          await dataSource.initialize();
          dataSource.subscribers.push(subscriber);
          return dataSource;
        },
      }),
      ScheduleModule.forRoot(),
      ClsModule.forRoot({ global: true, middleware: { mount: true, generateId: true } }),
      LoggerModule.forRoot({
        pinoHttp: { stream: { write: (line: string) => void seen.lines.push(JSON.parse(line) as object) } },
      }),
      ThrottlerModule.forRoot([{ ttl: 60_000, limit: 1_000 }]),
      WebhooksModule.forRoot({
        sources: { awardee: awardeeSource(), billing: awardeeSource() },
        controller: { decorators: [Public()] },
        relay: { pollInterval: '100ms' },
        transaction: (_, run) => runInTransaction(() => run(), { propagation: Propagation.REQUIRES_NEW }),
        around: (run, { eventId }) => {
          const cls = ClsServiceManager.getClsService();
          return cls.run(() => {
            cls.set('event', eventId);
            return run();
          });
        },
      }),
    ],
    controllers: [Orders, Invoices],
    providers: [
      Billing,
      Handlers,
      { provide: APP_GUARD, useClass: TokenGuard },
      { provide: APP_GUARD, useClass: ThrottlerGuard },
      { provide: APP_PIPE, useFactory: validationPipe },
      { provide: APP_INTERCEPTOR, useClass: Envelope },
      { provide: APP_FILTER, useClass: CatchAll },
    ],
  })
  class AppModule {}
  return AppModule;
}

export interface Report {
  readonly hooks: readonly string[];
  readonly runs: readonly unknown[];
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** Of the OpenAPI document. */
  readonly paths: readonly string[];
}

/** With what is usual on each adapter for headers, compression and cookies. */
const CREATE: Readonly<Record<Adapter, (module: Type) => Promise<INestApplication>>> = {
  express: async (module) => {
    const app = await NestFactory.create(module, new ExpressAdapter(), { bufferLogs: true });
    for (const middleware of [helmet(), compression(), cookieParser()]) app.use(middleware);
    return app;
  },
  fastify: async (module) => {
    const app = await NestFactory.create<NestFastifyApplication>(module, new FastifyAdapter(), {
      bufferLogs: true,
    });
    await app.register(fastifyHelmet);
    await app.register(fastifyCompress);
    await app.register(fastifyCookie);
    return app;
  },
};

export async function start(
  adapter: Adapter,
  databaseUrl: string,
): Promise<{ app: INestApplication; report: () => Report }> {
  initializeTransactionalContext();
  const app = await CREATE[adapter](moduleOf(databaseUrl));
  app.useLogger(app.get(Logger));
  app.enableCors({ origin: true });
  app.setGlobalPrefix('api');
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
  const document = SwaggerModule.createDocument(app, new DocumentBuilder().build());
  SwaggerModule.setup('docs', app, document);
  await app.listen(0, '127.0.0.1');
  return { app, report: () => ({ ...seen, lines: seen.lines as never, paths: Object.keys(document.paths) }) };
}
