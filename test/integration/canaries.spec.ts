import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable, type INestApplication } from '@nestjs/common';
import { metrics, trace } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { EntityNotFoundError } from 'typeorm';
import { commands } from '../../src/cli/commands/index.js';
import { Output } from '../../src/cli/terminal/output.js';
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { httpEffect } from '../../src/effects/index.js';
import {
  Inbox,
  Inspector,
  OnEffect,
  OnWebhook,
  Operator,
  WebhookLifecycle,
  type Alert,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { createApplication, listen, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { deskSources } from '../support/desk.js';
import { awardee } from '../support/signing.js';

type Card = { readonly card: string };
type Call = Card & { readonly url: string; readonly status: string };
const ANYWHERE = { http: true, privateAddresses: true };
type Query = (sql: string, values?: unknown[]) => Promise<unknown>;

/** Ways in which the database, a driver or a parser repeats what it was given. */
const ECHOES: Readonly<Record<string, (query: Query, card: string) => Promise<unknown>>> = {
  'text for a number': (query, card) => query('SELECT $1::text::int', [card]),
  'text with quotes for a number': (query, card) => query('SELECT $1::text::int', [`a"${card}"b"`]),
  'text for a date': (query, card) => query('SELECT $1::text::timestamptz', [card]),
  'text for JSON': (query, card) => query('SELECT $1::text::jsonb', [`{"a": ${card}`]),
  'a unique key': async (query, card) => {
    await query('INSERT INTO canary_card VALUES ($1)', [card]);
    await query('INSERT INTO canary_card VALUES ($1)', [card]);
  },
  'a check': (query, card) => query('INSERT INTO canary_card VALUES ($1, -1)', [card]),
  'a value in the statement': (query, card) =>
    query(`SELECT 1 FROM nowhere WHERE a = '${card}' ${card} ${card}`),
  'a trigger': (query, card) => query('SELECT canary_raise($1)', [card]),
  'a trigger with a code of its own': (query, card) => query(`SELECT canary_raise($1, '40001')`, [card]),
  'a wrapped error': async (query, card) => {
    try {
      await query('SELECT $1::text::int', [card]);
    } catch (error) {
      throw new Error(`could not save: ${(error as Error).message}`, { cause: error });
    }
  },
  'an entity that is not there': async (_query, card) => {
    throw new EntityNotFoundError('Card', { card });
  },
  'a parser': async (_query, card) => JSON.parse(`${card} is no JSON`),
};

@Injectable()
class Echoing {
  @OnWebhook('awardee', 'echo', { retry: { maxAttempts: 1 } })
  async echo(event: WebhookEvent<Card & { how: string }>, { manager }: HandlerContext) {
    await ECHOES[event.payload.how]!((sql, values) => manager.query(sql, values), event.payload.card);
  }

  @OnWebhook('awardee', 'effect')
  async later(event: WebhookEvent<Card>, { enqueue }: HandlerContext) {
    await enqueue('echo', event.payload);
  }

  @OnWebhook('awardee', 'call')
  async calling(event: WebhookEvent<Call>, { enqueue }: HandlerContext) {
    await enqueue('call', event.payload, { key: event.eventId });
  }

  /** Everything of the request is secret but its host, and its answer repeats it. */
  @OnEffect('call', { retry: { maxAttempts: 1 } })
  call({ card, url, status }: Call, context: EffectContext) {
    const headers = { authorization: `Bearer ${card}`, 'x-status': status };
    return httpEffect({ url: `${url}/${card}?t=${card}`, headers, json: { card }, allow: ANYWHERE }, context);
  }

  @OnEffect('echo', { retry: { maxAttempts: 1 } })
  async effect({ card }: Card, { complete }: EffectContext) {
    await complete(({ manager }) => manager.query('SELECT $1::text::int', [card]));
  }
}

describe('what a payload holds', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let origin: string;
  let sink: string;
  const told: string[] = [];
  const alerts: Alert[] = [];
  const lifecycle: unknown[] = [];
  const tell = (line: unknown) => void told.push(String(line), JSON.stringify(line));
  const spans = new InMemorySpanExporter();
  const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 });
  const server = createServer((request, response) => {
    const { 'x-status': status = '500', authorization = '' } = request.headers;
    const headers = { location: `http://127.0.0.1/${authorization}`, 'x-echo': authorization };
    response.writeHead(Number(status), authorization, headers).end(authorization);
  });

  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    sink = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    trace.setGlobalTracerProvider(
      new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }),
    );
    metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
    database = await createDatabase();
    await database.query('CREATE TABLE canary_card (card text PRIMARY KEY, amount int CHECK (amount > 0))');
    await database.query(
      `CREATE FUNCTION canary_raise(card text, code text DEFAULT 'P0001') RETURNS void LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'no such card % ', card USING ERRCODE = code, DETAIL = card, HINT = card; END $$`,
    );
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources, onAlert: (alert) => void alerts.push(alert) },
      providers: [Echoing],
      imports: [WebhooksDashboardModule.forRoot({ path: 'desk', allowUnauthenticated: true })],
      configure: (one) => one.useLogger({ log: tell, warn: tell, error: tell, debug: tell, verbose: tell }),
    });
    origin = await listen(app);
    for (const name of ['claimed', 'rejected', 'handled', 'effectDone', 'dead'] as const)
      app.get(WebhookLifecycle).on(name, (event) => void lifecycle.push(event));
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
    await reader.shutdown();
    for (const api of [trace, metrics]) api.disable();
    server.close();
  });

  it('stands in body, headers and payload alone, whatever repeats it', async () => {
    const hows = Object.keys(ECHOES);
    const calls = ['500', '302', '404', 'none'];
    const canaries = [...hows, ...calls, 'effect', 'forged'].map((_, n) => `canary${n}x4242`);
    const send = async (id: string, type: string, payload: object, card: string, forged = false) => {
      const { headers, body } = awardee(id, type, payload);
      const signature = forged ? { 'X-Awardee-Signature': `sha256=${card}` } : {};
      const secret = {
        authorization: `Bearer ${card}`,
        cookie: card,
        'x-other': card,
        ...(forged ? { 'content-encoding': card, 'content-type': `text/plain; charset=${card}` } : {}),
      };
      await app
        .get(Inbox)
        .receive('awardee', { headers: { ...headers, ...secret, ...signature }, rawBody: body });
    };
    for (const [n, how] of hows.entries())
      await send(`e${n}`, 'echo', { how, card: canaries[n] }, canaries[n]!);
    for (const [n, status] of calls.entries()) {
      const card = canaries[hows.length + n]!;
      const url = status === 'none' ? 'http://127.0.0.1:1' : sink;
      await send(`c${n}`, 'call', { card, url, status: status === 'none' ? '500' : status }, card);
    }
    await send('effect', 'effect', { card: canaries.at(-2) }, canaries.at(-2)!);
    await send('forged', 'effect', { card: canaries.at(-1) }, canaries.at(-1)!, true);
    await until(async () => {
      const [row] = await database.query<{ dead: number }>(
        `SELECT count(*)::int AS dead FROM webhook_outbox WHERE state = 'dead'`,
      );
      return row!.dead === hows.length + calls.length + 1;
    });
    await app.get(DeskKeeper).round();
    const events = ['e0', 'effect'].map((eventId) => ({ source: 'awardee', tenant: '', eventId }));
    const forwards = await Promise.all(
      [`${sink}/?t=${canaries[0]}`, `http://127.0.0.1:1/?t=${canaries[0]}`].map((url) =>
        app.get(Operator).forward(events, url, ANYWHERE, { by: 'ada', reason: 'test' }),
      ),
    );

    const stored = await everythingStored(database);
    expect(stored).toContain('SQLSTATE 22P02');
    expect(stored).toContain('answered 500');
    expect(forwards.map(({ failed }) => failed.length)).toEqual([2, 2]);
    await reader.forceFlush();
    const leaks = {
      log: told.join('\n'),
      alerts: JSON.stringify(alerts),
      lifecycle: JSON.stringify(lifecycle),
      stored,
      spans: JSON.stringify(
        spans
          .getFinishedSpans()
          .map(({ name, attributes, events: inside, status }) => [name, attributes, inside, status]),
      ),
      metrics: JSON.stringify(measured.getMetrics().map(({ scopeMetrics }) => scopeMetrics)),
      forwards: JSON.stringify(forwards),
      desk: await everythingShown(origin),
      commands: await everythingPrinted(app),
    };
    expect(alerts.length).toBeGreaterThanOrEqual(hows.length);
    for (const [where, text] of Object.entries(leaks)) {
      expect([where, canaries.filter((canary) => text.includes(canary))]).toEqual([where, []]);
      expect([where, text.includes('awardee')]).toEqual([where, true]);
    }
  });
});

