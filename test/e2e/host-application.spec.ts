import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  Body,
  CallHandler,
  CanActivate,
  Catch,
  Controller,
  ExceptionFilter,
  ExecutionContext,
  HttpCode,
  Injectable,
  Module,
  NestInterceptor,
  Post,
  RequestMethod,
  RequestTimeoutException,
  Scope,
  SetMetadata,
  UnauthorizedException,
  UseGuards,
  UseInterceptors,
  VersioningType,
  type ArgumentsHost,
  type DynamicModule,
  type INestApplication,
  type MiddlewareConsumer,
  type NestModule,
  type Provider,
  type RawBodyRequest,
} from '@nestjs/common';
import {
  APP_FILTER,
  APP_GUARD,
  APP_INTERCEPTOR,
  APP_PIPE,
  HttpAdapterHost,
  Reflector,
  RouterModule,
} from '@nestjs/core';
import { Transport } from '@nestjs/microservices';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import express from 'express';
import { DataSource } from 'typeorm';
import { map, throwError, timeout } from 'rxjs';
import { UseWebhook, WebhooksModule } from '../../src/index.js';
import type { WebhooksModuleExtras } from '../../src/index.js';
import { ADAPTERS, until, type Adapter } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost, type Host, type Main } from '../support/host.js';
import { send } from '../support/http.js';
import { Latch } from '../support/latch.js';
import {
  answered,
  DUPLICATE,
  INVALID,
  OK,
  TOO_LARGE,
  UNAUTHORIZED,
  UNAVAILABLE,
  UNKNOWN_SOURCE,
  UNSUPPORTED_ENCODING,
  WRONG_METHOD,
} from '../support/receiver.js';
import { sesmetric, type SignedRequest } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';
import { validationPipe } from '../support/validation.js';

const Public = () => SetMetadata('public', true);

/** Lets nobody in who has no token, but for routes that are public. */
@Injectable()
class TokenGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return (
      this.reflector.getAllAndOverride<boolean>('public', [context.getHandler(), context.getClass()]) ?? false
    );
  }
}

/** Puts every answer into an envelope. */
@Injectable()
class Envelope implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** Answers every error in the application's own form. */
@Catch()
class CatchAll implements ExceptionFilter {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch(error: Error, host: ArgumentsHost): void {
    const body = { problem: error.message };
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), body, 418);
  }
}

@Controller()
class Own {
  @Post('echo')
  echo(@Body() body: unknown) {
    return { body };
  }

  @Post('fail')
  fail() {
    throw new Error('mine');
  }
}

@Controller({ path: 'billing', version: '2' })
class Billing {
  @Post('invoices')
  @UseWebhook('sesmetric')
  invoices() {}

  @Post('slow')
  @UseWebhook('sesmetric')
  slow() {
    return slow.wait();
  }
}

let slow = new Latch();

/** Gives up on every request that takes longer than a moment. */
@Injectable()
class Impatience implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(
      timeout({
        each: 100,
        with: () => throwError(() => new RequestTimeoutException()),
      }),
    );
  }
}

const GLOBAL_PROVIDERS = {
  guard: { provide: APP_GUARD, useClass: TokenGuard },
  interceptor: { provide: APP_INTERCEPTOR, useClass: Envelope },
  filter: { provide: APP_FILTER, useClass: CatchAll },
  pipe: { provide: APP_PIPE, useFactory: validationPipe },
};

/** Middleware that looks at every request and reads no body. */
@Module({})
class WithMiddleware implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    const look = (_request: unknown, _response: unknown, next: () => void) => next();
    consumer.apply(look).forRoutes({ path: '*path', method: RequestMethod.ALL });
  }
}

interface Variation {
  /** Where the module's route is. @default '/webhooks' */
  readonly at?: string;
  readonly extras?: WebhooksModuleExtras;
  readonly host?: Partial<Host>;
  readonly main?: Main;
  readonly headers?: Record<string, string>;
  readonly only?: Adapter;
}

const nest = (configure: (app: INestApplication) => void): Main => ({ configure });
const onExpress = (configure: (app: NestExpressApplication) => void): Main => ({
  configure: (app) => configure(app as NestExpressApplication),
});
const onFastify = (configure: (app: NestFastifyApplication) => void): Main => ({
  configure: (app) => configure(app as NestFastifyApplication),
});

