import {
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  Inbox,
  OnEffect,
  OnWebhook,
  StartupReconciler,
  WebhooksModule,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { LeasedWork } from '../../src/outbox/relay/leased-work.js';
import { RequestHeaders } from '../../src/core/request.js';
import type { ResolvedOptions } from '../../src/core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../src/core/tokens.js';
import { DeliveryVerifier } from '../../src/inbox/delivery.verifier.js';
import { DeliveryRuns } from '../../src/inbox/runs/delivery-runs.js';
import { EventDispatcher } from '../../src/inbox/event.dispatcher.js';
import { asana, hmac } from '../../src/sources/index.js';
import { SettleStore } from '../../src/storage/settle.store.js';
import { until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
import {
  awardeeSource,
  clear,
  record,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { cuttingProxy } from './support/proxy.js';

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** As a call does that was given the signal. */
let database: TestDatabase;
let script: Partial<Script>;

beforeAll(async () => {
  database = await createDatabase();
});
beforeEach(() => {
  script = { handle: record };
});
afterEach(() => clear(database));
afterAll(() => database?.drop());

function start(setup: InboxSetup = {}): Promise<TestInbox> {
  return startInbox({ database, loop: true, providers: [scripted(script)], ...setup });
}

describe('the relay starts', () => {
  it('only after the last module’s onApplicationBootstrap: no handler sees a client that is not there yet', async () => {
    const receiver = await start({ loop: false });
    for (let index = 0; index < 5; index += 1) await receiver.deliver(`d-${index}`);
    await receiver.stop();
    let bootstrapped = false;
    const early: boolean[] = [];
    script.handle = () => void early.push(!bootstrapped);
    @Injectable()
    class Slow implements OnApplicationBootstrap {
      async onApplicationBootstrap() {
        await pause(150);
        bootstrapped = true;
      }
    }
    @Module({ providers: [Slow] })
    class Feature {}
    const inbox = await start({ imports: [Feature] });
    await until(() => early.length === 5);
    expect(early).not.toContain(true);
    await inbox.stop();
  });

  it('not at all with relay: false, and what it receives is left to another process', async () => {
    const inbox = await start({ webhooks: { relay: false } });
    expect(await inbox.deliver('d-1')).toMatchObject({ status: 200 });
    await pause(60);
    expect(await inbox.rows()).toMatchObject([{ state: 'pending', attempt: 0 }]);
    await expect(inbox.relay.tick()).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringContaining('Leave `relay` out') as string,
    });
    await inbox.stop();
  });

  it('in a worker without HTTP', async () => {
    const receiver = await start({ loop: false });
    await receiver.deliver('d-1');
    await receiver.stop();
    const Handlers = scripted(script);
    @Module({
      imports: [
        TypeOrmModule.forRoot({ ...options(database.url), retryAttempts: 0 }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } }),
      ],
      providers: [Handlers],
    })
    class Worker {}
    const worker = await NestFactory.createApplicationContext(Worker, { logger: false });
    await until(async () => (await database.query(`SELECT FROM received_event`)).length === 1);
    await worker.close();
  });
});

describe('boot', () => {
  it.each([true, false])(
    'warns where answers wait for longer than the provider does: inline %s',
    async (inline) => {
      const warnings: string[] = [];
      const quiet = () => undefined;
      const providers = [scripted({}, { handler: { inline }, sources: ['asana'] })];
      const inbox = await startInbox({
        providers,
        webhooks: { sources: { asana: asana({ secrets: ['a-secret-of-some-length'], ackTimeout: '20s' }) } },
        configure: (app) =>
          app.useLogger({
            log: quiet,
            error: quiet,
            warn: (text: unknown) => void warnings.push(String(text)),
          }),
      });
      await inbox.stop();
      const told = warnings.filter((text) => text.includes('gives up after'));
      expect(told).toHaveLength(inline ? 1 : 0);
    },
  );
});

