import { createRequire } from 'node:module';
import { PassThrough, finished, pipeline } from 'node:stream';
import {
  ForbiddenException,
  Header,
  Injectable,
  Module,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type MiddlewareConsumer,
  type NestInterceptor,
  type NestModule,
  type Provider,
  type Type,
} from '@nestjs/common';
import {
  APP_FILTER,
  APP_GUARD,
  APP_INTERCEPTOR,
  APP_PIPE,
  ModulesContainer,
  type AbstractHttpAdapter,
} from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import express, { type NextFunction, type Request, type Response } from 'express';
import { assert, asyncProperty, constantFrom, uniqueArray } from 'fast-check';
import type { FastifyInstance } from 'fastify';
import { WebhooksModule } from '../../src/index.js';
import { DirectRoute } from '../../src/http/direct/direct.route.js';
import { HostPipeline } from '../../src/http/direct/host-pipeline.js';
import { ADAPTERS, type Adapter } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost, type Main } from '../support/host.js';
import { send, type RawRequest } from '../support/http.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';

/** What was on the way of a request, in order. */
const met: string[] = [];

/** Something that an application may put on the way: it notes that it was met, and lets through or refuses. */
interface Piece {
  /** In the place of Nest's own. */
  readonly adapter?: new (server: express.Express) => ExpressAdapter;
  readonly before?: (app: ReturnType<typeof express>) => void;
  readonly onFastify?: (fastify: FastifyInstance) => void;
  readonly configure?: (app: INestApplication) => void;
  /** Once the application has started, and served its first requests. */
  readonly late?: (app: INestApplication) => void;
  readonly providers?: readonly Provider[];
  readonly imports?: readonly Type[];
}

const required = createRequire(import.meta.url);
const multer = required('multer') as () => { any(): express.RequestHandler };
type Busboy = (options: { headers: Request['headers'] }) => NodeJS.WritableStream;
const rawBody = createRequire(required.resolve('body-parser'))('raw-body') as (
  request: Request,
  options: object,
  done: (error?: unknown) => void,
) => void;
const busboy = createRequire(required.resolve('multer'))('busboy') as Busboy;

const middleware = (name: string, status?: number) =>
  Object.defineProperty(
    (_: Request, response: Response, next: NextFunction) => {
      met.push(name);
      if (status === undefined) next();
      else response.status(status).send(name);
    },
    'name',
    { value: name },
  );

const onExpress = (configure: (app: NestExpressApplication, own: express.Express) => void): Piece => ({
  configure: (app) =>
    configure(app as NestExpressApplication, app.getHttpAdapter().getInstance() as express.Express),
});
const onFastify = (configure: (fastify: FastifyInstance) => void): Piece => ({
  configure: (app) => configure((app as NestFastifyApplication).getHttpAdapter().getInstance()),
});

const late = (change: (own: express.Express) => void): Piece => ({
  late: (app) => change(app.getHttpAdapter().getInstance() as express.Express),
});
/** Decorates the module's controller, or its method, as code that goes through all controllers does. */
const decorated = (decorator: ClassDecorator & MethodDecorator, onMethod = false): Piece => ({
  configure: (app) => {
    for (const { controllers } of app.get(ModulesContainer).values())
      for (const [type] of controllers) {
        if (typeof type !== 'function' || type.name !== 'WebhooksController') continue;
        const method = Object.getOwnPropertyDescriptor(type.prototype, 'receive')!;
        if (onMethod) decorator(type.prototype as object, 'receive', method);
        else (decorator as ClassDecorator)(type as Type);
      }
  },
});
/** Handlers of the module's own route. */
const ownHandlers = (own: express.Express) =>
  (
    own as unknown as { router: { stack: { route?: { path: string; stack: { handle: unknown }[] } }[] } }
  ).router.stack
    .filter(({ route }) => route?.path === '/webhooks/:source')
    .flatMap(({ route }) => route!.stack);