/** What the desk's page gets, but for the fields that hold content. */
async function everythingShown(origin: string): Promise<string> {
  const get = async (path: string) => {
    const response = await fetch(`${origin}/desk/api/${path}`);
    expect([path, response.status]).toEqual([path, 200]);
    return response.json() as Promise<{ events?: { id: string }[]; groups?: { fingerprint: string }[] }>;
  };
  const lists = ['events', 'effects', 'dead', 'rejections', 'audit', 'sources', 'paused'];
  const pages = await Promise.all(lists.map(get));
  const [events, , dead] = pages;
  const details = [
    ...events!.events!.map(({ id }) => `events/${id}`),
    ...dead!.groups!.map(({ fingerprint }) => `dead/${fingerprint}`),
  ];
  const isContent = new Set(['headers', 'body', 'payload']);
  return JSON.stringify([...pages, ...(await Promise.all(details.map(get)))], (key, value: unknown) =>
    isContent.has(key) ? undefined : value,
  );
}

/** What the command line prints for people. */
async function everythingPrinted(app: INestApplication): Promise<string> {
  const texts: string[] = [];
  const print = (text: string) => void texts.push(text);
  const out = new Output({ out: print, error: print, columns: undefined }, false);
  const inspector = app.get(Inspector);
  const session = { hasApp: true, inspector, operator: app.get(Operator) } as never;
  const signal = new AbortController().signal;
  const { events } = await inspector.events('');
  const asked: [string, object, ...unknown[]][] = [
    ['events', { limit: 100 }, []],
    ['dead', {}, []],
    ...events.map(({ id }): [string, object, string] => ['show', {}, id]),
  ];
  for (const [name, options, ...args] of asked) {
    const command = commands.find(({ usage }) => usage.split(' ')[0] === name)!;
    if (command.needs !== 'nothing')
      await command.run({ session, out, signal }, options, ...(args as never[]));
  }
  return texts.join('');
}

/** Every row of our tables, but for the columns that hold content. */
async function everythingStored(database: TestDatabase): Promise<string> {
  const tables = await database.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND c.relname LIKE 'webhook%'`,
  );
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await database.query<{ row: string }>(
        `SELECT (to_jsonb(t) - ARRAY['body', 'headers', 'payload', 'bytes'])::text AS row FROM "${name}" t`,
      );
      return rows.map(({ row }) => row).join('\n');
    }),
  );
  return texts.join('\n');
}