describe('shutdown', () => {
  let lines: string[];
  const keep = (line: unknown) => void lines.push(String(line));
  const configure: InboxSetup['configure'] = (app) => app.useLogger({ log: keep, warn: keep, error: keep });
  const told = (beginning: string) => lines.filter((line) => line.startsWith(beginning));
  beforeEach(() => {
    lines = [];
  });

  it('under load, with a feature module that closes its client in onModuleDestroy: nothing is lost, and nobody sees it closed', async () => {
    const seen = { closed: 0, handled: 0, effects: 0 };
    class Client {
      closed = false;
      async use() {
        await pause(15);
        if (this.closed) seen.closed += 1;
      }
    }
    @Injectable()
    class ClosingClient extends Client implements OnModuleDestroy {
      onModuleDestroy() {
        this.closed = true;
      }
    }
    @Injectable()
    class Feature {
      constructor(@Inject(ClosingClient) private readonly client: Client) {}

      @OnWebhook('awardee', '*')
      async handle(event: WebhookEvent, context: HandlerContext) {
        await record(event, context);
        await this.client.use();
        await context.enqueue('mail', {});
        seen.handled += 1;
      }

      @OnEffect('mail')
      async mail(_: unknown, { key }: EffectContext) {
        await this.client.use();
        sent.push(key);
        seen.effects += 1;
      }
    }
    @Module({ providers: [ClosingClient, Feature] })
    class FeatureModule {}
    const sent: string[] = [];
    const setup: InboxSetup = { loop: true, providers: [], imports: [FeatureModule] };

    const inbox = await start(setup);
    const acknowledged = new Set<string>();
    const load = { stopped: false };
    const delivering = (async () => {
      for (let index = 0; !load.stopped; index += 1) {
        const { status } = await inbox.deliver(`d-${index}`);
        if (status === 200) acknowledged.add(`d-${index}`);
      }
    })();
    await until(() => seen.effects > 20);
    const before = { ...seen };
    const closed = inbox.stop();
    await pause(5);
    load.stopped = true;
    await delivering;
    await closed;
    expect(before.handled).toBeLessThan(acknowledged.size);
    expect(seen.closed).toBe(0);
    // None is left in the hands of the process that is gone.
    expect(await database.query(`SELECT FROM webhook_outbox WHERE leased_by IS NOT NULL`)).toEqual([]);

    const next = await start(setup);
    await until(async () => (await next.rows(`state <> 'done'`)).length === 0);
    expect(await database.query(`SELECT count(*)::int, max(applied_count) FROM received_event`)).toEqual([
      { count: acknowledged.size, max: 1 },
    ]);
    expect(new Set(sent).size).toBe(acknowledged.size);
    expect(seen.closed).toBe(0);
    await next.stop();
  });

  it('waits for what runs, and takes nothing new meanwhile', async () => {
    const latch = new Latch();
    script.handle = async (event, context) => {
      await record(event, context);
      await latch.wait();
    };
    const inbox = await start({ configure, webhooks: { relay: { handlers: 1 } } });
    await inbox.deliver('d-1');
    await until(() => latch.arrived === 1);
    await inbox.deliver('d-2');
    let ended = false;
    const closed = inbox.app.close().then(() => (ended = true));
    await pause(60);
    expect(ended).toBe(false);
    latch.open();
    await closed;
    expect(told('draining')).toEqual([
      'draining: running work has up to 10 s jobs=1 deliveries=0 graceMs=10000',
    ]);
    expect(await database.query(`SELECT event_id, state, attempt FROM webhook_outbox ORDER BY 1`)).toEqual([
      { event_id: 'd-1', state: 'done', attempt: 1 },
      { event_id: 'd-2', state: 'pending', attempt: 0 },
    ]);
  });

  it('ends within the grace: what still runs is given back, has lost no attempt, and leaves no row', async () => {
    let aborted = false;
    script.handle = async (event, context) => {
      await record(event, context);
      context.signal.addEventListener('abort', () => (aborted = true));
      await new Promise(() => undefined);
    };
    const inbox = await start({
      configure,
      providers: [scripted(script, { handler: { retry: { maxAttempts: 1 } } })],
      webhooks: { relay: { shutdownGrace: '100ms' } },
    });
    await inbox.deliver('d-1');
    await until(() => inbox.work.running === 1);
    // The handler never ends: a shutdown that waited for it would not either.
    await inbox.app.close();
    expect(aborted).toBe(true);
    expect(told('aborted at shutdown; another process will run it again ')).toHaveLength(1);
    expect(told('attempt failed')).toEqual([]);
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    expect(
      await database.query(`SELECT state, leased_by, attempt, attempt_base FROM webhook_outbox`),
    ).toEqual([{ state: 'pending', leased_by: null, attempt: 1, attempt_base: 1 }]);
    script.handle = record;
    const next = await start({ providers: [scripted(script, { handler: { retry: { maxAttempts: 1 } } })] });
    await until(async () => (await next.rows())[0]?.state === 'done');
    await next.stop();
  });

  it.each<[string, 'handle' | 'effect', boolean]>([
    ['a handler that fails by the signal', 'handle', false],
    ['a batch', 'handle', true],
    ['an effect that fails by the signal', 'effect', false],
  ])('says once of %s that it was aborted, and nothing of a failure', async (_, what, batch) => {
    let begun = false;
    script.handle = (_event, { enqueue }) => enqueue('mail', {});
    script[what] = (_given: unknown, { signal }: { readonly signal: AbortSignal }) => {
      begun = true;
      return new Promise<never>((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('the call was aborted'))),
      );
    };
    const inbox = await start({
      configure,
      providers: [scripted(script, { handler: batch ? { batch: 5 } : {} })],
      webhooks: { relay: { shutdownGrace: '100ms' } },
    });
    await inbox.deliver('d-1');
    await until(() => begun);
    await inbox.app.close();
    expect(told('aborted at shutdown')).toHaveLength(1);
    expect(told('attempt failed')).toEqual([]);
    expect(await database.query(`SELECT FROM webhook_outbox WHERE error IS NOT NULL`)).toEqual([]);
  });

  it('that has nothing to wait for says nothing', async () => {
    const inbox = await start({ configure });
    await inbox.app.close();
    expect(told('draining')).toEqual([]);
  });

  it('ends within the grace when the database does not answer any more', async () => {
    const proxy = await cuttingProxy(database.url);
    script.handle = () => new Promise(() => undefined);
    const inbox = await start({
      databaseUrl: proxy.url,
      webhooks: { relay: { shutdownGrace: '200ms', pollInterval: '20ms' } },
    });
    await inbox.deliver('d-1');
    await until(() => inbox.work.running === 1);
    proxy.freeze();
    await pause(60);
    const closed = inbox.app.close();
    await inbox.work.finish(0);
    // TypeORM waits for its pool, until the half-open sockets end.
    await proxy.close();
    await closed;
  });

  it('inline and waiting deliveries that are under way end before a feature module’s client is closed', async () => {
    const latch = new Latch();
    let closed = false;
    let sawClosed: boolean | undefined;
    @Injectable()
    class Closing implements OnModuleDestroy {
      onModuleDestroy() {
        closed = true;
      }
    }
    script.handle = async () => {
      await latch.wait();
      sawClosed = closed;
    };
    const inbox = await start({
      configure,
      providers: [scripted(script), Closing],
      webhooks: { sources: { awardee: awardeeSource({ retries: 'provider' }) } },
    });
    const answer = inbox.deliver('d-1');
    await until(() => latch.arrived === 1);
    const stopped = inbox.app.close();
    await pause(30);
    latch.open();
    await stopped;
    expect(told('draining')).toEqual(['draining: deliveries wait for handlers jobs=0 deliveries=1']);
    expect(await answer).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(sawClosed).toBe(false);
  });

  it('begins no further event of a delivery to a route', async () => {
    const inbox = await start({
      webhooks: {
        sources: {
          several: hmac({
            secrets: [AWARDEE_SECRET],
            signatureHeader: 'X-Awardee-Signature',
            eventsPath: 'events',
            idPath: 'id',
            typePath: 'type',
          }),
        },
      },
      providers: [],
    });
    const dispatcher = inbox.app.get(EventDispatcher);
    const { headers, body: rawBody } = awardee('', '', {
      events: ['1', '2'].map((id) => ({ id, type: 'a' })),
    });
    const request = { method: 'POST', url: '/', headers: RequestHeaders.from(headers), rawBody };
    const source = inbox.app.get<ResolvedOptions>(WEBHOOKS_OPTIONS).sources.get('several')!;
    const verified = await inbox.app.get(DeliveryVerifier).verify(source, request);
    const ran: string[] = [];
    const verdict = await dispatcher.dispatchRoute(
      (verified as Extract<typeof verified, { kind: 'delivery' }>).delivery,
      'several/route',
      ({ eventId }) => {
        ran.push(eventId);
        inbox.app.get(DeliveryRuns).startDraining();
      },
    );
    await inbox.stop();
    expect([ran, verdict.kind]).toEqual([['1'], 'unavailable']);
  });

  it('waits for each handler of a delivery, also when the end of another could not be recorded', async () => {
    const latch = new Latch();
    script.handle = () => latch.wait();
    const failing: Partial<Script> = {
      handle: () => {
        throw new Error('no');
      },
    };
    const inbox = await start({
      providers: [scripted(script), scripted(failing, { handler: { name: 'failing' }, effect: false })],
      webhooks: { sources: { awardee: awardeeSource({ retries: 'provider' }) } },
    });
    let unrecorded = 0;
    inbox.app.get(SettleStore).fail = async () => {
      unrecorded += 1;
      throw new Error('no database');
    };
    const answer = inbox.deliver('d-1');
    await until(() => latch.arrived === 1 && unrecorded === 1);
    let over = false;
    const finished = inbox.app
      .get(DeliveryRuns)
      .finish(Promise.resolve())
      .then(() => (over = true));
    await pause(50);
    const wasOver = over;
    latch.open();
    await finished;
    expect(await answer).toMatchObject({ status: 503 });
    await inbox.stop();
    expect(wasOver).toBe(false);
  });

  it('leaves no timer and no cron behind', async () => {
    const inbox = await start({
      webhooks: { retention: {}, reconcile: true, relay: { pollInterval: '20ms' } },
    });
    const registry = inbox.app.get(SchedulerRegistry);
    await until(() => registry.getTimeouts().includes('webhook-inbox:relay'));
    expect(registry.getTimeouts()).toContain('webhook-inbox:reconcile-again');
    const again: NodeJS.Timeout = registry.getTimeout('webhook-inbox:reconcile-again');
    expect(again.hasRef()).toBe(false);
    expect([...registry.getCronJobs().keys()]).toContain('webhook-inbox:retention');
    await inbox.stop();
    expect(registry.getTimeouts()).toEqual([]);
    expect([...registry.getCronJobs().keys()]).toEqual([]);
  });

  it('is safe twice, at once, and of an application that was never started', async () => {
    const inbox = await start();
    await Promise.all([inbox.app.close(), inbox.app.close()]);
    await inbox.app.close();

    const { Test } = await import('@nestjs/testing');
    const moduleRef = await Test.createTestingModule({
      imports: [
        TypeOrmModule.forRoot({ ...options(database.url), retryAttempts: 0 }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } }),
      ],
    }).compile();
    moduleRef.useLogger({ log: keep, warn: keep, error: keep });
    // There are no counts to write down, so a table that is not there is not missed.
    await database.query('ALTER TABLE webhook_relay RENAME TO webhook_relay_away');
    await moduleRef.close();
    await database.query('ALTER TABLE webhook_relay_away RENAME TO webhook_relay');
    expect(told('counts could not be written down')).toEqual([]);
  });
});

