import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { ADAPTERS, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { answered, DUPLICATE, OK, UNAUTHORIZED } from '../support/receiver.js';
import { send } from '../support/http.js';
import { awardee } from '../support/signing.js';
import type { Report } from './support/whole.main.js';

interface Told extends Report {
  readonly spans: readonly {
    readonly name: string;
    readonly scope: string;
    readonly traceId: string;
    readonly attributes: Readonly<Record<string, unknown>>;
  }[];
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PATH = '/api/webhooks/awardee';
const ROUTE = '/api/v1/billing/invoices';

/**
 * Guards, pipes, interceptors, filters, throttler, helmet, compression, cookie parser, CORS, versioning, prefix, nestjs-cls, nestjs-pino,
 * OpenTelemetry with its instrumentation of pg (comments on) and http, typeorm-transactional, Swagger, and a subscriber on every hook.
 */
describe.each(ADAPTERS)('an application with all that applications have, on %s', (adapter) => {
  let database: TestDatabase;
  let child: ChildProcess;
  let origin: string;
  let told: Told;

  /** The child's next message. One that has died sends none. */
  const message = async <T>(): Promise<T> => {
    const died = once(child, 'exit').then(() => Promise.reject(new Error('the application has ended')));
    const [told] = (await Promise.race([once(child, 'message'), died])) as [T];
    died.catch(() => undefined);
    return told;
  };
  const deliver = async (headers: Readonly<Record<string, string>> = {}, id = 'evt-1', path = PATH) => {
    const { headers: signed, body } = awardee(id, 'grant.made', { amount: 7 });
    return answered(await send(origin, { path, headers: { ...signed, ...headers }, body }));
  };

  beforeAll(async () => {
    database = await createDatabase();
    child = fork('test/e2e/support/whole.application.ts', {
      execArgv: ['--import', '@swc-node/register/esm-register'],
      env: { ...process.env, NODE_OPTIONS: '', ADAPTER: adapter, DATABASE_URL: database.url },
    });
    ({ origin } = await message<{ origin: string }>());
    expect(await deliver({ traceparent: `00-${TRACE}-00f067aa0ba902b7-01` })).toBe(OK);
    expect(await deliver({}, 'invoice-1', ROUTE)).toBe(OK);
    await until(async () => {
      const rows = await database.query(
        `SELECT FROM webhook_outbox WHERE kind = 'effect' AND state = 'done'`,
      );
      return rows.length === 1;
    }, 60_000);
    child.send('report');
    told = await message<Told>();
  }, 120_000);
  afterAll(async () => {
    if (child?.connected) {
      const ended = once(child, 'exit');
      child.send('close');
      await ended;
    }
    await database?.drop();
  });

  it('answers past what the application makes of its own answers', async () => {
    expect(await deliver()).toBe(DUPLICATE);
    expect(await deliver({ 'x-awardee-signature': '0'.repeat(64) }, 'evt-2')).toBe(UNAUTHORIZED);
    const own = await fetch(`${origin}/api/v1/orders`, { headers: { origin: 'https://desk.example' } });
    expect([own.status, await own.json()]).toEqual([200, { data: [] }]);
    expect(own.headers.get('x-content-type-options')).toBe('nosniff');
    expect(own.headers.get('access-control-allow-origin')).toBe('https://desk.example');
  });

  it('handles the event once, in one transaction with what @Transactional() writes', async () => {
    expect(told.runs).toEqual([
      { kind: 'handler', attempt: 1, event: 'evt-1', cls: 'evt-1' },
      { kind: 'handler', attempt: 2, event: 'evt-1', cls: 'evt-1' },
      { kind: 'effect', attempt: 1, event: 'evt-1', cls: 'evt-1' },
    ]);
    expect(await database.query(`SELECT event_id, applied_count FROM received_event`)).toEqual([
      { event_id: 'evt-1', applied_count: 1 },
    ]);
    expect(await database.query(`SELECT event_id, state FROM webhook_event ORDER BY received_at`)).toEqual([
      { event_id: 'evt-1', state: 'processed' },
      { event_id: 'invoice-1', state: 'processed' },
    ]);
  });

  it('tells the subscriber of the transactions of claim and handler', () => {
    for (const hook of [
      'beforeTransactionStart',
      'afterTransactionStart',
      'beforeTransactionCommit',
      'afterTransactionCommit',
    ])
      expect(told.hooks.filter((one) => one === hook).length).toBeGreaterThanOrEqual(2);
    // Of the handler's first attempt.
    expect(told.hooks).toContain('afterTransactionRollback');
  });

  it('is one trace from the request over the queries to the effect, with the request’s route', () => {
    const spans = told.spans.filter(({ traceId }) => traceId === TRACE);
    const names = spans.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['deliver awardee']));
    const request = spans.find(({ attributes }) => attributes['http.route'] !== undefined);
    expect(request?.attributes['http.route']).toBe('/api/webhooks/:source');
    expect(told.spans.map(({ attributes }) => attributes['http.route'])).toContain(ROUTE);
    expect(spans.filter(({ scope }) => scope.includes('instrumentation-pg')).length).toBeGreaterThan(0);
    expect(spans.filter(({ name }) => /awardee\/grant|mail/.test(name)).length).toBeGreaterThanOrEqual(3);
  });

  it('has the facts of each line as fields of nestjs-pino', async () => {
    const rows = await database.query<{ id: string; kind: string }>(
      `SELECT id, kind FROM webhook_outbox WHERE event_id = 'evt-1'`,
    );
    const outboxOf = (kind: string) => rows.find((row) => row.kind === kind)!.id;
    const event = { context: 'WebhookInbox', source: 'awardee', event: 'evt-1' };
    for (const line of [
      { msg: 'claimed', ...event, type: 'grant.made' },
      { msg: 'attempt failed: not yet', ...event, outbox: outboxOf('handler'), attempt: 1 },
      { msg: 'handled', ...event, outbox: outboxOf('handler'), name: 'awardee/grant', attempt: 2 },
      { msg: 'effect done', ...event, outbox: outboxOf('effect'), name: 'mail', attempt: 1 },
    ])
      expect(told.lines).toContainEqual(expect.objectContaining(line));
  });

  it('has no route of this package in its OpenAPI document', () => {
    expect(told.paths.toSorted()).toEqual([ROUTE, '/api/v1/orders']);
  });
});