const adapterOf = (app: INestApplication) => app.getHttpAdapter() as AbstractHttpAdapter as ExpressAdapter;

/** Adds a layer under the name of one of Nest's. */
class Parsing extends ExpressAdapter {
  override registerParserMiddleware(...given: Parameters<ExpressAdapter['registerParserMiddleware']>): void {
    super.registerParserMiddleware(...given);
    this.use(middleware('jsonParser', 403));
  }
}

const NAMES = [
  'rawParser',
  'jsonParser',
  'textParser',
  'urlencodedParser',
  'multerMiddleware',
  'webhookRawBodyReader',
];

const guard = (allows: boolean) => ({
  canActivate: () => {
    met.push('guard');
    return allows;
  },
});
@Injectable()
class Noting implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    met.push('interceptor');
    return next.handle();
  }
}
@Injectable()
class Refusing implements NestInterceptor {
  intercept(): never {
    throw new ForbiddenException('interceptor');
  }
}
const nestMiddleware = (path: string, status?: number): Type => {
  @Module({})
  class WithMiddleware implements NestModule {
    configure(consumer: MiddlewareConsumer): void {
      consumer
        .apply((_: unknown, response: { statusCode: number; end(text: string): void }, next: () => void) => {
          met.push('nest middleware');
          if (status === undefined) return next();
          response.statusCode = status;
          response.end('nest middleware');
        })
        .forRoutes(path);
    }
  }
  return WithMiddleware;
};

const NEST: Readonly<Record<string, Piece>> = {
  'APP_GUARD that allows': { providers: [{ provide: APP_GUARD, useValue: guard(true) }] },
  'APP_GUARD that refuses': { providers: [{ provide: APP_GUARD, useValue: guard(false) }] },
  'a guard of main.ts that refuses': { configure: (app) => void app.useGlobalGuards(guard(false)) },
  APP_INTERCEPTOR: { providers: [{ provide: APP_INTERCEPTOR, useClass: Noting }] },
  'APP_INTERCEPTOR that refuses': { providers: [{ provide: APP_INTERCEPTOR, useClass: Refusing }] },
  'APP_PIPE that refuses': {
    providers: [
      {
        provide: APP_PIPE,
        useValue: {
          transform: () => {
            throw new ForbiddenException('pipe');
          },
        },
      },
    ],
  },
  APP_FILTER: {
    providers: [
      {
        provide: APP_FILTER,
        useValue: {
          catch: (
            _: unknown,
            host: { switchToHttp(): { getResponse(): { status(s: number): { send(t: string): void } } } },
          ) => host.switchToHttp().getResponse().status(418).send('filter'),
        },
      },
    ],
  },
  'middleware for all': { imports: [nestMiddleware('{*path}')] },
  'middleware for all that refuses': { imports: [nestMiddleware('{*path}', 403)] },
  'middleware for the route that refuses': { imports: [nestMiddleware('webhooks/:source', 403)] },
  'middleware for another path': { imports: [nestMiddleware('other')] },
  CORS: { configure: (app) => app.enableCors() },
  'a guard put on the controller': decorated(UseGuards(guard(false))),
  'an interceptor put on the controller': decorated(UseInterceptors(new Noting())),
  'a guard put on its method': decorated(UseGuards(guard(false)), true),
  'a header put on its method': decorated(Header('x-put', '1') as never, true),
};

