import { Injectable } from '@nestjs/common';
import { httpEffect, webhookEffect } from '../../src/effects/index.js';
import { Inspector, OnEffect, Operator, Outbox, type EffectContext } from '../../src/index.js';
import { HandlerRegistry } from '../../src/handlers/handler.registry.js';
import { Destinations } from '../../src/outbox/runs/destinations.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/application.js';
import { installFailPoints, removeFailPoints } from '../support/fail-points.js';
import { FakeSink } from '../support/fake-sink.js';
import { startInbox, clear, type TestInbox } from './support/inbox.js';

const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };
const why = { by: 'a test', reason: 'to see' };
const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
/** Rows are tried again at once: it is their destination that has them wait. */
const quick = { retry: { base: 1, cap: 1, maxAttempts: 20 }, timeout: '5s' } as const;
let sink: FakeSink;

interface ToEndpoint {
  readonly endpoint: string;
}

@Injectable()
class Effects {
  @OnEffect('limited', { rate: '50/s' })
  limited(_: unknown, context: EffectContext) {
    return this.call('limited', context);
  }

  @OnEffect('hourly', { rate: '1/h' })
  hourly(_: unknown, context: EffectContext) {
    return this.call('hourly', context);
  }

  @OnEffect('free')
  free(_: unknown, context: EffectContext) {
    return this.call('free', context);
  }

  @OnEffect('fragile', { opensAfter: 3, ...quick })
  fragile(_: unknown, context: EffectContext) {
    return this.call('fragile', context);
  }

  @OnEffect('customer', { opensAfter: 3, destination: ({ endpoint }: ToEndpoint) => endpoint, ...quick })
  customer({ endpoint }: ToEndpoint, context: EffectContext) {
    const url = `${sink.origin}/${endpoint}`;
    return webhookEffect({ url, secrets: [SECRET], type: 'made', data: {}, allow }, context);
  }

  private call(path: string, context: EffectContext) {
    return httpEffect({ url: `${sink.origin}/${path}`, json: {}, allow }, context);
  }
}