/** What an application does around the module. None of it may change an answer by one byte. */
const VARIATIONS: Readonly<Record<string, Variation>> = {
  'without rawBody: true': {},
  'with rawBody: true': { main: { create: { rawBody: true } } },
  'with bodyParser: false': { main: { create: { bodyParser: false } } },
  'app.use(express.json()) after create': {
    only: 'express',
    main: onExpress((app) => app.use(express.json())),
  },
  'app.use(express.raw({ type: "*/*" })) after create': {
    only: 'express',
    main: onExpress((app) => app.use(express.raw({ type: '*/*' }))),
  },
  'a JSON parser that takes 10 bytes': {
    only: 'express',
    main: onExpress((app) => app.useBodyParser('json', { limit: 10 })),
  },
  'a Fastify parser of its own for every content type': {
    only: 'fastify',
    main: onFastify((app) => {
      app
        .getHttpAdapter()
        .getInstance()
        .addContentTypeParser('*', { parseAs: 'string' }, (_request, _body, done) => {
          done(new Error('nothing is good enough'));
        });
    }),
  },
  'a global prefix': { at: '/api/webhooks', main: nest((app) => app.setGlobalPrefix('api')) },
  'a global prefix that excludes the route': {
    main: nest((app) =>
      app.setGlobalPrefix('api', { exclude: [{ path: 'webhooks/*source', method: RequestMethod.ALL }] }),
    ),
  },
  'URI versioning with a default version: the route is version neutral': {
    main: nest((app) => app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' })),
  },
  'URI versioning behind a global prefix': {
    at: '/api/webhooks',
    main: nest((app) =>
      app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }),
    ),
  },
  'header versioning': {
    main: nest((app) =>
      app.enableVersioning({ type: VersioningType.HEADER, header: 'x-version', defaultVersion: '1' }),
    ),
  },
  'header versioning, and a version nobody has': {
    headers: { 'x-version': '99' },
    main: nest((app) =>
      app.enableVersioning({ type: VersioningType.HEADER, header: 'x-version', defaultVersion: '1' }),
    ),
  },
  'media type versioning, and a version nobody has': {
    headers: { accept: 'application/json;v=99' },
    main: nest((app) =>
      app.enableVersioning({ type: VersioningType.MEDIA_TYPE, key: 'v=', defaultVersion: '1' }),
    ),
  },
  'versioning by a function': {
    main: nest((app) => app.enableVersioning({ type: VersioningType.CUSTOM, extractor: () => ['99'] })),
  },
  'middleware of Nest for every route': { host: { imports: [WithMiddleware] } },
  'a guard, an interceptor, a filter and a pipe for each request': {
    extras: { controller: { decorators: [Public()] } },
    host: {
      providers: Object.values(GLOBAL_PROVIDERS).map((one) => ({ ...one, scope: Scope.REQUEST }) as Provider),
    },
  },
  'a guard, an interceptor, a filter and a pipe that main.ts sets': {
    extras: { controller: { decorators: [Public()] } },
    main: nest((app) =>
      app
        .useGlobalGuards(new TokenGuard(app.get(Reflector)))
        .useGlobalInterceptors(new Envelope())
        .useGlobalFilters(new CatchAll(app.get(HttpAdapterHost)))
        .useGlobalPipes(validationPipe()),
    ),
  },
  'a hybrid application': {
    extras: { controller: { decorators: [Public()] } },
    host: { providers: Object.values(GLOBAL_PROVIDERS) },
    main: nest((app) => {
      app.connectMicroservice(
        { transport: Transport.TCP, options: { host: '127.0.0.1', port: 0 } },
        { inheritAppConfig: true },
      );
      void app.startAllMicroservices();
    }),
  },
  RouterModule: {
    at: '/inbound/webhooks',
    host: { imports: [RouterModule.register([{ path: 'inbound', module: WebhooksModule }])] },
  },
  'RouterModule behind a global prefix': {
    at: '/api/inbound/webhooks',
    host: { imports: [RouterModule.register([{ path: 'inbound', module: WebhooksModule }])] },
    main: nest((app) => app.setGlobalPrefix('api')),
  },
  'a path of its own': { at: '/hooks/in', extras: { controller: { path: 'hooks/in' } } },
  'a global guard, and decorators: [Public()]': {
    extras: { controller: { decorators: [Public()] } },
    host: { providers: [GLOBAL_PROVIDERS.guard] },
  },
  'a global interceptor that wraps answers': { host: { providers: [GLOBAL_PROVIDERS.interceptor] } },
  'decorators: [UseInterceptors(…)] that wrap answers': {
    extras: { controller: { decorators: [UseInterceptors(Envelope)] } },
  },
  'a global exception filter that catches everything': { host: { providers: [GLOBAL_PROVIDERS.filter] } },
  'a global ValidationPipe': { host: { providers: [GLOBAL_PROVIDERS.pipe] } },
  'all of these at once': {
    at: '/api/hooks',
    extras: { controller: { path: 'hooks', decorators: [Public()] } },
    host: { providers: Object.values(GLOBAL_PROVIDERS) },
    main: {
      create: { rawBody: true },
      configure: (app) =>
        app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }),
    },
  },
};

