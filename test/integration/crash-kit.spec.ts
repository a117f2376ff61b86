import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { Injectable, type INestApplication, type Type } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  OnEffect,
  OnWebhook,
  outsideTransaction,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { crashEverywhere, CrashFaults, deliver, type CrashReport } from '../../src/testing/index.js';
import { createApplication } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { FakeSink } from '../support/fake-sink.js';
import { deskSources } from '../support/desk.js';

interface Paid {
  readonly invoice: string;
}
type Event = WebhookEvent<Paid>;

let database: TestDatabase;
let sink: FakeSink;
beforeAll(async () => {
  sink = await FakeSink.start();
});
afterAll(() => sink.stop());
beforeEach(async () => {
  database = await createDatabase();
  await database.query(`
    CREATE TABLE invoice (serial serial, id text PRIMARY KEY, payments int NOT NULL DEFAULT 1, seen_at timestamptz DEFAULT now());
    CREATE TABLE note (id text NOT NULL, text text NOT NULL)`);
});
afterEach(() => database.drop());

const PAID = `INSERT INTO invoice (id) VALUES ($1) ON CONFLICT (id) DO NOTHING`;
const NOTE = `INSERT INTO note (id, text) SELECT $1, 'paid' WHERE NOT EXISTS (SELECT FROM note WHERE id = $1)`;

