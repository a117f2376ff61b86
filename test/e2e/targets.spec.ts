import { createServer, METHODS } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { INestApplication, LoggerService } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import express from 'express';
import { WebhooksModule } from '../../src/index.js';
import { ADAPTERS, type Adapter } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost, type Main } from '../support/host.js';
import { send } from '../support/http.js';
import { answered, OK, UNKNOWN_SOURCE, WRONG_METHOD } from '../support/receiver.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';

let nth = 0;
const event = () => sesmetric({ id: `target-${(nth += 1)}`, type: 't' });

/** As Nest answers where no route is. */
const NOWHERE = '404 Nest';

/** One answer for each target, whatever the adapter and the way. */
const TARGETS: Readonly<Record<string, string>> = {
  '/webhooks/github': OK,
  '/webhooks/github?a=1': OK,
  '/webhooks/github?a=/b': OK,
  '/webhooks/github?a#b': OK,
  '/webhooks/github#a': OK,
  '/webhooks/github#a?b': OK,
  '/webhooks/git%68ub': OK,
  'http://h/webhooks/github': OK,
  'HTTP://H:8080/webhooks/github': OK,
  'https://h/webhooks/github?x=1': OK,
  '/webhooks/github/': NOWHERE,
  '/webhooks/github//': NOWHERE,
  '/WEBHOOKS/github': NOWHERE,
  'http://h/WEBHOOKS/github': NOWHERE,
  '/%77ebhooks/github': NOWHERE,
  '/webhooks%2Fgithub': NOWHERE,
  '//webhooks/github': NOWHERE,
  '/webhooks//github': NOWHERE,
  '/webhooks/./github': NOWHERE,
  '/webhooks/x/../github': NOWHERE,
  '/webhooks/github/x': NOWHERE,
  '/webhooks\\github': NOWHERE,
  '/webhooks\\github#': NOWHERE,
  '/webhooks/': NOWHERE,
  '/webhooks': NOWHERE,
  'http://h': NOWHERE,
  'http://h?/webhooks/github': NOWHERE,
  'ftp://h/webhooks/github': NOWHERE,
  '*': NOWHERE,
  '/webhooks/nope': UNKNOWN_SOURCE,
  '/webhooks/GITHUB': UNKNOWN_SOURCE,
  '/webhooks/github;a=1': UNKNOWN_SOURCE,
  '/webhooks/github%00': UNKNOWN_SOURCE,
  '/webhooks/github%20': UNKNOWN_SOURCE,
  '/webhooks/github%2F': UNKNOWN_SOURCE,
  '/webhooks/{101}': UNKNOWN_SOURCE,
  '/webhooks/{5000}?y': UNKNOWN_SOURCE,
  '/webhooks/github/{5000}': NOWHERE,
};

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database?.drop());

async function during<T>(
  adapter: Adapter,
  main: Main,
  work: (origin: string, app: INestApplication) => Promise<T>,
  direct = true,
): Promise<T> {
  const webhooks = WebhooksModule.forRoot({ sources: { github: sesmetricSource() }, controller: { direct } });
  const { app, origin } = await startHost(adapter, { databaseUrl: database.url, webhooks }, main);
  try {
    return await work(origin, app);
  } finally {
    await app.close();
  }
}

const ask = async (origin: string, path: string, method = 'POST') => {
  const spelled = path.replace(/\{(\d+)\}/, (_, length) => 'x'.repeat(Number(length)));
  const reply = await send(origin, { path: spelled, method, ...event() });
  return reply.text.includes('"Cannot ') ? `${reply.status} Nest` : answered(reply);
};

const all = async <K extends string>(keys: readonly K[], answer: (key: K) => Promise<string>) =>
  Object.fromEntries(await Promise.all(keys.map(async (key) => [key, await answer(key)] as const)));

describe.each(ADAPTERS)('a request’s target on %s', (adapter) => {
  it.each([true, false])('is read in one way (direct: %s)', async (direct) => {
    await during(
      adapter,
      {},
      async (origin) => {
        expect(await all(Object.keys(TARGETS), (path) => ask(origin, path))).toEqual(TARGETS);
      },
      direct,
    );
  });

  it.each([true, false])('every method but the provider’s is answered 405 (direct: %s)', async (direct) => {
    const methods = METHODS.filter((method) => method !== 'CONNECT');
    await during(
      adapter,
      {},
      async (origin) => {
        const found = await all(methods, (method) => ask(origin, '/webhooks/github', method));
        expect(found).toEqual({
          ...Object.fromEntries(methods.map((method) => [method, WRONG_METHOD])),
          POST: OK,
          HEAD: '405 ',
        });
      },
      direct,
    );
  });
});

