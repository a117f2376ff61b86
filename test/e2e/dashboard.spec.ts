import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import {
  Injectable,
  RequestMethod,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { NestFactory } from '@nestjs/core';
import type { FastifyInstance } from 'fastify';
import { Inbox, Inspector, WebhooksModule } from '../../src/index.js';
import {
  WebhooksDashboardModule,
  type DashboardAction,
  type DashboardOptions,
} from '../../src/dashboard/index.js';
import { PERMISSION } from '../../src/dashboard/dashboard.actions.js';
import { dashboardController } from '../../src/dashboard/dashboard.controller.js';
import { ADAPTERS, createApplication, listen, until, type Adapter } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { hostModule } from '../support/host.js';
import { send } from '../support/http.js';
import { awardee } from '../support/signing.js';

@Injectable()
class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string>; user?: unknown }>();
    const [, name] = /^Bearer admin-(\w+)$/.exec(request.headers['authorization'] ?? '') ?? [];
    request.user = { email: `${name}@example.com` };
    return name !== undefined;
  }
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly url: string;
  readonly json: Record<string, unknown>;
}

describe('the dashboard without a guard', () => {
  it.each([[{}], [{ guards: [] }], [{ guards: [], allowUnauthenticated: false }]])(
    'refuses to be mounted with %j, whatever the environment',
    (options) => {
      expect(() => WebhooksDashboardModule.forRoot(options)).toThrow(/expected at least one guard/);
    },
  );

  it('names an unknown option and what it may have meant', () => {
    expect(() => WebhooksDashboardModule.forRoot({ gaurds: [TokenGuard] } as DashboardOptions)).toThrow(
      /did you mean 'guards'/,
    );
  });

  it.each(ADAPTERS)(
    'may be mounted on a machine of one’s own, and answers to no stranger’s name on %s',
    async (adapter) => {
      const database = await createDatabase();
      const app = await createApplication({
        adapter,
        databaseUrl: database.url,
        webhooks: { sources: deskSources },
        imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
      });
      try {
        const origin = await listen(app);
        const { port } = new URL(origin);
        const statuses = async (path: string, method: string, host: string) => {
          const headers = { host, 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
          const body =
            method === 'POST'
              ? JSON.stringify({ kind: 'source', name: 'stripe', paused: true, reason: 'mine' })
              : '';
          return (await send(origin, { method, path, headers, body })).status;
        };
        for (const [path, method] of [
          ['/webhooks-desk/api/meta', 'GET'],
          ['/webhooks-desk/api/events', 'GET'],
          ['/webhooks-desk/api/actions/pause', 'POST'],
        ] as const) {
          // A page whose name was made to lead here is same-origin in the eyes of its browser.
          for (const host of [
            `rebound.example:${port}`,
            `127.0.0.1.example:${port}`,
            'localhost.example',
            '',
            '@',
          ])
            expect([host, [400, 403]]).toEqual([
              host,
              expect.arrayContaining([await statuses(path, method, host)]),
            ]);
          for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, '[::1]:3000', 'desk.localhost'])
            expect([host, await statuses(path, method, host)]).toEqual([host, 200]);
        }
      } finally {
        await app.close();
        await database.drop();
      }
    },
  );
});

it('the dashboard may be mounted on Fastify where a slash at the end of an address does not matter', async () => {
  const database = await createDatabase();
  const app = await createApplication({
    adapter: 'fastify',
    fastify: { routerOptions: { ignoreTrailingSlash: true } },
    databaseUrl: database.url,
    webhooks: { sources: deskSources },
    imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
  });
  try {
    const origin = await listen(app);
    for (const slash of ['', '/']) expect((await fetch(`${origin}/webhooks-desk${slash}`)).status).toBe(200);
  } finally {
    await app.close();
    await database.drop();
  }
});

it('the dashboard takes no address of the application where the global prefix leaves the page out', async () => {
  const database = await createDatabase();
  const app = await createApplication({
    adapter: 'fastify',
    databaseUrl: database.url,
    webhooks: { sources: deskSources },
    imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
    configure: (application) => {
      application.setGlobalPrefix('api', { exclude: ['webhooks-desk', 'webhooks-desk/{*rest}'] });
      (application.getHttpAdapter().getInstance() as FastifyInstance).get(
        '/api/*',
        () => 'of the application',
      );
    },
  });
  try {
    const answer = await fetch(`${await listen(app)}/api/webhooks-desk/`, { redirect: 'manual' });
    expect([answer.status, await answer.text()]).toEqual([200, 'of the application']);
  } finally {
    await app.close();
    await database.drop();
  }
});