describe.each(ADAPTERS)('inside an application on %s', (adapter) => {
  let database: TestDatabase;
  let deliveries = 0;
  const nextId = () => `host-${++deliveries}`;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  /** Starts the application of a variation, hands its origin on, and stops it. */
  const during = async (
    { extras, host, main }: Pick<Variation, 'extras' | 'host' | 'main'>,
    work: (origin: string) => Promise<void>,
  ) => {
    const webhooks = WebhooksModule.forRoot({
      sources: { sesmetric: sesmetricSource({ maxBytes: 5000 }) },
      ...extras,
    });
    const { app, origin } = await startHost(
      adapter,
      { databaseUrl: database.url, webhooks, controllers: [Own, Billing], ...host },
      main,
    );
    try {
      await work(origin);
    } finally {
      await app.close();
    }
  };

  const names = Object.keys(VARIATIONS).filter((name) => (VARIATIONS[name]!.only ?? adapter) === adapter);

  it.each(names)('%s: every answer is the same, byte for byte', async (name) => {
    const { at = '/webhooks', headers = {}, ...variation } = VARIATIONS[name]!;
    await during(variation, async (origin) => {
      const ask = async (request: SignedRequest, more: { method?: string; path?: string } = {}) => {
        const all = { ...request.headers, ...headers };
        const reply = await send(origin, {
          path: `${at}/sesmetric`,
          body: request.body,
          ...more,
          headers: all,
        });
        return `${answered(reply)} ${String(reply.headers['content-type'])}`;
      };
      const as = ({ body, headers: own }: SignedRequest, type: string) => ({
        body,
        headers: { ...own, 'content-type': type },
      });
      const genuine = sesmetric({ id: nextId(), type: 't' });
      const json = 'application/json; charset=utf-8';
      expect({
        first: await ask(genuine),
        again: await ask(genuine),
        xml: await ask(as(sesmetric({ id: nextId(), type: 't' }), 'application/xml')),
        form: await ask(as(sesmetric({ id: nextId(), type: 't' }), 'application/x-www-form-urlencoded')),
        junk: await ask(sesmetric('{junk')),
        empty: await ask(sesmetric('')),
        forged: await ask({ ...genuine, body: Buffer.from('{}') }),
        unknown: await ask({ headers: {}, body: Buffer.alloc(0) }, { path: `${at}/nope` }),
        put: await ask(genuine, { method: 'PUT' }),
        get: await ask({ headers: {}, body: Buffer.alloc(0) }, { method: 'GET' }),
        large: await ask(sesmetric('x'.repeat(5001))),
        gzip: await ask({ ...genuine, headers: { ...genuine.headers, 'content-encoding': 'gzip' } }),
      }).toEqual({
        first: `${OK} ${json}`,
        again: `${DUPLICATE} ${json}`,
        xml: `${OK} ${json}`,
        form: `${OK} ${json}`,
        junk: `${INVALID} ${json}`,
        empty: `${INVALID} ${json}`,
        forged: `${UNAUTHORIZED} ${json}`,
        unknown: `${UNKNOWN_SOURCE} ${json}`,
        put: `${WRONG_METHOD} ${json}`,
        get: `${WRONG_METHOD} ${json}`,
        large: `${TOO_LARGE} ${json}`,
        gzip: `${UNSUPPORTED_ENCODING} ${json}`,
      });
    });
  });

  it('keeps the application’s own routes as they are: bodies parsed, answers wrapped, errors in its form', async () => {
    const providers = [GLOBAL_PROVIDERS.interceptor, GLOBAL_PROVIDERS.filter];
    await during({ host: { providers } }, async (origin) => {
      const headers = { 'content-type': 'application/json' };
      const echo = await send(origin, { path: '/echo', headers, body: '{"a":1}' });
      expect(answered(echo)).toBe('201 {"data":{"body":{"a":1}}}');
      const fail = await send(origin, { path: '/fail', headers, body: '{}' });
      expect(answered(fail)).toBe('418 {"problem":"mine"}');
    });
  });

  it('lets the application’s guard keep the route closed, and claims nothing then', async () => {
    await during({ host: { providers: [GLOBAL_PROVIDERS.guard] } }, async (origin) => {
      const id = nextId();
      const reply = await send(origin, { path: '/webhooks/sesmetric', ...sesmetric({ id, type: 't' }) });
      expect(reply.status).toBe(403);
      expect(await database.query(`SELECT 1 FROM webhook_claim WHERE event_id = $1`, [id])).toEqual([]);
    });
  });

  it('gives a route with @UseWebhook its bytes behind prefix, version and global providers', async () => {
    const configure = (app: INestApplication) =>
      void app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI });
    const { interceptor, filter, pipe } = GLOBAL_PROVIDERS;
    await during(
      { host: { providers: [interceptor, filter, pipe] }, main: { configure } },
      async (origin) => {
        const { headers, body } = sesmetric({ id: nextId(), type: 't' });
        const path = '/api/v2/billing/invoices';
        const as = { ...headers, 'content-type': 'application/xml' };
        expect(answered(await send(origin, { path, headers: as, body }))).toBe(OK);
        expect(answered(await send(origin, { path, headers: as, body }))).toBe(DUPLICATE);
        expect(answered(await send(origin, { path, headers: as, body: '<a/>' }))).toBe(UNAUTHORIZED);
      },
    );
  });
});