const EXPRESS: Readonly<Record<string, Piece>> = {
  'a middleware named rawParser': onExpress((app) => app.use(middleware('rawParser'))),
  ...Object.fromEntries(
    NAMES.map((name) => [
      `a middleware named ${name} that refuses`,
      onExpress((app) => app.use(middleware(name, 403))),
    ]),
  ),
  'a middleware for a path of its own': onExpress((app) => app.use('/other', middleware('other', 403))),
  'a middleware for the path, in capitals': onExpress((app) =>
    app.use('/WEBHOOKS', middleware('capitals', 403)),
  ),
  'a route for all': onExpress((_, own) => void own.all('{*path}', middleware('all', 403))),
  'a route for GET': onExpress((_, own) => void own.get('/webhooks/:source', middleware('get', 403))),
  'a route for a list of paths': onExpress(
    (_, own) => void own.all(['/x', '/webhooks/:any'], middleware('list', 403)),
  ),
  'a route for an expression': onExpress((_, own) => void own.all(/hooks/, middleware('expression', 403))),
  'a route for another source': onExpress(
    (_, own) => void own.all('/webhooks/other', middleware('other', 403)),
  ),
  'the route of the module itself': onExpress(
    (_, own) => void own.route('/webhooks/:source').all(middleware('same', 403)),
  ),
  'a router': onExpress((app) => {
    const router = express.Router();
    router.post('/sesmetric', middleware('router', 403));
    app.use('/webhooks', router);
  }),
  'an application below': onExpress((app) => {
    const below = express();
    below.use(middleware('below', 403));
    app.use('/webhooks', below);
  }),
  'a list of middlewares': onExpress((app) => void app.use([middleware('a'), [middleware('b', 403)]])),
  'a handler of errors': onExpress(
    (app) => void app.use((error: unknown, _: Request, __: Response, next: NextFunction) => next(error)),
  ),
  'app.param': onExpress(
    (_, own) =>
      void own.param(
        'source',
        (_request, response, _next, value) => void response.status(403).send(String(value)),
      ),
  ),
  'app.param that lets through': onExpress(
    (_, own) =>
      void own.param('source', (_request, _response, next) => {
        met.push('param');
        next();
      }),
  ),
  'app.param of another name': onExpress(
    (_, own) => void own.param('other', middleware('other', 403) as never),
  ),
  'an entry of its own': onExpress((_, own) => {
    const { handle } = own as unknown as { handle: (...given: unknown[]) => unknown };
    Object.assign(own, {
      handle: (...given: unknown[]) => {
        met.push('entry');
        return handle.apply(own, given);
      },
    });
  }),
  'a response that is written otherwise': onExpress((_, own) => {
    const end: unknown = Reflect.get(own.response, 'end');
    Object.assign(own.response, {
      end(this: Response, ...given: unknown[]) {
        this.statusCode = 299;
        return Reflect.apply(end as () => unknown, this, given);
      },
    });
  }),
  'a response that is written otherwise, later': late((own) => {
    const end: unknown = Reflect.get(own.response, 'end');
    Object.assign(own.response, {
      end(this: Response, ...given: unknown[]) {
        this.statusCode = 299;
        return Reflect.apply(end as () => unknown, this, given);
      },
    });
  }),
  'a status of its own': onExpress((_, own) => {
    Object.defineProperty(own.response, 'statusCode', { get: () => 299, set() {} });
  }),
  'an entry of its own, later': late((own) => {
    const { handle } = own as unknown as { handle: (...given: unknown[]) => unknown };
    Object.assign(own, {
      handle: (...given: unknown[]) => {
        met.push('entry');
        return handle.apply(own, given);
      },
    });
  }),
  'other handlers on the module’s own route': {
    late: (app) => {
      const refuse = middleware('own', 403);
      for (const one of ownHandlers(app.getHttpAdapter().getInstance() as express.Express))
        one.handle = refuse;
    },
  },
  'a parser that a subclass of the adapter adds': { adapter: Parsing },
  'a layer put in by hand': onExpress((_, own) => {
    own.use(middleware('by hand', 403));
    const { stack } = (own as unknown as { router: { stack: unknown[] } }).router;
    stack.splice(1, 0, stack.pop());
  }),
  'no ETag, no header of Express': onExpress((_, own) => void own.disable('etag').disable('x-powered-by')),
  'an ETag of its own': onExpress((_, own) => void own.set('etag', () => '"x"')),
  'express.json': onExpress((app) => void app.use(express.json())),
  multer: onExpress((app) => void app.use(multer().any())),
  'a hook of the adapter': onExpress((app) =>
    adapterOf(app).setOnRequestHook(
      (_request: unknown, response: unknown) => void (response as Response).status(403).send('hook'),
    ),
  ),
  'before the application, in front': { before: (server) => void server.use(middleware('in front', 403)) },
  'before the application, case and slash': {
    before: (server) => void server.enable('case sensitive routing').enable('strict routing'),
  },
};

