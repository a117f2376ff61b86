import { readFileSync } from 'node:fs';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { context, metrics, ROOT_CONTEXT, trace, TraceFlags } from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import { Controller, Get, Injectable } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { HealthCheckService, TerminusModule } from '@nestjs/terminus';
import {
  Inbox,
  OnEffect,
  OnWebhook,
  Outbox,
  PermanentError,
  WebhookHealth,
  WebhookLifecycle,
  type BatchEvent,
  type HandlerContext,
  type LifecycleEvents,
  type WebhookEvent,
} from '../../src/index.js';
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { METRICS } from '../../src/core/telemetry/meters.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
import { awardeeSource, clear, startInbox, type TestInbox } from './support/inbox.js';

const spans = new InMemorySpanExporter();
const prometheus = new PrometheusExporter({ preventServerStart: true });
const CANARY = 'canary-5c1f';

@Injectable()
class Handlers {
  @OnWebhook('awardee', 'grant.*', { name: 'grant' })
  async grant({ eventId }: WebhookEvent, { enqueue }: HandlerContext) {
    await enqueue('mail', { eventId, secret: CANARY });
  }

  @OnWebhook('awardee', 'inline', { name: 'inline', inline: true })
  inline() {}

  @OnWebhook('awardee', 'batch', { name: 'batch', batch: 10 })
  async batch(events: readonly BatchEvent[]) {
    for (const event of events) await event.enqueue('mail', {});
  }

  @OnWebhook('awardee', 'fails', { name: 'fails' })
  async fails(_event: WebhookEvent, { manager }: HandlerContext) {
    await manager.query(`SELECT '${CANARY}'::int`);
  }

  @OnEffect('mail')
  mail() {
    return 'sent';
  }

  @OnEffect('parked', { inDoubt: 'park', retry: { maxAttempts: 1 } })
  parked() {
    throw new Error('nobody knows');
  }

  @OnEffect('refused')
  refused() {
    throw new PermanentError('no');
  }
}

@Controller('orders')
class Orders {
  @Get()
  list() {
    return [];
  }
}

let inbox: TestInbox;
const told: [keyof LifecycleEvents, unknown][] = [];

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }),
  );
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [prometheus] }));
  inbox = await startInbox({
    providers: [Handlers],
    imports: [
      TerminusModule,
      WebhooksDashboardModule.forRoot({ path: 'desk', guards: [], allowUnauthenticated: true }),
    ],
    controllers: [Orders],
    webhooks: { sources: { awardee: awardeeSource(), waits: awardeeSource({ retries: 'provider' }) } },
  });
  const lifecycle = inbox.app.get(WebhookLifecycle);
  const names = [
    'claimed',
    'duplicate',
    'rejected',
    'handled',
    'effectDone',
    'dead',
    'parked',
    'replayed',
  ] as const;
  for (const name of names) lifecycle.on(name, (event) => void told.push([name, event]));
  // Listeners that fail cost nothing.
  for (const name of names) {
    lifecycle.on(name, () => {
      throw new Error('a listener');
    });
    lifecycle.on(name, () => Promise.reject(new Error('a listener')));
  }
});
afterAll(async () => {
  await inbox?.stop();
  for (const api of [trace, metrics, context]) api.disable();
});
beforeEach(() => {
  spans.reset();
  told.length = 0;
});
afterEach(() => clear(inbox.database));

const named = (name: string): ReadableSpan => spans.getFinishedSpans().find((span) => span.name === name)!;
const parentOf = (span: ReadableSpan) => span.parentSpanContext?.spanId;
const withRemote = <T>(traceId: string, run: () => Promise<T>) =>
  context.with(
    trace.setSpanContext(ROOT_CONTEXT, {
      traceId,
      spanId: '00f067aa0ba902b7',
      traceFlags: TraceFlags.SAMPLED,
      isRemote: true,
    }),
    run,
  );
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