describe('a boot without a database', () => {
  it('succeeds where TypeOrmModule lets it; deliveries are answered 503 until there is one, and then all is well', async () => {
    const { DataSource } = await import('typeorm');
    const Handlers = scripted(script);
    @Module({
      imports: [
        TypeOrmModule.forRoot({ ...options(database.url), manualInitialization: true }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({
          sources: { awardee: awardeeSource() },
          relay: { pollInterval: '30ms' },
        }),
      ],
      providers: [Handlers],
    })
    class Application {}
    const app = await NestFactory.createApplicationContext(Application, { logger: false });
    try {
      const { headers, body: rawBody } = awardee('d-1', 'grant.made', {});
      const receive = () => app.get(Inbox).receive('awardee', { headers, rawBody });
      expect(await receive()).toMatchObject({ status: 503, headers: { 'retry-after': expect.any(String) } });
      await pause(60);
      await app.get(DataSource).initialize();
      expect(await receive()).toMatchObject({ status: 200, body: { status: 'ok' } });
      await until(async () => (await database.query(`SELECT FROM received_event`)).length === 1);
      expect(app.get(LeasedWork).running).toBe(0);
      expect(await app.get(StartupReconciler).reconcile()).toMatchObject({ ran: true });
    } finally {
      await app.close();
    }
  });
});