it('the dashboard does not hide that a hook of the application refuses its routes', async () => {
  const database = await createDatabase();
  const refuse = ({ url }: { url: string }) => {
    if (url === '/webhooks-desk/') throw new Error('an address with a slash at its end');
  };
  const app = createApplication({
    adapter: 'fastify',
    databaseUrl: database.url,
    webhooks: { sources: deskSources },
    imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
    configure: (application) =>
      (application.getHttpAdapter().getInstance() as FastifyInstance).addHook('onRoute', refuse),
  });
  await expect(app).rejects.toThrow('an address with a slash at its end');
  await database.drop();
});

it('the dashboard is imported by an application without HTTP too, such as a worker or a command', async () => {
  const database = await createDatabase();
  const context = await NestFactory.createApplicationContext(
    hostModule({
      databaseUrl: database.url,
      webhooks: WebhooksModule.forRoot({ sources: deskSources }),
      imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
    }),
    { logger: false, abortOnError: false },
  );
  try {
    expect((await context.get(Inspector).events('')).events).toEqual([]);
  } finally {
    await context.close();
    await database.drop();
  }
});

// As `npm run build` does; what lies there may be of another day.
beforeAll(async () => {
  await promisify(execFile)(process.execPath, ['node_modules/vite/bin/vite.js', 'build', 'dashboard']);
}, 120_000);

it('the page is small: under 80 kB gzipped, with everything that it loads', () => {
  const folder = 'dist/dashboard/assets';
  const sizes = readdirSync(folder).map((name) => gzipSync(readFileSync(`${folder}/${name}`)).length);
  const sum = sizes.reduce(
    (total, size) => total + size,
    gzipSync(readFileSync('dist/dashboard/index.html')).length,
  );
  expect(sum).toBeGreaterThan(10_000);
  expect(sum).toBeLessThan(80_000);
});

it('the page says of kept headers that a signature may be among them', () => {
  const folder = 'dist/dashboard/assets';
  const texts = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
  const said = texts.join('').match(/[^.]*\. A signature [^.]*\./g) ?? [];
  expect(said.join(' ')).toContain(
    'A signature is among them where the source names its header in keepHeaders.',
  );
  expect(texts.join('')).not.toMatch(/signature[^.]{0,40} never/i);
});

/** The controller's own list: a new route is in it. */
function routesOf({ prototype }: Type<object>): { readonly path: string; readonly isPost: boolean }[] {
  const names = Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor');
  const methods = names.map((name) => Reflect.get(prototype, name) as object);
  return methods.flatMap((method) => {
    const paths = Reflect.getMetadata(PATH_METADATA, method) as string | string[] | undefined;
    const isPost = Reflect.getMetadata(METHOD_METADATA, method) === RequestMethod.POST;
    return [paths ?? []].flat().map((path) => ({ path, isPost }));
  });
}

