import type { Server } from 'node:http';
import {
  Controller,
  Injectable,
  Module,
  Param,
  Post,
  RequestMethod,
  UseGuards,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type MiddlewareConsumer,
  type NestInterceptor,
  type NestModule,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, type AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import {
  UseWebhook,
  WebhooksModule,
  type WebhooksModuleExtras,
  type WebhooksOptions,
} from '../../src/index.js';
import type { Answer } from '../../src/core/answer.js';
import { DirectRoute } from '../../src/http/direct/direct.route.js';
import { ADAPTERS, type Adapter } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost } from '../support/host.js';
import { send, type RawRequest } from '../support/http.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';

/** What was on the way of a request, in order. */
const met: string[] = [];
const meet = (what: string) => void met.push(what);

@Injectable()
class Guard implements CanActivate {
  canActivate(): boolean {
    meet('guard');
    return true;
  }
}
@Injectable()
class Interceptor implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    meet('interceptor');
    return next.handle();
  }
}
@Module({})
class WithMiddleware implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer
      .apply((_: unknown, __: unknown, next: () => void) => {
        meet('middleware');
        next();
      })
      .forRoutes('{*path}');
  }
}
@Module({})
class WithPostMiddleware implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer
      .apply((_: unknown, __: unknown, next: () => void) => {
        meet('middleware');
        next();
      })
      .forRoutes({ path: '{*path}', method: RequestMethod.POST });
  }
}
@Controller('billing')
class Billing {
  @Post('paid')
  @UseWebhook('sesmetric')
  paid() {
    meet('route');
  }
}

@Controller(':tenant')
class Tenants {
  @Post('sesmetric')
  take(@Param('tenant') tenant: string) {
    meet('tenant');
    return tenant;
  }
}

interface Way {
  readonly providers?: readonly Provider[];
  readonly imports?: readonly Type[];
  readonly controllers?: readonly Type[];
  readonly extras?: WebhooksModuleExtras;
  readonly configure?: (app: INestApplication) => void;
  readonly sources?: WebhooksOptions['sources'];
  readonly httpAdapter?: AbstractHttpAdapter;
}

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(async () => {
  await database?.drop();
});
beforeEach(() => {
  met.length = 0;
});

/** Serves requests, and says whether they were served directly. */
async function serving<T>(
  adapter: Adapter,
  { configure, extras, httpAdapter, sources, ...way }: Way,
  work: (ask: (request: RawRequest) => ReturnType<typeof send>) => Promise<T>,
): Promise<{ result: T; direct: number }> {
  const host = await startHost(
    adapter,
    {
      databaseUrl: database.url,
      webhooks: WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource(), ...sources }, ...extras }),
      ...way,
    },
    { configure, httpAdapter },
  );
  try {
    const route = host.app.get(DirectRoute);
    const serve = route.serve.bind(route);
    let direct = 0;
    route.serve = (...given) => {
      direct += 1;
      return serve(...given);
    };
    const result = await work((request) => send(host.origin, request));
    return { result, direct };
  } finally {
    await host.app.close();
  }
}

let nth = 0;
const event = () => sesmetric({ id: `d-${(nth += 1)}`, type: 'grant.made' });
const path = '/webhooks/sesmetric';