describe('C spans', () => {
  it('of a delivery, its handler and its effect are one trace, which the rows carry', async () => {
    await withRemote(TRACE, () => inbox.deliver('1'));
    await inbox.settle();
    const [delivery, handler, effect] = ['deliver awardee', 'handler awardee/grant', 'effect mail'].map(
      named,
    );
    expect(new Set([delivery, handler, effect].map((span) => span!.spanContext().traceId))).toEqual(
      new Set([TRACE]),
    );
    expect(parentOf(handler!)).toBe(delivery!.spanContext().spanId);
    expect(parentOf(effect!)).toBe(handler!.spanContext().spanId);
    expect(handler!.attributes).toMatchObject({
      'webhook_inbox.source': 'awardee',
      'webhook_inbox.event_id': '1',
      'webhook_inbox.attempt': 1,
      'webhook_inbox.outcome': 'done',
    });
  });

  it('of an inline handler is within the delivery’s', async () => {
    await withRemote(TRACE, () => inbox.deliver('1', 'inline'));
    expect(parentOf(named('handler awardee/inline'))).toBe(named('deliver awardee').spanContext().spanId);
  });

  it('of a batch is linked to its events, and each effect goes on in its event’s trace', async () => {
    const traces = ['a', 'b'].map((digit) => digit.repeat(32));
    for (const [index, traceId] of traces.entries())
      await withRemote(traceId, () => inbox.deliver(String(index), 'batch'));
    await inbox.settle();
    const batch = named('handler awardee/batch');
    expect(batch.links.map((link) => link.context.traceId).sort()).toEqual(traces);
    const effects = spans.getFinishedSpans().filter(({ name }) => name === 'effect mail');
    expect(effects.map((span) => span.spanContext().traceId).sort()).toEqual(traces);
  });

  it('tell of a failure without its values', async () => {
    await inbox.deliver('1', 'fails', { secret: CANARY });
    await inbox.settle();
    const all = JSON.stringify(
      spans
        .getFinishedSpans()
        .map(({ name, attributes, status, events }) => ({ name, attributes, status, events })),
    );
    expect(named('handler awardee/fails').attributes['webhook_inbox.outcome']).toBe('dead');
    expect(all).not.toContain(CANARY);
    expect(all).not.toContain(AWARDEE_SECRET);
  });

  it('a row without a trace starts one, and a damaged trace is none', async () => {
    await inbox.deliver('1');
    await inbox.query(`UPDATE webhook_outbox SET trace = CASE WHEN kind = 'handler' THEN 'no trace' END`);
    await inbox.settle();
    expect(parentOf(named('handler awardee/grant'))).toBeUndefined();
  });
});

describe('C lifecycle events', () => {
  it('are told after the commit, and a listener that fails costs nothing', async () => {
    await inbox.deliver('1');
    await inbox.deliver('1');
    await inbox.deliver('2', 'inline');
    await inbox.deliver('3', 'fails');
    const { headers, body } = awardee('4', 'grant.made', {});
    await inbox.app
      .get(Inbox)
      .receive('awardee', { headers: { ...headers, 'X-Awardee-Signature': 'f'.repeat(64) }, rawBody: body });
    const { manager } = inbox.dataSource;
    await inbox.app.get(Outbox).enqueue(manager, 'parked', {}, { outsideTransaction: true });
    await inbox.settle();
    const count = (name: string) => told.filter(([one]) => one === name).length;
    expect(
      Object.fromEntries(
        ['claimed', 'duplicate', 'rejected', 'handled', 'effectDone', 'dead', 'parked'].map((name) => [
          name,
          count(name),
        ]),
      ),
    ).toEqual({
      claimed: 3,
      duplicate: 1,
      rejected: 1,
      handled: 2,
      effectDone: 1,
      dead: 1,
      parked: 1,
    });
    expect(told.find(([name]) => name === 'claimed')![1]).toMatchObject({
      source: 'awardee',
      eventId: '1',
      handlers: 1,
    });
    expect(told.find(([name]) => name === 'dead')![1]).toMatchObject({
      name: 'awardee/fails',
      attempt: 1,
      reason: 'permanent-error',
    });
  });
});