describe.each(ADAPTERS)('the dashboard on %s', (adapter) => {
  let database: TestDatabase;
  let app: INestApplication;
  let origin: string;
  const denied = new Set<DashboardAction>();
  let mayDo: (action: DashboardAction, source?: string, tenant?: string) => boolean = () => true;

  const start = async (on: Adapter, options: DashboardOptions) => {
    app = await createApplication({
      adapter: on,
      databaseUrl: database.url,
      webhooks: { sources: deskSources },
      providers: [DeskHandlers],
      imports: [WebhooksDashboardModule.forRoot({ path: 'admin/hooks', guards: [TokenGuard], ...options })],
      configure: (application) => application.setGlobalPrefix('backend'),
    });
    origin = `${await listen(app)}/backend/admin/hooks`;
  };
  const ask = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const headers = { authorization: 'Bearer admin-ann', ...(init.headers as Record<string, string>) };
    const response = await fetch(`${origin}${path}`, { ...init, headers });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json');
    const { status, headers: answered, url } = response;
    return { status, headers: answered, text, url, json: isJson ? JSON.parse(text) : {} };
  };
  const act = (action: string, body: unknown, headers: Record<string, string> = {}) =>
    ask(`/api/actions/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', ...headers },
      body: JSON.stringify(body),
    });
  const die = async (id: string) => {
    world.grantsFail = true;
    const { headers, body } = awardee(id, 'grant.made', { card: 'canary-4242' });
    await app.get(Inbox).receive('awardee', { headers, rawBody: body });
    await until(
      async () =>
        (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead' AND event_id = $1`, [id]))
          .length > 0,
    );
    world.grantsFail = false;
    const { json } = await ask(`/api/events?q=id:${id}`);
    return (json['events'] as { id: string }[])[0]!.id;
  };

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  describe('with payloads behind a click', () => {
    beforeAll(() =>
      start(adapter, {
        signInUrl: 'https://login.example/',
        can: (action, _, { source, tenant }) => !denied.has(action) && mayDo(action, source, tenant),
      }),
    );
    afterAll(() => app?.close());
    afterEach(() => {
      denied.clear();
      mayDo = () => true;
    });

    it('R23 goes from a dead letter over its cause to done', async () => {
      const id = await die('tour');
      const groups = (await ask('/api/dead')).json['groups'] as { fingerprint: string; error: string }[];
      expect(groups[0]!.error).toContain('is closed');
      const rows = (await ask(`/api/dead/${groups[0]!.fingerprint}`)).json['rows'] as {
        id: string;
        claimId: string;
      }[];
      expect(rows).toEqual([expect.objectContaining({ claimId: id, eventId: 'tour' })]);
      expect((await act('revive', { ids: [rows[0]!.id], reason: 'opened' })).json).toEqual({
        revived: [rows[0]!.id],
      });
      await until(async () => (await ask(`/api/events/${id}`)).json['state'] === 'processed');
      const audit = (await ask('/api/audit')).json['audit'] as unknown[];
      expect(audit[0]).toMatchObject({ actor: 'ann@example.com', action: 'revive', reason: 'opened' });
    });

    it('lets nobody in whom the guard does not, and answers with headers that let nothing else run', async () => {
      for (const path of ['', '/api/meta', '/api/events', '/assets/x.js']) {
        expect((await ask(path, { headers: { authorization: '' } })).status).toBe(403);
      }
      const { headers } = await ask('/api/meta');
      expect(headers.get('content-security-policy')).toMatch(
        /default-src 'none'; script-src 'self'.*frame-ancestors 'none'/,
      );
      expect(headers.get('content-security-policy')).not.toContain('unsafe');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
    });

    it('changes nothing for another site, a form or a link', async () => {
      const revive = { ids: ['00000000-0000-7000-8000-000000000000'], reason: 'opened' };
      const { host } = new URL(origin);
      const refused = [
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'same-site' },
        { 'sec-fetch-site': 'none' },
        { 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' },
        { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
      ];
      for (const headers of refused) expect((await act('revive', revive, headers as never)).status).toBe(403);
      const plain = (headers: Record<string, string>) =>
        ask('/api/actions/revive', {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify(revive),
        });
      expect((await plain({ origin: 'https://evil.example' })).status).toBe(403);
      expect((await plain({ origin: 'null' })).status).toBe(403);
      expect((await plain({ origin: `http://${host}` })).status).toBe(200);
      expect((await ask('/api/actions/revive')).status).toBe(404);
    });

    it('R25 R23 previews a replay, has it run, and says what came of it', async () => {
      const { headers, body } = awardee('once-more', 'grant.made', {});
      await app.get(Inbox).receive('awardee', { headers, rawBody: body });
      const state = async () =>
        (
          (await ask('/api/events?q=id:once-more')).json['events'] as {
            state: string;
            effectsPending: number;
          }[]
        )[0]!;
      const settled = () =>
        until(async () => (await state()).state === 'processed' && (await state()).effectsPending === 0);
      await settled();
      const events = [{ source: 'awardee', tenant: '', eventId: 'once-more' }];
      const { plans } = (await act('replay-preview', { events })).json as { plans: unknown[] };
      expect(plans).toEqual([
        expect.objectContaining({
          run: [expect.objectContaining({ handler: 'awardee/DeskHandlers.grant' })],
          staysDone: [expect.objectContaining({ name: 'mail' })],
        }),
      ]);
      expect((await act('replay', { events, reason: 'lost downstream' })).json).toMatchObject({
        replayed: 1,
        refused: [],
      });
      await settled();
      expect((await act('erase', { events })).status).toBe(400);
      expect((await act('erase', { event: events[0], reason: 'asked' })).json).toMatchObject({
        outcome: 'erased',
      });
      expect((await act('replay-preview', { events })).json['plans']).toEqual([
        expect.objectContaining({ refused: expect.stringContaining('removed') }),
      ]);
    });

    it('shows content at a click only, and writes down who looked', async () => {
      const id = await die('secret');
      const shown = await ask(`/api/events/${id}`);
      expect(shown.text).not.toContain('canary-4242');
      for (const path of ['/api/events', '/api/dead', '/api/effects', '/api/audit', '/api/overview'])
        expect((await ask(path)).text).not.toContain('canary-4242');
      const revealed = await act('reveal', { event: id });
      expect(revealed.json).toMatchObject({ encoding: 'utf8', cut: false, text: '{"card":"canary-4242"}' });
      const download = await act('download', { event: id });
      expect(download.text).toBe('{"card":"canary-4242"}');
      expect(download.headers.get('content-disposition')).toBe(`attachment; filename="${id}.txt"`);
      expect(download.headers.get('content-type')).toBe('application/octet-stream');
      const audit = (await ask('/api/audit')).json['audit'] as unknown[];
      expect(audit.slice(0, 2)).toEqual([
        expect.objectContaining({ action: 'content downloaded', target: `event ${id}` }),
        expect.objectContaining({ action: 'content shown', target: `event ${id}` }),
      ]);
      await database.query(
        `INSERT INTO webhook_conflict (source, tenant, event_id, kind, body_sha256, body)
         SELECT source, tenant, event_id, 'other-bytes', decode($2, 'hex'), 'canary-4243' FROM webhook_claim WHERE id = $1`,
        [id, 'ab'.repeat(32)],
      );
      expect((await ask(`/api/events/${id}`)).text).not.toContain('canary-4243');
      const other = await act('reveal', { event: id, conflict: 'ab'.repeat(32) });
      expect(other.json).toMatchObject({ text: 'canary-4243' });
      expect((await ask('/api/audit')).json['audit']).toContainEqual(
        expect.objectContaining({ action: 'content shown', target: `conflict of event ${id}` }),
      );
    });

    it('asks the application about each action', async () => {
      const id = await die('asked');
      denied.add('reveal').add('revive');
      expect((await ask('/api/meta')).json['can']).toEqual([
        'view',
        'give-up',
        'issue',
        'verify-again',
        'replay',
        'forward',
        'park',
        'decide',
        'cancel',
        'erase',
        'pause',
      ]);
      expect((await act('reveal', { event: id })).status).toBe(403);
      expect((await act('revive', { ids: [id] })).status).toBe(403);
      denied.add('view');
      for (const path of ['', '/api/meta', '/api/events', `/api/events/${id}`, '/api/dead'])
        expect((await ask(path)).status).toBe(403);
    });

    it('denies every route that there is to a person without a right, but for the page’s own files', async () => {
      mayDo = () => false;
      const routes = routesOf(dashboardController('desk', []));
      expect(routes.length).toBeGreaterThan(7);
      for (const { path, isPost } of routes) {
        for (const action of path.includes(':action') ? Object.keys(PERMISSION) : ['']) {
          const asked = path.replace(':action', action).replace(/:\w+/g, 'x').replace(/^\/?/, '/');
          const { status } = isPost ? await act(asked.replace('/api/actions/', ''), {}) : await ask(asked);
          expect([asked, status]).toEqual([asked, path === 'assets/:file' ? 404 : 403]);
        }
      }
    });

    describe('denies each action its own right, at its endpoint', () => {
      let event: { source: string; tenant: string; eventId: string };
      let bodies: Record<string, object>;
      beforeAll(async () => {
        const id = await die('denied');
        const rows = (await ask(`/api/events/${id}`)).json['rows'] as { id: string }[];
        const ids = [rows[0]!.id];
        const groups = (await ask('/api/dead?q=error:denied')).json['groups'] as { fingerprint: string }[];
        event = { source: 'awardee', tenant: '', eventId: 'denied' };
        const reason = 'not mine';
        bodies = {
          revive: { ids, reason },
          'revive-preview': { ids },
          'row-states': { ids },
          'give-up': { ids, reason },
          issue: { fingerprint: groups[0]!.fingerprint, state: 'acknowledged', reason },
          'find-gaps': { source: 'awardee', reason },
          'verify-again': { source: 'awardee', reason },
          reveal: { event: id, reason },
          download: { event: id, reason },
          'replay-preview': { events: [event] },
          replay: { events: [event], reason },
          forward: { events: [event], url: 'https://example.com', reason },
          park: { ids, reason },
          decide: { id: ids[0], decision: 'done', reason },
          cancel: { id: ids[0], reason },
          erase: { event, reason },
          pause: { kind: 'handler', name: 'awardee/DeskHandlers.grant', paused: true, reason },
        };
      });

      // Spelt out: made of the code's own table it would agree with any fault in that.
      const RIGHTS = {
        revive: 'revive',
        'revive-preview': 'revive',
        'row-states': 'view',
        'give-up': 'give-up',
        issue: 'issue',
        'find-gaps': 'replay',
        'verify-again': 'verify-again',
        reveal: 'reveal',
        'replay-preview': 'replay',
        replay: 'replay',
        forward: 'forward',
        park: 'park',
        decide: 'decide',
        cancel: 'cancel',
        erase: 'erase',
        pause: 'pause',
        download: 'reveal',
      } as const;
      it.each(Object.entries(RIGHTS))('%s needs %s', async (action, right) => {
        const before = await database.query(
          `SELECT id, state, reason, attempt_base FROM webhook_outbox ORDER BY id`,
        );
        denied.add(right);
        expect([action, (await act(action, bodies[action])).status]).toEqual([action, 403]);
        denied.clear();
        // Every right but this one's source; every source but this one.
        mayDo = (asked, source) => asked !== right || source === 'stripe';
        expect([action, (await act(action, bodies[action])).status]).toEqual([action, 403]);
        mayDo = (asked, source, tenant) => asked !== right || source === undefined || tenant === 'acme';
        expect([action, (await act(action, bodies[action])).status]).toEqual([action, 403]);
        const after = await database.query(
          `SELECT id, state, reason, attempt_base FROM webhook_outbox ORDER BY id`,
        );
        expect(after).toEqual(before);
      });

      it('has a body for each action there is', () => {
        expect(Object.keys(bodies).sort()).toEqual(Object.keys(RIGHTS).sort());
        expect(Object.keys(RIGHTS)).toEqual([...Object.keys(PERMISSION), 'download']);
      });
    });

    it('lets a person act who has the right for one tenant alone, and never says whose a row is', async () => {
      const id = await die('of-a-tenant');
      const { rows } = (await ask(`/api/events/${id}`)).json as { rows: { id: string }[] };
      const give = () => act('give-up', { ids: [rows[0]!.id], reason: 'of mine' });
      mayDo = (asked, _source, tenant) => asked === 'view' || tenant === 'acme';
      const foreign = await give();
      const unknown = await act('give-up', { ids: [randomUUID()], reason: 'of mine' });
      expect([foreign.status, foreign.json]).toEqual([unknown.status, unknown.json]);
      mayDo = (asked, source, tenant) => asked === 'view' || (source === 'awardee' && tenant === '');
      expect((await give()).status).toBe(200);
      mayDo = () => true;
    });

    it('names no source in a hint that a person may not see, and searches no payload that may not be revealed', async () => {
      const { headers, body } = awardee('found-by-value', 'grant.made', { data: { customer: 'cus_9' } });
      await app.get(Inbox).receive('awardee', { headers, rawBody: body });
      const hints = async (q: string) => (await ask(`/api/events?q=${q}`)).json['hints'];
      const found = async () =>
        ((await ask('/api/events?q=data.customer:cus_9')).json['events'] as unknown[]).length;
      const keys = async () => (await ask('/api/meta')).json['filterKeys'];
      expect([await found(), await keys()]).toEqual([
        1,
        expect.objectContaining({ events: expect.objectContaining({ 'data.customer': expect.anything() }) }),
      ]);
      mayDo = (_, source) => source === 'stripe';
      expect(await hints('source:awarde')).toEqual([expect.not.stringContaining('awardee')]);
      expect(await hints('handler:awardee/DeskHandlers.grnt')).toEqual([
        expect.not.stringContaining('did you mean'),
      ]);
      mayDo = (asked, source) => asked !== 'reveal' || source === 'stripe';
      expect(await found()).toBe(0);
      expect(JSON.stringify(await keys())).not.toContain('data.customer');
      mayDo = () => true;
    });

    it('refuses a place in a list that no list has given out', async () => {
      const places = [
        'garbage',
        '["2026","00000000-0000-7000-8000-000000000000"]',
        '["1","00000000-0000-7000-8000-000000000000"]',
        '["+275760-09-13T00:00:00Z","00000000-0000-7000-8000-000000000000"]',
      ];
      for (const place of places)
        for (const list of ['events', 'dead'])
          expect([
            place,
            (await ask(`/api/${list}?q=source:awardee&after=${Buffer.from(place).toString('base64url')}`))
              .status,
          ]).toEqual([place, 400]);
    });

    it('leaves out of every list what a person may not see', async () => {
      const id = await die('hidden');
      mayDo = (_, source) => source === 'stripe';
      const { json: meta } = await ask('/api/meta');
      expect(meta).toMatchObject({
        sources: ['stripe'],
        seesAll: false,
        signInUrl: 'https://login.example/',
      });
      for (const list of ['events', 'effects', 'dead', 'rejections', 'sources', 'paused'])
        expect([list, (await ask(`/api/${list}`)).text]).toEqual([
          list,
          expect.not.stringContaining('awardee'),
        ]);
      for (const total of ['overview', 'relays', 'alerts', 'audit', 'counts'])
        expect([total, (await ask(`/api/${total}`)).status]).toEqual([total, 403]);
      expect((await ask(`/api/events/${id}`)).status).toBe(404);
      expect((await ask('/api/events?q=id:hidden')).json['events']).toEqual([]);
      mayDo = (_, source) => source === 'awardee';
      expect((await ask('/api/events?q=id:hidden')).json['events']).toHaveLength(1);
      mayDo = (_, source, tenant) => source === 'awardee' && tenant !== '';
      expect((await ask('/api/events?q=id:hidden')).json['events']).toEqual([]);
      expect((await ask('/api/dead')).json['groups']).toEqual([]);
    });

    it('says what a revival would run, who was first, and how far rows have come', async () => {
      const id = await die('twice');
      const rows = (await ask(`/api/events/${id}`)).json['rows'] as { id: string }[];
      const ids = [rows[0]!.id];
      expect((await act('revive-preview', { ids })).json).toEqual({
        run: { 'awardee/DeskHandlers.grant': 1 },
        staysDone: {},
        notDead: 0,
      });
      const answers = [
        await act('revive', { ids, reason: 'mine' }, { authorization: 'Bearer admin-bob' }),
        await act('revive', { ids, reason: 'mine too' }),
      ];
      expect(answers.map(({ json }) => (json['revived'] as unknown[]).length)).toEqual([1, 0]);
      const [other] = answers[1]!.json['others'] as { why: string }[];
      expect(other!.why).toMatch(/\(bob@example\.com: revive, \d{4}-/);
      await until(
        async () => ((await act('row-states', { ids })).json['states'] as { done?: number }).done === 1,
      );
    });

    it('reads times in the zone that the page shows', async () => {
      expect((await ask('/api/events?q=after:2020-01-01&zone=America/New_York')).status).toBe(200);
      expect((await ask('/api/events?q=after:2020-01-01&zone=Mars/Base')).status).toBe(400);
    });

    it('gives a dead row up', async () => {
      const id = await die('hopeless');
      const rows = (await ask(`/api/events/${id}`)).json['rows'] as { id: string }[];
      expect((await act('give-up', { ids: [rows[0]!.id], reason: 'closed for good' })).json).toEqual({
        givenUp: [rows[0]!.id],
      });
      expect((await ask(`/api/events/${id}`)).json['rows']).toMatchObject([
        { state: 'dead', reason: 'given-up' },
      ]);
      expect(((await ask('/api/audit')).json['audit'] as unknown[])[0]).toMatchObject({ action: 'give up' });
    });

    it('shows the page and its files under a global prefix, with and without a slash at its end', async () => {
      for (const slash of ['', '/']) {
        const page = await ask(slash);
        expect({ slash, status: page.status }).toEqual({ slash, status: 200 });
        expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
        const assets = [...page.text.matchAll(/(?:src|href)="(\.[^"]+)"/g)].map(([, address]) => address!);
        expect(assets.length).toBeGreaterThanOrEqual(2);
        for (const address of assets) {
          const asset = await fetch(new URL(address, page.url), {
            headers: { authorization: 'Bearer admin-ann' },
          });
          expect({ address, status: asset.status }).toEqual({ address, status: 200 });
          expect(asset.headers.get('content-type')).toMatch(/javascript|css|svg/);
          expect((await asset.arrayBuffer()).byteLength).toBeGreaterThan(100);
        }
      }
    });

    it.each([
      ['revive', { ids: ['00000000-0000-7000-8000-000000000000'], reason: 'NUL \u0000' }],
      ['pause', { kind: 'source', name: 'stripe', paused: true, reason: 'half \ud83d' }],
      ['give-up', { ids: [] }],
      ['revive', {}],
      ['revive', { ids: ['x'] }],
      ['revive', { ids: [], reason: 'x' }],
      ['issue', { fingerprint: '../../etc/passwd', state: 'resolved' }],
      ['issue', { fingerprint: '0'.repeat(32), state: 'done' }],
      ['reveal', {}],
    ])('refuses %s with %j as a fault of the asker', async (action, body) => {
      const answer = await act(action, body);
      expect(answer.status).toBe(400);
      expect(answer.text).not.toMatch(/webhook_|SELECT|at \w+ \(/);
    });

    it('offers no action that the application does not have, and no path that it does not know', async () => {
      expect((await act('forget', {})).status).toBe(404);
      for (const path of [
        '/api/nope',
        '/api/dead/x',
        '/api/effects/x',
        '/api/events/00000000-0000-7000-8000-000000000000',
        '/api/events/x',
        '/api/a/b/c',
        '/assets/..%2f..%2fpackage.json',
      ])
        expect((await ask(path)).status).toBe(404);
      expect((await ask('/api/events?q=stat:dead')).json['error']).toMatch(/did you mean 'state'/);
    });

    it.each(['overview', 'effects', 'rejections', 'sources', 'relays', 'alerts', 'audit'])(
      'lists %s',
      async (list) => {
        expect((await ask(`/api/${list}`)).status).toBe(200);
      },
    );
  });

  describe('read only, with payloads hidden', () => {
    beforeAll(() => start(adapter, { readOnly: true, payloads: 'hidden' }));
    afterAll(() => app?.close());

    it('changes and reveals nothing', async () => {
      const id = await die('readonly');
      expect((await ask('/api/meta')).json).toMatchObject({ readOnly: true, can: ['view'] });
      for (const [action, body] of [
        ['reveal', { event: id }],
        ['download', { event: id }],
        ['revive', { ids: [id] }],
      ] as const) {
        expect((await act(action, body)).status).toBe(404);
      }
      expect((await ask(`/api/events/${id}`)).text).not.toContain('canary-4242');
    });
  });

  // The rule is the module's, and not the adapter's.
  if (adapter === 'express')
    describe('with payloads hidden', () => {
      beforeAll(() => start(adapter, { payloads: 'hidden' }));
      afterAll(() => app?.close());

      it('sends nothing on that may not be seen here', async () => {
        const can = (await ask('/api/meta')).json['can'];
        expect(can).toContain('erase');
        expect(can).not.toContain('forward');
        expect(can).not.toContain('reveal');
        expect((await ask('/api/events?q=data.customer:cus_9')).json['events']).toEqual([]);
        const events = [{ source: 'awardee', tenant: '', eventId: 'denied' }];
        const forward = { events, url: 'https://example.com', reason: 'to see' };
        expect((await act('forward', forward)).status).toBe(404);
      });
    });

  describe('with payloads shown', () => {
    beforeAll(() => start(adapter, { payloads: 'shown' }));
    afterAll(() => app?.close());

    it('sends the body with the event', async () => {
      const id = await die('shown');
      expect((await ask(`/api/events/${id}`)).json['body']).toMatchObject({ text: '{"card":"canary-4242"}' });
    });
  });
});
