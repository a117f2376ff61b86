import { Controller, Injectable, Post, VersioningType, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Event, OnWebhook, UseWebhook, WebhooksModule } from '../../src/index.js';
import { ADAPTERS, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { hostModule, startHost, type Host } from '../support/host.js';
import { send } from '../support/http.js';
import { answered, DUPLICATE, OK, UNKNOWN_SOURCE } from '../support/receiver.js';
import { awardee } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';

@Controller({ path: 'billing', version: '2' })
class Billing {
  static readonly ran: string[] = [];

  @Post('hook')
  @UseWebhook('routed')
  hook(@Event('eventId') id: string) {
    Billing.ran.push(id);
  }
}

@Injectable()
class Grants {
  @OnWebhook('awardee', 'grant.made')
  async made() {}

  @OnWebhook('awardee', '*', { name: 'every' })
  async every() {}
}

@Controller('both')
class Both {
  @Post('hook')
  @UseWebhook('awardee')
  hook() {}

  @OnWebhook('awardee', '*')
  async handle() {}
}

@Controller('webhooks')
class Clashing {
  @Post('routed')
  @UseWebhook('routed')
  hook() {}
}

it('an application context serves nothing: it says what runs, and nothing of URLs', async () => {
  const database = await createDatabase();
  const lines: string[] = [];
  const keep = (line: unknown) => void lines.push(String(line));
  const webhooks = WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } });
  const context = await NestFactory.createApplicationContext(
    hostModule({ databaseUrl: database.url, webhooks, providers: [Grants] }),
    {
      logger: { log: keep, warn: keep, error: keep },
    },
  );
  await until(() => lines.some((line) => line.startsWith('reconciled')));
  await context.close();
  await database.drop();
  expect(lines.filter((line) => line.startsWith('source '))).toEqual([
    "source 'awardee' runs Grants.made (grant.made), every (*)",
  ]);
});