describe('C metrics', () => {
  it('are scraped by Prometheus, each under its name, and none holds a value of an event', async () => {
    await inbox.deliver('1', 'grant.made', { secret: CANARY });
    await inbox.deliver('1', 'grant.made', { secret: 'other' });
    await inbox.deliver('2', 'fails');
    await inbox.app.get(Outbox).enqueue(inbox.dataSource.manager, 'parked', {}, { outsideTransaction: true });
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'refused', {}, { outsideTransaction: true });
    await inbox.settle();
    await inbox.app.get(DeskKeeper).round();
    const text = await scraped();
    expect(text).toMatch(
      /webhook_inbox_deliveries_total\{[^}]*source="awardee"[^}]*result="duplicate"[^}]*\} \d/,
    );
    expect(text).toMatch(
      /webhook_inbox_dead_total\{[^}]*name="awardee\/fails"[^}]*reason="permanent-error"[^}]*\} \d/,
    );
    expect(text).toMatch(/webhook_inbox_parked_total\{[^}]*name="parked"/);
    expect(text).toMatch(
      /webhook_inbox_attempts_total\{[^}]*kind="effect"[^}]*name="mail"[^}]*outcome="done"/,
    );
    expect(text).toMatch(/webhook_inbox_backlog_rows\{[^}]*state="dead"[^}]*\} [1-9]/);
    expect(text).not.toContain(CANARY);
    // Nothing is lost on this machine, contradicts, is overdue, or is handed to an engine: these have no value.
    const silent = [
      'webhook_inbox.lease.losses',
      'webhook_inbox.backlog.age',
      'webhook_inbox.conflicts',
      'webhook_inbox.reports',
      'webhook_inbox.handed.age',
      'webhook_inbox.handed.unheard',
    ];
    const missing = Object.keys(METRICS).filter(
      (name) => !silent.includes(name) && !text.includes(`# TYPE ${name.replaceAll('.', '_')}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('C health', () => {
  it('readiness has the shape of Terminus, and thresholds of its own', async () => {
    const health = inbox.app.get(WebhookHealth);
    Object.assign(inbox.app.get(RelayLoop), { silentMs: 0 });
    const terminus = await inbox.app
      .get<HealthCheckService>(HealthCheckService)
      .check([() => health.readiness()]);
    expect(terminus).toMatchObject({
      status: 'ok',
      info: { webhooks: { status: 'up', database: 'up', relay: 'up', dead: 0 } },
    });
    await inbox.deliver('1', 'fails');
    await inbox.settle();
    expect(await health.readiness('inbox', { deadLetters: 1 })).toMatchObject({
      inbox: { status: 'down', dead: 1, message: '1 rows are dead' },
    });
    expect((await health.readiness('inbox', { deadLetters: 2 })).inbox.status).toBe('up');
    await inbox.deliver('2');
    await inbox.query(`UPDATE webhook_outbox SET due_at = now() - interval '1 hour' WHERE state = 'pending'`);
    expect(await health.readiness('inbox', { backlogAge: '5m' })).toMatchObject({
      inbox: { status: 'down' },
    });
    Object.assign(inbox.app.get(RelayLoop), { silentMs: 3_600_000 });
    expect(await health.readiness()).toMatchObject({ webhooks: { status: 'down', relay: 'down' } });
    expect(health.liveness()).toEqual({ webhooks: { status: 'up' } });
  });

  it('readiness tells in its time of a database that is gone, and of connections that are all taken', async () => {
    const health = inbox.app.get(WebhookHealth);
    Object.assign(inbox.app.get(RelayLoop), { silentMs: 0 });
    const check = () =>
      inbox.app
        .get<HealthCheckService>(HealthCheckService)
        .check([() => health.liveness('alive'), () => health.readiness('ready', { timeout: '2s' })]);
    const isDown = {
      status: 503,
      response: {
        status: 'error',
        info: { alive: { status: 'up' } },
        error: {
          ready: {
            status: 'down',
            database: 'down',
            relay: 'up',
            message: expect.stringContaining('the database') as string,
          },
        },
      },
    };
    await inbox.database.whileDown(() => expect(check()).rejects.toMatchObject(isDown));
    expect(await check()).toMatchObject({ status: 'ok', info: { ready: { database: 'up' } } });

    const runners = Array.from({ length: 10 }, () => inbox.dataSource.createQueryRunner());
    await Promise.all(runners.map((runner) => runner.connect()));
    await expect(check()).rejects.toMatchObject(isDown);
    await Promise.all(runners.map((runner) => runner.release()));
    expect(await check()).toMatchObject({ status: 'ok' });
  });

  it.each<[object, RegExp]>([
    [{ backlogAge: '5 minuts' }, /readiness\.backlogAge: expected milliseconds .* received '5 minuts'/],
    [{ relaySilence: 'soon' }, /readiness\.relaySilence/],
    [{ timeout: -1 }, /readiness\.timeout/],
    [{ deadLetters: '1' }, /readiness\.deadLetters/],
    [{ deadLetter: 1 }, /did you mean 'deadLetters'/],
  ])('readiness refuses %j', async (options, text) => {
    await expect(inbox.app.get(WebhookHealth).readiness('webhooks', options)).rejects.toThrow(text);
  });
});

async function scraped(): Promise<string> {
  return new Promise((resolve, reject) => {
    prometheus.getMetricsRequestHandler(
      {} as never,
      { statusCode: 0, setHeader: () => undefined, end: (text: string) => resolve(text) } as never,
    );
    setTimeout(() => reject(new Error('not scraped')), 10_000).unref();
  });
}

describe('C what the docs name', () => {
  const read = (file: string) => readFileSync(file, 'utf8');
  /** As Prometheus has it, without what it adds. */
  const exported = new Set(
    Object.entries(METRICS).map(([name, { kind, unit }]) => {
      const base = name.replaceAll('.', '_') + (unit === 's' ? '_seconds' : '');
      return kind === 'counter' ? `${base}_total` : base;
    }),
  );

  it.each(['docs/telemetry/dashboard.json', 'docs/telemetry/alerts.yml'])(
    '%s names metrics that there are',
    (file) => {
      const names = new Set(
        read(file)
          .match(/webhook_inbox_\w+/g)!
          .map((name) => name.replace(/_(bucket|sum|count)$/, '')),
      );
      expect([...names].filter((name) => !exported.has(name))).toEqual([]);
      if (file.endsWith('.json')) expect([...exported].filter((name) => !names.has(name))).toEqual([]);
    },
  );

  it('docs/telemetry.md lists each metric with its kind and unit', () => {
    const rows = [
      ...read('docs/telemetry.md').matchAll(/^\| `(webhook_inbox[.\w]+)`\s*\| (\w+)\s*\| (\S+)\s*\|/gm),
    ];
    expect(rows.map(([, name, kind, unit]) => [name, kind, unit])).toEqual(
      Object.entries(METRICS).map(([name, { kind, unit }]) => [name, kind, unit]),
    );
  });
});

describe('A12 the OpenAPI document of the application', () => {
  it('has none of the routes of the module and of the desk', async () => {
    const document = SwaggerModule.createDocument(inbox.app, new DocumentBuilder().build());
    expect(Object.keys(document.paths)).toEqual(['/orders']);
  });
});