const hook =
  (name: string, status?: number) =>
  async (_: unknown, reply: { code(status: number): { send(text: string): unknown } }) => {
    met.push(name);
    if (status !== undefined) await reply.code(status).send(name);
  };
const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const;
const FASTIFY: Readonly<Record<string, Piece>> = {
  ...Object.fromEntries(
    HOOKS.map((name) => [
      `${name} that refuses`,
      onFastify((fastify) => fastify.addHook(name as 'onRequest', hook(name, 403))),
    ]),
  ),
  preHandler: onFastify((fastify) => fastify.addHook('preHandler', hook('preHandler'))),
  'preHandler of an instance made before': {
    onFastify: (fastify: FastifyInstance) => void fastify.addHook('preHandler', hook('preHandler', 403)),
  },
  onSend: onFastify((fastify) =>
    fastify.addHook('onSend', async (_request, reply) => {
      reply.header('x-sent', '1');
    }),
  ),
  onResponse: onFastify((fastify) => fastify.addHook('onResponse', async () => void met.push('onResponse'))),
  'a hook of each route': onFastify((fastify) =>
    fastify.addHook('onRoute', (route) => {
      route.preHandler = [hook('each', 403)] as never;
    }),
  ),
  'a handler around each route': onFastify((fastify) =>
    fastify.addHook('onRoute', (route) => {
      route.handler = hook('around', 403);
    }),
  ),
  'a schema of each route': onFastify((fastify) =>
    fastify.addHook('onRoute', (route) => {
      route.schema = {
        headers: { type: 'object', required: ['x-needed'], properties: { 'x-needed': { type: 'string' } } },
      };
    }),
  ),
  'a plugin with a hook of its own': onFastify(
    (fastify) =>
      void fastify.register(async (own) => {
        own.addHook('preHandler', hook('plugin', 403));
        own.post('/plugin', async () => 'plugin');
      }),
  ),
  'a route that is more exact': onFastify(
    (fastify) =>
      void fastify.post('/webhooks/sesmetric', async (_, reply) => {
        met.push('exact');
        await reply.code(403).send('exact');
      }),
  ),
  'a parser of everything': onFastify((fastify) =>
    fastify.addContentTypeParser('*', (_request, _payload, done) => done(new Error('unreadable'))),
  ),
  'a serializer of the reply': onFastify((fastify) =>
    fastify.addHook('onRequest', async (_request, reply) => {
      reply.serializer((payload: unknown) => `X${String(payload)}`);
    }),
  ),
  'a reply that is sent otherwise': onFastify((fastify) =>
    fastify.addHook('onRequest', async (_request, reply) => {
      const original = reply.send.bind(reply);
      reply.send = (payload) => {
        reply.header('x-wrapped', '1');
        return original(payload);
      };
    }),
  ),
  'a trailer': onFastify((fastify) =>
    fastify.addHook('onRequest', async (_request, reply) => {
      reply.trailer('x-trailer', async () => 'x');
    }),
  ),
  'a decorated reply': onFastify((fastify) => void fastify.decorateReply('other', 'x')),
};

const PIECES: Readonly<Record<Adapter, Readonly<Record<string, Piece>>>> = {
  express: { ...NEST, ...EXPRESS },
  fastify: { ...NEST, ...FASTIFY },
};