describe.each(ADAPTERS)('the module’s own route on %s', (adapter) => {
  it('is served directly where nothing is on the way', async () => {
    const { result, direct } = await serving(adapter, {}, (ask) => ask({ path, ...event() }));
    expect(result).toMatchObject({ status: 200, text: '{"status":"ok"}' });
    expect(direct).toBe(1);
  });

  const ways: Record<string, Way> = {
    guard: { providers: [{ provide: APP_GUARD, useClass: Guard }] },
    interceptor: { providers: [{ provide: APP_INTERCEPTOR, useClass: Interceptor }] },
    middleware: { imports: [WithMiddleware] },
    'middleware of one method': { imports: [WithPostMiddleware] },
    'a guard by decorator': { extras: { controller: { decorators: [UseGuards(Guard)] } } },
    'a guard of main.ts': { configure: (app) => void app.useGlobalGuards(new Guard()) },
    ...(adapter === 'express'
      ? {
          'middleware of main.ts': {
            configure: (app: INestApplication) =>
              void (app as NestExpressApplication).use((_: unknown, __: unknown, next: () => void) => {
                meet('middleware');
                next();
              }),
          },
        }
      : Object.fromEntries(
          (['preParsing', 'preHandler', 'onSend', 'onRequest', 'onResponse'] as const).map((hook) => [
            `the hook ${hook}`,
            {
              configure: (app: INestApplication) =>
                void (app as NestFastifyApplication)
                  .getHttpAdapter()
                  .getInstance()
                  .addHook(hook as 'onRequest', async () => meet(hook)),
            },
          ]),
        )),
  };
  it.each(Object.entries(ways))(
    'leaves nothing out that the application has put there: %s',
    async (_, way) => {
      const { result } = await serving(adapter, way, (ask) => ask({ path, ...event() }));
      expect(result).toMatchObject({ status: 200, text: '{"status":"ok"}' });
      expect(met).toHaveLength(1);
    },
  );

  it('is not served directly where that is switched off', async () => {
    const way: Way = { extras: { controller: { direct: false } } };
    const { result, direct } = await serving(adapter, way, (ask) => ask({ path, ...event() }));
    expect({ status: result.status, direct }).toEqual({ status: 200, direct: 0 });
  });

  it('is the only one: a route with @UseWebhook is the application’s own', async () => {
    const way: Way = { controllers: [Billing] };
    const { result, direct } = await serving(adapter, way, (ask) =>
      ask({ path: '/billing/paid', ...event() }),
    );
    expect(result.status).toBe(200);
    expect({ direct, met }).toEqual({ direct: 0, met: ['route'] });
  });

  it('answers when the application’s own code makes an answer that cannot be sent, as the long way does', async () => {
    const made = sesmetricSource();
    const answering = (answer: object): typeof made => ({
      ...made,
      provider: { ...made.provider, handshake: { methods: ['GET'], answer: () => answer as Answer } },
    });
    const sources = {
      split: answering({ status: 200, body: 'x', headers: { 'x-split': 'a\r\nb: c' } }),
      name: answering({ status: 200, body: 'x', headers: { 'x-split': 'a', 'a b': 'c' } }),
      status: answering({ status: 1_000, body: 'x' }),
      text: answering({ status: '200', body: 'x' }),
      body: answering({ status: 200 }),
      json: answering({ status: 200, body: { amount: 1n } }),
    };
    for (const way of [{}, ways['guard']!]) {
      const { result, direct } = await serving(adapter, { ...way, sources }, async (ask) => {
        const statuses: Record<string, number> = {};
        for (const source of Object.keys(sources)) {
          const { status, headers } = await ask({ path: `/webhooks/${source}`, method: 'GET' });
          statuses[source] = status;
          expect(headers).not.toHaveProperty('x-split');
        }
        return statuses;
      });
      expect(result).toEqual({ split: 503, name: 503, status: 503, text: 503, body: 503, json: 503 });
      expect(direct).toBe(way === ways['guard'] ? 0 : 6);
    }
  });

  it('says nothing of a content where the answer has none', async () => {
    const made = sesmetricSource();
    const mute: typeof made = {
      ...made,
      provider: {
        ...made.provider,
        handshake: { methods: ['GET'], answer: () => ({ status: 204, body: '' }) },
      },
    };
    const { result, direct } = await serving(adapter, { sources: { mute } }, (ask) =>
      ask({ path: '/webhooks/mute', method: 'GET' }),
    );
    expect({ status: result.status, direct }).toEqual({ status: 204, direct: 1 });
    expect(result.headers).not.toHaveProperty('content-length');
    expect(result.headers).not.toHaveProperty('content-type');
  });

  it('answers everything as the long way does', async () => {
    const known = event();
    const requests: RawRequest[] = [
      { path, ...known },
      { path, ...known },
      { path: `${path}?a=1`, ...known },
      { path: '/webhooks/none', ...event() },
      { path, method: 'GET' },
      { path, ...event(), body: '{}' },
      { path, ...sesmetric({ type: 'grant.made' }) },
      { path, ...sesmetric('x'.repeat(2_000_000)) },
      { path, ...event(), headers: { ...event().headers, 'content-encoding': 'zstd' } },
      { path, ...sesmetric({ id: `d-${nth}`, type: 'x' }), chunked: 7 },
    ];
    const all = async (way: Way) => {
      const { result, direct } = await serving(adapter, way, async (ask) => {
        const replies = [];
        for (const request of requests) replies.push(await ask(request));
        return replies;
      });
      const kept = ['content-type', 'content-length', 'allow', 'retry-after', 'connection'];
      const seen = result.map(({ status, headers, text }) => ({
        status,
        text,
        headers: Object.fromEntries(kept.map((name) => [name, headers[name]])),
      }));
      return { direct, seen };
    };
    const long = await all(ways['guard']!);
    await database.query('DELETE FROM webhook_outbox; DELETE FROM webhook_claim');
    const short = await all({});
    expect(short.seen).toEqual(long.seen);
    expect(long.direct).toBe(0);
    // The source that is not configured is Nest's to answer.
    expect(short.direct).toBe(requests.length - 1);
    expect(short.seen.map(({ status }) => status)).toEqual([
      200, 200, 200, 404, 405, 401, 400, 413, 415, 200,
    ]);
  });
});