describe('destinations of effects, with two instances', () => {
  let database: TestDatabase;
  let inboxes: TestInbox[];
  const start = () =>
    startInbox({
      database,
      loop: true,
      providers: [Effects],
      webhooks: { relay: { pollInterval: '100ms' } },
    });
  const enqueue = async (effect: string, count: number, payload: object = {}) => {
    const [{ app, dataSource }] = inboxes as [TestInbox];
    const outbox = app.get(Outbox);
    await dataSource.transaction(async (manager) => {
      for (let index = 0; index < count; index += 1) await outbox.enqueue(manager, effect, payload);
    });
  };
  const states = async (where = 'true') => {
    const rows = await database.query<{ state: string }>(`SELECT state FROM webhook_outbox WHERE ${where}`);
    return [...new Set(rows.map(({ state }) => state))].sort();
  };
  const done = (where?: string) => until(async () => String(await states(where)) === 'done');
  const calls = (path: string) => sink.requests.filter(({ url }) => url === `/${path}`).length;
  const opened = () =>
    inboxes.flatMap(({ alerts }) => alerts.filter(({ kind }) => kind === 'destination-open'));
  const destinations = () => inboxes[1]!.app.get(Inspector).destinations();
  const isOpen = (name: string) =>
    until(async () => (await destinations()).some((one) => one.name === name && one.state === 'open'));
  /** Until each instance has heard that an effect's destination is not to be called. */
  const allKnow = (effect: string) =>
    until(() =>
      inboxes.every(({ app }) => app.get(Destinations).room(app.get(HandlerRegistry).effect(effect)!) === 0),
    );
  const isHeld = (app: TestInbox['app'], endpoint: string) =>
    app.get(Destinations).of(app.get(HandlerRegistry).effect('customer')!, { endpoint }) !== undefined;
  const nothingRuns = () =>
    until(
      async () =>
        (await database.query(`SELECT FROM webhook_outbox WHERE leased_by IS NOT NULL`)).length === 0,
    );
  const probeIsDue = () =>
    database.query(`UPDATE webhook_destination SET not_before = now() WHERE state = 'open'`);

  beforeAll(async () => {
    sink = await FakeSink.start();
    database = await createDatabase();
    inboxes = [await start(), await start()];
  });
  beforeEach(() => {
    sink.requests.length = 0;
    sink.answer = (response) => response.writeHead(200).end();
    for (const { alerts } of inboxes) alerts.length = 0;
  });
  afterEach(() => clear(database));
  afterAll(async () => {
    await Promise.all(inboxes.map(({ app }) => app.close()));
    await database?.drop();
    await sink?.stop();
  });

  it('a rate is kept by all instances together', async () => {
    const startedAt = performance.now();
    await enqueue('limited', 60);
    await done();
    // All but a tenth of a second's calls have waited for their time.
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(((60 - 5) / 50) * 1_000);
    expect(calls('limited')).toBe(60);
    expect(await database.query(`SELECT FROM webhook_outbox WHERE attempt - attempt_base <> 1`)).toEqual([]);
    expect(await destinations()).toMatchObject([{ name: 'limited', state: 'closed', failures: 0 }]);
  });

  it('a rate that is used up delays no other effect, and no row of it is lost', async () => {
    await enqueue('hourly', 30);
    await until(() => calls('hourly') === 1);
    await enqueue('free', 30);
    await done(`name = 'free'`);
    expect(calls('hourly')).toBe(1);
    expect(await states(`name = 'hourly'`)).toEqual(['done', 'pending']);
    await database.query(`UPDATE webhook_destination SET tokens = 1, refilled_at = now()`);
  });

  it('what has neither a rate nor failures leaves nothing behind', async () => {
    await enqueue('free', 3);
    await done();
    expect(await destinations()).toEqual([]);
  });

  it('a Retry-After delays all rows of its destination, on each instance, and costs them no attempt', async () => {
    sink.answer = (response) => response.writeHead(429, { 'retry-after': '3600' }).end();
    await enqueue('fragile', 1);
    await allKnow('fragile');
    await enqueue('fragile', 5);
    await enqueue('free', 5);
    sink.answer = (response) => response.writeHead(200).end();
    await done(`name = 'free'`);
    expect(calls('fragile')).toBe(1);
    expect(await destinations()).toMatchObject([
      { name: 'fragile', state: 'closed', failures: 1, notBefore: expect.any(Date) },
    ]);
    expect(await states(`name = 'fragile' AND attempt = 0`)).toEqual(['pending']);
    await database.query(`UPDATE webhook_destination SET not_before = now()`);
    await database.query(`UPDATE webhook_outbox SET due_at = now() WHERE state = 'pending'`);
    await done();
    expect(opened()).toEqual([]);
  });

  it('after failures in a row nothing but one probe at a time is sent; one that is answered ends it', async () => {
    sink.answer = (response) => response.writeHead(503).end();
    await enqueue('fragile', 8);
    await until(() => opened().length > 0);
    await allKnow('fragile');
    await nothingRuns();
    expect(opened()).toEqual([
      {
        kind: 'destination-open',
        name: 'fragile',
        failures: 3,
        reason: 'failing',
        error: expect.stringContaining('503'),
      },
    ]);
    const before = calls('fragile');
    let release: (() => void) | undefined;
    sink.answer = (response) => {
      if (release === undefined) release = () => response.writeHead(200).end();
      else response.writeHead(200).end();
    };
    await probeIsDue();
    await until(() => release !== undefined);
    await enqueue('free', 5);
    await done(`name = 'free'`);
    expect(calls('fragile')).toBe(before + 1);
    release!();
    await done();
    expect(opened()).toHaveLength(1);
    expect(await destinations()).toEqual([]);
    expect(await states()).toEqual(['done']);
  });

  it('a probe that was killed is followed by another, and no row is lost', async () => {
    sink.answer = (response) => response.writeHead(503).end();
    await enqueue('fragile', 3);
    await allKnow('fragile');
    await nothingRuns();
    await database.query(
      `UPDATE webhook_destination SET not_before = now(), probe_id = gen_random_uuid(), probe_until = now() + interval '1 hour'`,
    );
    sink.answer = (response) => response.writeHead(200).end();
    await enqueue('free', 5);
    await done(`name = 'free'`);
    expect(await states(`name = 'fragile'`)).toEqual(['pending']);
    await database.query(`UPDATE webhook_destination SET probe_until = now()`);
    await done();
  });

  it('one endpoint that fails does not delay another of the same effect', async () => {
    sink.answer = (response, { url }) => response.writeHead(url === '/bad' ? 500 : 200).end();
    await enqueue('customer', 6, { endpoint: 'bad' });
    await isOpen('bad');
    await enqueue('customer', 6, { endpoint: 'good' });
    await until(() => calls('good') === 6);
    expect(await destinations()).toMatchObject([{ name: 'bad', state: 'open' }]);
    sink.answer = (response) => response.writeHead(200).end();
    await probeIsDue();
    await until(async () => {
      await inboxes[0]!.makeDue();
      return String(await states()) === 'done';
    });
    expect(opened()).toMatchObject([{ name: 'bad' }]);
  });

  it('an endpoint that answers 410 is told of once and gets no probe until a person resumes it', async () => {
    sink.answer = (response) => response.writeHead(410).end();
    await enqueue('customer', 1, { endpoint: 'gone' });
    await until(() => opened().length > 0);
    expect(opened()).toMatchObject([{ name: 'gone', reason: 'gone', failures: 1 }]);
    await until(() => inboxes.every(({ app }) => isHeld(app, 'gone')));
    await enqueue('customer', 4, { endpoint: 'gone' });
    await until(
      async () => (await database.query(`SELECT FROM webhook_outbox WHERE due_at > now()`)).length === 4,
    );
    expect(calls('gone')).toBe(1);
    expect(await states()).toEqual(['dead', 'pending']);
    sink.answer = (response) => response.writeHead(200).end();
    const operator = inboxes[1]!.app.get(Operator);
    expect(await operator.resume('destination', 'gone', why)).toBe(true);
    expect(await operator.resume('destination', 'gone', why)).toBe(false);
    await until(async () => {
      await inboxes[0]!.makeDue();
      return String(await states(`state <> 'dead'`)) === 'done';
    });
    expect(calls('gone')).toBe(5);
    expect(opened()).toHaveLength(1);
  });
});