/** What an application may set, and what the module's own route makes of it. */
const SPELLINGS = ['/WEBHOOKS/github', '/webhooks/github/'];
const expressWith = (settings: Record<string, boolean>): Main => {
  const server = express();
  for (const [name, value] of Object.entries(settings)) server.set(name, value);
  return { httpAdapter: new ExpressAdapter(server) };
};
const fastifyWith = (routerOptions: Record<string, boolean>): Main => ({
  httpAdapter: new FastifyAdapter({ routerOptions }),
});
const LOOSE = [OK, OK];
const STRICT = [NOWHERE, NOWHERE];
it.each<[Adapter, string, () => Main, string[]]>([
  ['express', 'nothing', () => ({}), STRICT],
  [
    'express',
    'case and slash matter',
    () => expressWith({ 'case sensitive routing': true, 'strict routing': true }),
    STRICT,
  ],
  [
    'express',
    'case and slash do not matter',
    () => expressWith({ 'case sensitive routing': false, 'strict routing': false }),
    LOOSE,
  ],
  ['fastify', 'nothing', () => ({}), STRICT],
  [
    'fastify',
    'case and slash do not matter',
    () => fastifyWith({ caseSensitive: false, ignoreTrailingSlash: true }),
    LOOSE,
  ],
  ['fastify', 'doubled slashes do not matter', () => fastifyWith({ ignoreDuplicateSlashes: true }), STRICT],
])('%s: what the application has set for paths holds: %s', async (adapter, _, main, expected) => {
  await during(adapter, main(), async (origin) => {
    const found = [];
    for (const path of SPELLINGS) found.push(await ask(origin, path));
    expect(found).toEqual(expected);
  });
});

it('Fastify: doubled slashes are taken where the application has set it', async () => {
  await during('fastify', fastifyWith({ ignoreDuplicateSlashes: true }), async (origin) => {
    expect(await ask(origin, '//webhooks//github')).toBe(OK);
  });
});

describe('Express, where the application changes the URL before it is routed', () => {
  it.each([true, false])('below a path of another application (direct: %s)', async (direct) => {
    await during(
      'express',
      {},
      async (_, app) => {
        const outer = express();
        outer.use('/api', app.getHttpAdapter().getInstance());
        const server = createServer(outer).listen(0, '127.0.0.1');
        await new Promise((resolve) => server.once('listening', resolve));
        const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
        expect(await ask(origin, '/api/webhooks/github?a=1')).toBe(OK);
        expect(await ask(origin, 'http://h/api/webhooks/github#a')).toBe(OK);
        expect(await ask(origin, '/api/webhooks/nope')).toBe(UNKNOWN_SOURCE);
        expect((await ask(origin, '/webhooks/github')).slice(0, 3)).toBe('404');
        await new Promise((resolve) => server.close(resolve));
      },
      direct,
    );
  });

  it('a middleware in front that gives the route another URL', async () => {
    const configure = (app: INestApplication) =>
      void app.use((request: { url: string }, _: unknown, next: () => void) => {
        request.url = request.url.replace('/old/', '/webhooks/');
        next();
      });
    await during('express', { configure }, async (origin) => {
      expect(await ask(origin, '/old/github')).toBe(OK);
      expect(await ask(origin, '/webhooks/github')).toBe(OK);
    });
  });
});

describe.each(ADAPTERS)('log lines that anyone can cause on %s', (adapter) => {
  const counted = async (main: Main, work: (origin: string) => Promise<unknown>) => {
    const lines: string[] = [];
    const add = (...given: unknown[]) => void lines.push(String(given[0]));
    const logger: LoggerService = { log() {}, warn: add, error: add, fatal: add };
    const failing = () => Promise.reject(new Error('no such tenant'));
    const webhooks = WebhooksModule.forRoot({
      sources: {
        github: sesmetricSource(),
        tenants: sesmetricSource({ secrets: failing }),
      },
    });
    const { app, origin } = await startHost(
      adapter,
      { databaseUrl: database.url, webhooks },
      { ...main, create: { ...main.create, logger } },
    );
    lines.length = 0;
    await work(origin);
    await app.close();
    return lines;
  };
  const TIMES = 20;
  const often = async (origin: string, paths: readonly string[]) => {
    const headers = { 'X-SESMetric-Signature': '00', 'X-SESMetric-Timestamp': '1' };
    for (let i = 0; i < TIMES; i += 1)
      for (const path of paths) await send(origin, { path, body: '{}', headers });
  };

  it('a target that no source has: none of them says that bytes are gone', async () => {
    const lines = await counted({}, (origin) =>
      often(origin, [
        '/webhooks/github/',
        '/webhooks\\github#',
        '/%77ebhooks/github',
        'ftp://h/webhooks/github',
      ]),
    );
    expect(lines).toEqual([]);
  });

  it('secrets that cannot be had: one line in a minute', async () => {
    const lines = await counted({}, (origin) => often(origin, ['/webhooks/tenants']));
    expect(lines).toEqual([expect.stringContaining('the secrets could not be loaded')]);
  });

  it('a guard that refuses: counted, and one line in a minute', async () => {
    const configure = (app: INestApplication) => void app.useGlobalGuards({ canActivate: () => false });
    const lines = await counted({ configure }, (origin) => often(origin, ['/webhooks/github']));
    expect(lines).toEqual([
      expect.stringMatching(/the application itself answered 403.*source=github reason=application-answer/),
    ]);
  });
});

it('on Express, bytes that something else has read: one line in a minute', async () => {
  const lines: string[] = [];
  const logger: LoggerService = {
    log() {},
    warn() {},
    error: (line: unknown) => void lines.push(String(line)),
  };
  const server = express();
  server.use((request, _response, next) => void request.resume().once('end', next));
  const webhooks = WebhooksModule.forRoot({ sources: { github: sesmetricSource() } });
  const { app, origin } = await startHost(
    'express',
    { databaseUrl: database.url, webhooks },
    { httpAdapter: new ExpressAdapter(server), create: { logger } },
  );
  for (let i = 0; i < 5; i += 1)
    expect(await ask(origin, '/webhooks/github')).toBe('503 {"status":"unavailable"}');
  expect(lines).toEqual([expect.stringContaining('the raw bytes of a webhook are gone')]);
  await app.close();
});