describe('on Fastify nothing is left out', () => {
  const hook = async () => meet('hook');
  const served = async (ask: (request: RawRequest) => ReturnType<typeof send>) => {
    expect(await ask({ path, ...event() })).toMatchObject({ status: 200, text: '{"status":"ok"}' });
  };

  it('that was put on its instance before the application was made', async () => {
    const httpAdapter = new FastifyAdapter();
    httpAdapter.getInstance().addHook('preHandler', hook);
    const { direct } = await serving('fastify', { httpAdapter }, served);
    expect({ met, direct }).toEqual({ met: ['hook'], direct: 0 });
  });

  it('that a plugin gives each route', async () => {
    const configure = (app: INestApplication) => {
      const fastify = (app as NestFastifyApplication).getHttpAdapter().getInstance();
      fastify.addHook('onRoute', (route) => {
        route.preHandler = [hook];
      });
    };
    const { direct } = await serving('fastify', { configure }, served);
    expect({ met, direct }).toEqual({ met: ['hook'], direct: 0 });
  });
});

describe('on Express', () => {
  it('Express is not even asked, where nothing else listens', async () => {
    const httpAdapter = new ExpressAdapter();
    const express = httpAdapter.getInstance<{ handle: (...given: unknown[]) => unknown }>();
    const { handle } = express;
    // As Express's own is named: one that is not is the application's, and is asked.
    express.handle = Object.defineProperty(
      (...given: unknown[]) => {
        meet('Express');
        return handle.apply(express, given);
      },
      'name',
      { value: 'handle' },
    );
    await serving('express', { httpAdapter }, async (ask) => {
      expect(await ask({ path, ...event() })).toMatchObject({ status: 200 });
      expect(met).toEqual([]);
      expect(await ask({ path: '/webhooks/none' })).toMatchObject({ status: 404 });
      expect(met).toEqual(['Express']);
    });
  });

  it('other listeners of the server hear of every request', async () => {
    const configure = (app: INestApplication) => {
      (app.getHttpServer() as Server).on('request', () => meet('listener'));
    };
    const { direct } = await serving('express', { configure }, async (ask) => {
      expect(await ask({ path, ...event() })).toMatchObject({ status: 200, text: '{"status":"ok"}' });
    });
    expect({ met, direct }).toEqual({ met: ['listener'], direct: 1 });
  });

  it('a route of the application’s own that stands in front keeps its requests', async () => {
    const { result } = await serving('express', { controllers: [Tenants] }, (ask) =>
      ask({ path, ...event() }),
    );
    expect({ met, text: result.text }).toEqual({ met: ['tenant'], text: 'webhooks' });
  });
});

it('hooks of a plugin of Fastify stay those of its own routes', async () => {
  const configure = (app: INestApplication) => {
    const fastify = (app as NestFastifyApplication).getHttpAdapter().getInstance();
    void fastify.register(async (own) => {
      own.addHook('preHandler', async () => meet('plugin'));
      own.post('/plugin', async () => ({ from: 'plugin' }));
    });
  };
  await serving('fastify', { configure }, async (ask) => {
    expect(await ask({ path: '/plugin' })).toMatchObject({ status: 200 });
    expect(met).toEqual(['plugin']);
    expect(await ask({ path, ...event() })).toMatchObject({ status: 200 });
    expect(met).toEqual(['plugin']);
  });
});