const post = (path: string, key: string) =>
  fetch(`${sink.origin}${path}`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' });

/** A handler that can run again, and an effect that sends its key. */
@Injectable()
class Good {
  @OnWebhook<Paid>('awardee', 'invoice.paid', { name: 'paid' })
  async paid({ payload }: Event, { manager, enqueue }: HandlerContext) {
    await manager.query(PAID, [payload.invoice]);
    await manager.transaction((nested) => nested.query(NOTE, [payload.invoice]));
    await enqueue('receipt', payload);
  }

  @OnEffect('receipt')
  async receipt(_payload: Paid, { key, complete }: EffectContext) {
    await post('/receipt', key);
    await complete(({ manager }) => manager.query(`SELECT 1`));
  }
}

/** A class with a handler of these lines, and an effect of those. */
function sample(
  handle: (event: Event, context: HandlerContext, dataSource: DataSource) => unknown,
  effect: (payload: Paid, context: EffectContext) => unknown = (_payload, { key }) => post('/receipt', key),
): Type {
  @Injectable()
  class Sample {
    constructor(private readonly dataSource: DataSource) {}

    @OnWebhook<Paid>('awardee', 'invoice.paid', { name: 'paid', retry: { maxAttempts: 2 } })
    async paid(event: Event, context: HandlerContext) {
      await handle(event, context, this.dataSource);
    }

    @OnEffect('receipt')
    async receipt(payload: Paid, context: EffectContext) {
      await effect(payload, context);
    }
  }
  return Sample;
}

const starting = (provider: Type) => () =>
  createApplication({
    databaseUrl: database.url,
    webhooks: { sources: { awardee: deskSources.awardee }, retention: false },
    providers: [provider],
  });

const paid = (app: INestApplication, id: string) =>
  deliver(app, 'awardee', { id, type: 'invoice.paid', payload: { invoice: `in_${id}` } });

function crashing(provider: Type): Promise<CrashReport> {
  return crashEverywhere(starting(provider), (app, id) => paid(app as INestApplication, id));
}

it('finds nothing in a handler that can run again, at any of its steps', async () => {
  const { steps } = await crashing(Good);
  const crash = (point: string) => [`a crash before ${point}`, `a crash after ${point}`];
  expect(steps.slice(0, 3)).toEqual(['two events without a crash', 'a second delivery', 'a replay']);
  expect(steps).toEqual(
    expect.arrayContaining([
      ...crash('query 1 (INSERT INTO invoice (id) VALUES ($1) ON CONFLICT (id) DO NOTHING)'),
      ...crash('enqueue 1'),
      ...crash('commit 1'),
      ...crash(`call 1 of effect 'receipt'`),
      ...crash('commit 2'),
    ]),
  );
  // Each of them really was a crash: the server saw the end of a session in each.
  expect(sink.requests.length).toBeGreaterThan(steps.length);
});

it('takes nothing for the event’s that a new handler does for events of an earlier test', async () => {
  await crashing(Good);
  @Injectable()
  class Added {
    @OnWebhook<Paid>('awardee', 'invoice.paid', { name: 'added' })
    async paid({ payload }: Event, { manager }: HandlerContext) {
      await manager.query(NOTE, [`added ${payload.invoice}`]);
    }
  }
  expect((await crashing(Added)).steps).toContain('a crash before commit 1');
});

const upsert = (event: Event, { manager }: HandlerContext) => manager.query(PAID, [event.payload.invoice]);

it.each<[string, Type, string, string]>([
  [
    'a write past the manager',
    sample(async ({ payload }, _context, dataSource) => {
      await dataSource.query(`INSERT INTO note VALUES ($1, 'paid')`, [payload.invoice]);
    }),
    'without a crash',
    'A handler wrote past its transaction',
  ],
  [
    'a write past the manager that the development watch does not see',
    sample(async ({ payload }, { manager, enqueue }, dataSource) => {
      await outsideTransaction(() =>
        dataSource.query(`INSERT INTO note VALUES ($1, 'paid')`, [payload.invoice]),
      );
      await manager.query(PAID, [payload.invoice]);
      await enqueue('receipt', payload);
    }),
    'a crash before commit 1',
    'table public.note: expected 1 row more, found 2',
  ],
  [
    'a write that is not awaited',
    sample(({ payload }, { manager }) => {
      void manager.query(PAID, [payload.invoice]);
    }),
    'without a crash',
    'await every call on the manager',
  ],
  [
    'an HTTP call in the handler',
    sample(async (event, context) => {
      await post('/charge', randomUUID());
      await upsert(event, context);
    }),
    'a crash before commit 1',
    'handler awardee/paid sent POST http://127.0.0.1:',
  ],
  [
    'an HTTP call in the handler, by node:http',
    sample(async (event, context) => {
      await upsert(event, context);
      const sent = request(`${sink.origin}/charge`, { method: 'POST' }).end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      response.resume();
    }),
    'a crash before commit 1',
    'handler awardee/paid sent POST http://127.0.0.1',
  ],
  [
    'a key of its own making, at the enqueue',
    sample(async ({ payload }, { enqueue }) => {
      await enqueue('receipt', payload, { key: randomUUID() });
    }),
    'a replay',
    `effect 'receipt': expected calls under 1 key, found 2 keys`,
  ],
  [
    'a key of its own making, at the call',
    sample(
      async ({ payload }, { enqueue }) => {
        await enqueue('receipt', payload);
      },
      () => post('/receipt', randomUUID()),
    ),
    `a crash after call 1 of effect 'receipt'`,
    'Send `context.key` as the idempotency key',
  ],
  [
    'an upsert that adds',
    sample(async ({ payload }, { manager }) => {
      await manager.query(
        `INSERT INTO invoice (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET payments = invoice.payments + 1`,
        [payload.invoice],
      );
    }),
    'a replay',
    'table public.invoice, column payments: expected 1, found 2',
  ],
  [
    'a query error that is swallowed',
    sample(async ({ payload }, { manager }) => {
      await manager.query(`INSERT INTO invoice (id) VALUES ($1)`, [payload.invoice]).catch(() => undefined);
    }),
    'a replay',
    'a query failed and its error was swallowed',
  ],
])('names the step of %s', async (_, provider, step, problem) => {
  const error: unknown = await crashing(provider).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CrashFaults);
  const { faults } = error as CrashFaults;
  expect(faults.flatMap((one) => one.problems.map((text) => `${one.step}: ${text}`)).join('\n')).toContain(
    problem,
  );
  const found = faults.find((one) => one.step === step);
  expect(
    found?.problems.join('\n') ?? `no fault at ${step}, but at ${faults.map((one) => one.step).join()}`,
  ).toContain(problem);
});