describe.each(ADAPTERS)('where deliveries are to be sent, on %s', (adapter) => {
  let database: TestDatabase;
  let lines: string[];
  let warnings: string[];
  let app: INestApplication | undefined;
  beforeAll(async () => {
    database = await createDatabase();
  });
  beforeEach(() => {
    lines = [];
    warnings = [];
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });
  afterAll(() => database?.drop());

  const sources = { awardee: awardeeSource(), routed: awardeeSource() };
  const start = async (
    host: Partial<Host> = {},
    configure: (application: INestApplication) => void = () => undefined,
    webhooks = WebhooksModule.forRoot({ sources }),
  ) => {
    const keep = (line: unknown) => void lines.push(String(line));
    const started = await startHost(
      adapter,
      { databaseUrl: database.url, webhooks, ...host },
      {
        configure: (application) => {
          const warn = (line: unknown) => {
            warnings.push(String(line));
            keep(line);
          };
          application.useLogger({ log: keep, warn, error: keep });
          configure(application);
        },
      },
    );
    ({ app } = started);
    return started;
  };
  const told = (text: string) => lines.filter((line) => line.includes(text));

  it('boot says it for each source, with prefix and version', async () => {
    const host = { controllers: [Billing], providers: [Grants] };
    const { origin } = await start(host, (application) => {
      application.setGlobalPrefix('api');
      application.enableVersioning({ type: VersioningType.URI });
    });
    expect(told('is served at')).toEqual([
      "source 'awardee' is served at https://<your host>/api/webhooks/awardee; runs Grants.made (grant.made), every (*)",
      "source 'routed' is served at https://<your host>/api/v2/billing/hook; runs Billing.hook (@UseWebhook)",
    ]);
    expect(warnings).toEqual([]);
    for (const [path, id] of [
      ['/api/webhooks/awardee', 'd-1'],
      ['/api/v2/billing/hook', 'd-2'],
    ] as const)
      expect(answered(await send(origin, { path, ...awardee(id, 't', '{}') }))).toBe(OK);
    expect(told('no handler takes it')).toEqual([]);
  });

  it('boot warns of a source that is served and has nothing to take its events', async () => {
    await start({ controllers: [Billing] });
    expect(warnings).toEqual([
      "source 'awardee' is served at https://<your host>/webhooks/awardee; it has no handler: each event is kept as skipped. " +
        "Expected a class with @OnWebhook('awardee', …) among the providers of a module, in each process that receives: the " +
        'receiver makes the rows of an event',
    ]);
  });

  it('boot cuts a long list of handlers, and of their types', async () => {
    class Many {}
    for (let n = 1; n <= 22; n += 1) {
      const method = `on${n}`;
      const descriptor = { value: () => undefined, configurable: true };
      OnWebhook('awardee', n === 1 ? ['a', 'b', 'c', 'd', 'e', 'f', 'g'] : 'a')(
        Many.prototype,
        method,
        descriptor,
      );
      Object.defineProperty(Many.prototype, method, descriptor);
    }
    await start({ providers: [Many] });
    expect(told("source 'awardee'")).toEqual([
      expect.stringMatching(
        /; runs Many\.on1 \(a, b, c, d, e and 2 more\), Many\.on2 \(a\), .*, Many\.on10 \(a\) and 12 more$/,
      ),
    ]);
  });

  it('boot says so when there is no URL at all', async () => {
    const webhooks = WebhooksModule.forRoot({ sources, controller: false });
    await start({}, undefined, webhooks);
    expect(told('is served at no URL: it is for Inbox.receive(…)')).toHaveLength(2);
    expect(told('it has no handler')).toHaveLength(2);
    expect(warnings).toEqual([]);
  });

  it('a delivery to the module’s own path, of what only a route takes, is warned of, with the right URL', async () => {
    const { origin } = await start({ controllers: [Billing] });
    const deliver = async (source: string, id: string) =>
      answered(await send(origin, { path: `/webhooks/${source}`, ...awardee(id, 't', '{}') }));
    for (const id of ['a-1', 'a-2']) {
      expect(await deliver('routed', id)).toBe(OK);
      expect(await deliver('awardee', id)).toBe(OK);
    }
    expect(told('no handler takes it')).toEqual([
      "source 'routed' was sent an event at /webhooks/routed, where no handler takes it: it is kept as skipped until it is sent to " +
        'the route with @UseWebhook, at https://<your host>/billing/hook: set that URL at the provider',
    ]);
  });

  it('what came to the wrong path first is run when it is sent to the route, once', async () => {
    const { origin } = await start({ controllers: [Billing] });
    const deliver = async (path: string, id: string) =>
      answered(await send(origin, { path, ...awardee(id, 't', '{}') }));
    Billing.ran.length = 0;
    expect(await deliver('/webhooks/routed', 'astray')).toBe(OK);
    expect(Billing.ran).toEqual([]);
    expect(await deliver('/billing/hook', 'astray')).toBe(OK);
    expect(await deliver('/billing/hook', 'astray')).toBe(DUPLICATE);
    expect(await deliver('/webhooks/routed', 'astray')).toBe(DUPLICATE);
    expect(Billing.ran).toEqual(['astray']);
    const events = await database.query(`SELECT state, owed FROM webhook_event WHERE event_id = 'astray'`);
    expect(events).toEqual([{ state: 'processed', owed: 0 }]);
  });

  it.each([
    ['near a configured one', 'Awarde', "'Awarde' is configured; did you mean 'awardee'?"],
    ['like none', 'billing', "'billing' is configured; known: awardee, routed"],
    [
      'with control characters',
      '%0A%1Bawardeeeee',
      "'\\u000a\\u001bawardeeeee' is configured; known: awardee, routed",
    ],
  ])('a delivery to a source %s is logged with what may be meant', async (_, name, text) => {
    const { origin } = await start();
    const reply = await send(origin, { path: `/webhooks/${name}`, ...awardee('d-1', 't', '{}') });
    expect(answered(reply)).toBe(UNKNOWN_SOURCE);
    expect(told('rejected: ')).toEqual([`rejected: no source ${text} reason=unknown-source`]);
  });

  it('a source with both handlers and a route is warned of at boot', async () => {
    await start({ controllers: [Both] });
    expect(
      told("source 'awardee' has handlers and a route with @UseWebhook: an event at /webhooks/awardee runs"),
    ).toHaveLength(1);
  });

  it('a route at a path of the module’s own is warned of', async () => {
    await start({ controllers: [Clashing] });
    expect(
      told("source 'routed' has a route with @UseWebhook at /webhooks/routed, which the module's own"),
    ).toHaveLength(1);
  });
});