describe('an outage of the application’s own database', () => {
  const calls: string[] = [];

  @Injectable()
  class Doubtful {
    @OnEffect('doubtful', { opensAfter: 1, inDoubt: 'park', ...quick })
    doubtful(_: unknown, { key }: EffectContext) {
      calls.push(key);
    }
  }

  it('is no failure of a destination: an effect whose call cannot be recorded beforehand is not called', async () => {
    const database = await createDatabase();
    const inbox = await startInbox({ database, providers: [Doubtful] });
    try {
      const { manager } = inbox.dataSource;
      await inbox.app.get(Outbox).enqueue(manager, 'doubtful', {}, { outsideTransaction: true });
      // As each new connection is refused where the server has just been stopped.
      installFailPoints((point, when) => {
        if (point !== 'begin of an effect' || when !== 'before') return undefined;
        throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1'), { code: 'ECONNREFUSED' });
      });
      await inbox.relay.tick();
      removeFailPoints();
      expect(calls).toEqual([]);
      expect(await database.query(`SELECT name FROM webhook_destination`)).toEqual([]);
      await database.query(`UPDATE webhook_outbox SET lease_until = now()`);
      await inbox.settle();
      expect(calls).toHaveLength(1);
    } finally {
      removeFailPoints();
      await inbox.stop();
      await database.drop();
    }
  });
});