describe.each(ADAPTERS)('an application that gives up before the route has ended, on %s', (adapter) => {
  it('answers in its own way, and the route’s work commits all the same: the redelivery is a duplicate', async () => {
    const database = await createDatabase();
    slow = new Latch();
    const webhooks = WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } });
    const providers = [{ provide: APP_INTERCEPTOR, useClass: Impatience }];
    const host = { databaseUrl: database.url, webhooks, providers, controllers: [Billing] };
    const { app, origin } = await startHost(adapter, host);
    const request = { path: '/billing/slow', ...sesmetric({ id: 'late', type: 't' }) };
    expect((await send(origin, request)).status).toBe(408);
    expect(await database.query(`SELECT 1 FROM webhook_claim`)).toEqual([]);
    slow.open();
    await until(async () => (await database.query(`SELECT 1 FROM webhook_claim`)).length === 1);
    // On a busy machine the application may lose its patience with the redelivery too.
    await until(async () => answered(await send(origin, request)) === DUPLICATE);
    await app.close();
    await database.drop();
  });
});

/**
 * `@nestjs/outbox` 0.1 and `@nestjs/webhooks` 0.0.1 by their documentation and sources of November 2026, since the registry has
 * neither: names of their classes, tables of their stores, and a receiver as their tutorial has it, with `rawBody: true`.
 */
const theirs = (() => {
  @Injectable()
  class Outbox {
    constructor(private readonly dataSource: DataSource) {}

    add(topic: string) {
      const row = `INSERT INTO nest_outbox.messages (id, topic, headers, created_at, available_at) VALUES ($1, $1, '{}', 0, 0)`;
      return this.dataSource.query(row, [topic]);
    }
  }
  @Injectable()
  class OutboxInbox {}
  @Injectable()
  class OutboxRelay {}
  @Injectable()
  class Inbox {}
  @Module({ providers: [Outbox, OutboxInbox, OutboxRelay, Inbox], exports: [Outbox, OutboxInbox] })
  class OutboxModule {}

  @Injectable()
  class SignatureGuard implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      const { rawBody, headers } = context.switchToHttp().getRequest<RawBodyRequest<IncomingMessage>>();
      const digest = createHmac('sha256', 'theirs')
        .update(rawBody ?? '')
        .digest('hex');
      if (headers['webhook-signature'] !== digest) throw new UnauthorizedException();
      return true;
    }
  }
  @Controller('webhooks')
  class WebhooksController {
    constructor(private readonly outbox: Outbox) {}

    @Post('payments')
    @HttpCode(200)
    @UseGuards(SignatureGuard)
    async payments(@Body() body: { id: string }) {
      await this.outbox.add(body.id);
      return { received: body.id };
    }
  }
  @Module({ imports: [OutboxModule], controllers: [WebhooksController] })
  class TheirWebhooksModule {}
  // The class's name is that of ours, too: Nest tells modules apart by their class.
  Object.defineProperty(TheirWebhooksModule, 'name', { value: 'WebhooksModule' });

  const tables = `
    CREATE SCHEMA nest_outbox;
    CREATE TABLE nest_outbox.messages (seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE,
      topic text NOT NULL, payload jsonb, headers jsonb NOT NULL, created_at bigint NOT NULL, available_at bigint NOT NULL);
    CREATE TABLE nest_outbox.inbox (consumer text NOT NULL, message_id text NOT NULL, processed_at bigint NOT NULL,
      PRIMARY KEY (consumer, message_id));
    CREATE SCHEMA nest_webhooks;
    CREATE TABLE nest_webhooks.deliveries (id text PRIMARY KEY, status text NOT NULL)`;
  return { module: TheirWebhooksModule, tables };
})();