let nth = 0;
const event = () => sesmetric({ id: `pipeline-${(nth += 1)}`, type: 't' });
const as = (type: string) => {
  const { headers, body } = event();
  return { body, headers: { ...headers, 'content-type': type } };
};
const REQUESTS: Readonly<Record<string, () => RawRequest>> = {
  right: () => ({ path: '/webhooks/sesmetric', ...event() }),
  multipart: () => ({ path: '/webhooks/sesmetric', ...as('multipart/form-data; boundary=x') }),
  'in chunks': () => ({ path: '/webhooks/sesmetric', ...as('multipart/form-data; boundary=x'), chunked: 5 }),
  forged: () => ({ path: '/webhooks/sesmetric', ...event(), body: '{}' }),
  GET: () => ({ path: '/webhooks/sesmetric', method: 'GET' }),
  absolute: () => ({ path: 'http://h/webhooks/sesmetric', ...event() }),
  capitals: () => ({ path: '/WEBHOOKS/sesmetric', ...event() }),
};

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database?.drop());

/** Starts an application with these pieces, in this order. */
async function start(adapter: Adapter, names: readonly string[]) {
  const pieces = names.map((name) => PIECES[adapter][name]!);
  const OnExpress = pieces.find((piece) => piece.adapter)?.adapter ?? ExpressAdapter;
  const httpAdapter = adapter === 'express' ? new OnExpress(made(pieces)) : new FastifyAdapter();
  if (httpAdapter instanceof FastifyAdapter)
    for (const { onFastify: on } of pieces) on?.(httpAdapter.getInstance());
  const main: Main = {
    httpAdapter,
    configure: (app) => {
      for (const { configure } of pieces) configure?.(app);
    },
  };
  return startHost(
    adapter,
    {
      databaseUrl: database.url,
      webhooks: WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } }),
      providers: pieces.flatMap(({ providers = [] }) => providers),
      imports: pieces.flatMap(({ imports = [] }) => imports),
    },
    main,
  );
}

function made(pieces: readonly Piece[]): express.Express {
  const server = express();
  for (const { before } of pieces) before?.(server);
  return server;
}

/** What a sender and the application see of each request. */
async function seen(origin: string) {
  const all: Record<string, unknown> = {};
  for (const [name, request] of Object.entries(REQUESTS)) {
    met.length = 0;
    const { status, text, headers } = await send(origin, request());
    all[name] = { status, text, headers: { ...headers, date: '' }, met: [...met] };
  }
  return all;
}

/** The answers of one application by both ways. */
async function bothWays(adapter: Adapter, names: readonly string[]) {
  const { app, origin } = await start(adapter, names);
  try {
    let direct = 0;
    const route = app.get(DirectRoute);
    const serve = route.serve.bind(route);
    route.serve = (...given) => {
      direct += 1;
      return serve(...given);
    };
    const lateOnes = names.flatMap((name) => PIECES[adapter][name]!.late ?? []);
    if (lateOnes.length > 0) await seen(origin);
    for (const change of lateOnes) change(app);
    direct = 0;
    const short = await seen(origin);
    const pipeline = app.get(HostPipeline);
    pipeline.isEmptyOnExpress = () => false;
    pipeline.isEmptyOnFastify = () => false;
    return { short, direct, long: await seen(origin) };
  } finally {
    await app.close();
  }
}

describe.each(ADAPTERS)('direct and long way answer alike on %s', (adapter) => {
  it('with nothing on the way', async () => {
    const { short, long, direct } = await bothWays(adapter, []);
    expect(short).toEqual(long);
    // All but the one in capitals, which is Nest's to answer.
    expect(direct).toBe(Object.keys(REQUESTS).length - 1);
  });

  it.each(Object.keys(PIECES[adapter]))('with %s', async (name) => {
    const { short, long } = await bothWays(adapter, [name]);
    expect(short).toEqual(long);
  });

  it('with any of them together', async () => {
    const some = uniqueArray(constantFrom(...Object.keys(PIECES[adapter])), {
      minLength: 2,
      maxLength: 5,
    });
    await assert(
      asyncProperty(some, async (names) => {
        const { short, long } = await bothWays(adapter, names);
        expect(short).toEqual(long);
      }),
      { numRuns: 6, endOnFailure: true },
    );
  }, 120_000);
});