describe.each(ADAPTERS)('beside @nestjs/webhooks and @nestjs/outbox, on %s', (adapter) => {
  it.each(['before', 'behind'])('which is imported %s ours: each receives at its own path', async (place) => {
    const database = await createDatabase();
    await database.query(theirs.tables);
    const ours = WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } });
    const own: DynamicModule = { module: theirs.module };
    const { app, origin } = await startHost(
      adapter,
      {
        databaseUrl: database.url,
        webhooks: place === 'before' ? own : ours,
        imports: [place === 'before' ? ours : own],
      },
      { create: { rawBody: true } },
    );
    const body = '{"id":  "payment-1"}';
    const headers = {
      'content-type': 'application/json',
      'webhook-signature': createHmac('sha256', 'theirs').update(body).digest('hex'),
    };
    const path = '/webhooks/payments';
    expect(answered(await send(origin, { path, headers, body }))).toBe('200 {"received":"payment-1"}');
    expect((await send(origin, { path, headers, body: '{}' })).status).toBe(401);
    const mine = { path: '/webhooks/sesmetric', ...sesmetric({ id: 'beside', type: 't' }) };
    expect(answered(await send(origin, mine))).toBe(OK);
    expect(answered(await send(origin, mine))).toBe(DUPLICATE);
    expect(answered(await send(origin, { ...mine, path: '/webhooks/nope' }))).toBe(UNKNOWN_SOURCE);
    expect((await send(origin, { ...mine, path, method: 'PUT' })).status).toBe(404);
    expect(await database.query('SELECT id FROM nest_outbox.messages')).toEqual([{ id: 'payment-1' }]);
    expect(await database.query('SELECT event_id FROM webhook_claim')).toEqual([{ event_id: 'beside' }]);
    await app.close();
    await database.drop();
  });
});

describe('a parser in front of the module, on Express', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  const start = (prepare: (server: ReturnType<typeof express>) => void, create?: Main['create']) => {
    const server = express();
    prepare(server);
    const webhooks = WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } });
    const host = { databaseUrl: database.url, webhooks, controllers: [Own] };
    return startHost('express', host, { httpAdapter: new ExpressAdapter(server), create });
  };

  it.each([
    ['express.json()', express.json(), 'jsonParser'],
    ['express.urlencoded()', express.urlencoded(), 'urlencodedParser'],
    ['express.text()', express.text(), 'textParser'],
    ['express.raw()', express.raw(), 'rawParser'],
  ])('case 5: stops the boot with the remedy when %s stands before it', async (_, parser, name) => {
    await expect(start((server) => void server.use(parser))).rejects.toThrow(
      new RegExp(`body parser '${name}'.*app\\.use\\(\\) after NestFactory\\.create\\(\\)`),
    );
  });

  it('starts when the parser is on paths of its own', async () => {
    const { app, origin } = await start((server) => void server.use('/own', express.json()));
    const request = sesmetric({ id: 'own-path', type: 't' });
    expect(answered(await send(origin, { path: '/webhooks/sesmetric', ...request }))).toBe(OK);
    await app.close();
  });

  it('answers 503, and never verifies a body written anew, when something it cannot see has read the bytes', async () => {
    const { app, origin } = await start((server) => {
      server.use((request, _response, next) => {
        const parts: Buffer[] = [];
        request.on('data', (part: Buffer) => parts.push(part));
        request.on('end', () => {
          request.body = JSON.parse(Buffer.concat(parts).toString()) as unknown;
          next();
        });
      });
    });
    const request = sesmetric({ id: 'eaten', type: 't' });
    expect(answered(await send(origin, { path: '/webhooks/sesmetric', ...request }))).toBe(UNAVAILABLE);
    expect(await database.query(`SELECT 1 FROM webhook_claim WHERE event_id = 'eaten'`)).toEqual([]);
    await app.close();
  });
});