const collecting = (request: Request, _: Response, next: NextFunction) => {
  request.on('data', () => undefined);
  request.on('end', () => next());
};
const parsingForms = (request: Request, _: Response, next: NextFunction) => {
  if (!/multipart/.test(request.headers['content-type'] ?? '')) return next();
  const parser = busboy({ headers: request.headers });
  parser.on('close', () => next());
  parser.on('error', next);
  request.pipe(parser);
};
const iterating = async (request: Request, _: Response, next: NextFunction) => {
  for await (const chunk of request) void chunk;
  next();
};
it.each<[string, (app: NestExpressApplication) => unknown]>([
  ['multer', (app) => app.use(multer().any())],
  ['code that reads to the end', (app) => app.use(collecting)],
  [
    'raw-body',
    (app) => app.use((request: Request, _: Response, next: NextFunction) => rawBody(request, {}, next)),
  ],
  ['busboy', (app) => app.use(parsingForms)],
  ['code that reads with for await', (app) => app.use(iterating)],
  [
    'code that pipes',
    (app) =>
      app.use((request: Request, _: Response, next: NextFunction) =>
        pipeline(request, new PassThrough().resume(), (error) => next(error ?? undefined)),
      ),
  ],
  [
    'code that waits for the end',
    (app) =>
      app.use((request: Request, _: Response, next: NextFunction) => {
        finished(request, (error) => next(error ?? undefined));
        request.resume();
      }),
  ],
])('on Express a body that was read is shown as none to %s', async (_, configure) => {
  const { app, origin } = await startHost(
    'express',
    {
      databaseUrl: database.url,
      webhooks: WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } }),
    },
    { configure: (given) => void configure(given as NestExpressApplication) },
  );
  for (const name of ['right', 'multipart', 'in chunks'])
    expect(await send(origin, REQUESTS[name]!())).toMatchObject({ status: 200, text: '{"status":"ok"}' });
  await app.close();
});

describe.each(ADAPTERS)('on %s', (adapter) => {
  const started = (configure: Main['configure']) =>
    startHost(
      adapter,
      {
        databaseUrl: database.url,
        webhooks: WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } }),
      },
      { configure },
    );

  it('a body that other code has read before is answered, and is not claimed unread', async () => {
    const { app, origin } = await started((given) => void (given as NestExpressApplication).use(collecting));
    const { status } = await send(origin, REQUESTS['right']!());
    // On Express the reader is in front of that code. On Fastify middleware comes first.
    expect(status).toBe(adapter === 'express' ? 200 : 503);
    await app.close();
  });

  it.each([undefined, 'application/xml', 'nonsense', 'application/json'])(
    'a delivery to an unknown source, of content type %s, is answered 404',
    async (type) => {
      const { app, origin } = await started(() => undefined);
      const { body } = event();
      const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
      for (const chunked of [undefined, 5])
        expect(await send(origin, { path: '/webhooks/unknown', body, headers, chunked })).toMatchObject({
          status: 404,
        });
      await app.close();
    },
  );

  if (adapter === 'fastify')
    it('a hook that waits for the end of the body gets it', async () => {
      const { app, origin } = await started((given) => {
        const fastify = (given as NestFastifyApplication).getHttpAdapter().getInstance();
        fastify.addHook('preParsing', (_request, _reply, payload, done) => {
          payload.on('data', () => undefined);
          payload.on('end', () => done(null, payload));
        });
      });
      expect(await send(origin, REQUESTS['right']!())).toMatchObject({ status: 200 });
      await app.close();
    });
});
