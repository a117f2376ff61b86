import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable } from '@nestjs/common';
import {
  OnWebhook,
  PermanentError,
  RetryAfter,
  Outbox,
  type Alert,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { DeadLetters } from '../../src/outbox/runs/dead-letters.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import {
  clear,
  awardeeSource,
  record,
  scripted,
  startInbox,
  type Script,
  type TestInbox,
} from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';

const BASE_MS = 10_000;
const CAP_MS = 60_000;
const MAX_ATTEMPTS = 5;
const THRESHOLD = 3;

let database: TestDatabase;
let inbox: TestInbox;
const script: Partial<Script> = {};
/** What `onAlert` does besides keeping the alert. */
let onAlert: (alert: Alert) => unknown = () => undefined;
const alerts: Alert[] = [];

beforeAll(async () => {
  database = await createDatabase();
  await database.query(`CREATE TABLE account (id int PRIMARY KEY)`);
  await database.query(`CREATE TABLE payment (account int REFERENCES account)`);
  const retry = { base: BASE_MS, cap: CAP_MS, maxAttempts: MAX_ATTEMPTS };
  inbox = await startInbox({
    database,
    webhooks: {
      sources: {
        awardee: awardeeSource({
          classify: (error) => (error === 'source says permanent' ? 'permanent' : undefined),
        }),
      },
      deadLetterThreshold: THRESHOLD,
      onAlert: async (alert) => {
        alerts.push(alert);
        await onAlert(alert);
      },
    },
    providers: [
      scripted(script, {
        handler: {
          retry,
          classify: (error) => (error === 'handler says permanent' ? 'permanent' : undefined),
        },
        effect: { retry },
      }),
    ],
  });
});
beforeEach(() => {
  script.handle = undefined;
  script.effect = undefined;
  onAlert = () => undefined;
});
afterEach(async () => {
  await clear(database);
  // The number of dead rows has fallen below the threshold, and the next one finds that out.
  alerts.length = 0;
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(async () => {
  await inbox?.stop();
  await database?.drop();
});

/** Delivers an event whose handler fails with `error`, and says what became of its row. */
async function failWith(error: unknown) {
  script.handle = () => Promise.reject(error);
  await inbox.deliver('d-1');
  await inbox.relay.tick();
  const [row] = await database.query<{ state: string; reason: string | null; error: string; delay: number }>(
    `SELECT state, reason, error, extract(epoch FROM due_at - now())::float8 * 1000 AS delay FROM webhook_outbox`,
  );
  return row!;
}

describe('R22 what a failure is', () => {
  const permanent: [string, unknown][] = [
    ['PermanentError', new PermanentError('no such plan')],
    ['a validation error of an HTTP client', Object.assign(new Error('bad'), { status: 422 })],
    ['a 403', Object.assign(new Error('forbidden'), { response: { status: 403 } })],
    ['a data exception of PostgreSQL', Object.assign(new Error('numeric'), { code: '22003' })],
    ['a violated constraint', Object.assign(new Error('fk'), { driverError: { code: '23503' } })],
    ['what the handler calls permanent', 'handler says permanent'],
    ['what the source calls permanent', 'source says permanent'],
  ];
  const transient: [string, unknown][] = [
    ['an unknown error', new Error('what?')],
    ['what is no Error', { odd: true }],
    ['a 408', Object.assign(new Error('time-out'), { status: 408 })],
    ['a 429', Object.assign(new Error('slow down'), { statusCode: 429 })],
    ['a 503', Object.assign(new Error('down'), { status: 503 })],
    ['a broken connection', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
    ['a deadlock', Object.assign(new Error('deadlock'), { driverError: { code: '40P01' } })],
    ['too many connections', Object.assign(new Error('full'), { code: '53300' })],
    ['an administrator’s shutdown', Object.assign(new Error('bye'), { code: '57P01' })],
    ['a failed connection', Object.assign(new Error('gone'), { code: '08006' })],
  ];

  it.each(permanent)('%s is permanent: dead at once, with one attempt', async (_, error) => {
    expect(await failWith(error)).toMatchObject({ state: 'dead', reason: 'permanent-error' });
    expect(alerts).toMatchObject([{ kind: 'dead-letter', attempt: 1, reason: 'permanent-error' }]);
  });

  it.each(transient)('%s is transient: tried again', async (_, error) => {
    expect(await failWith(error)).toMatchObject({
      state: 'pending',
      reason: null,
      error: expect.any(String),
    });
    expect(alerts).toEqual([]);
  });

  it('poison 1: a foreign key to a row that was deleted', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      await context.manager.query(`INSERT INTO payment VALUES (404)`);
    };
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    expect(await inbox.rows()).toMatchObject([
      { state: 'dead', reason: 'permanent-error', attempt: 1, error: expect.stringContaining('foreign key') },
    ]);
  });

  it('poison 2: a service that answers 403 for ever', async () => {
    const { server, url } = await serve(403);
    try {
      script.handle = async (event, context) => {
        await record(event, context);
        await context.enqueue('mail', {});
      };
      script.effect = async () => {
        const { status } = await fetch(url);
        if (status >= 400) throw Object.assign(new Error(`answered ${status}`), { status });
      };
      await inbox.deliver('d-1');
      await inbox.relay.tick();
      expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    } finally {
      server.closeAllConnections();
      server.close();
    }
    expect(await inbox.rows()).toMatchObject([
      { kind: 'handler', state: 'done' },
      { kind: 'effect', state: 'dead', attempt: 1, error: 'answered 403' },
    ]);
    expect(await database.query(`SELECT state, effects_dead::int FROM webhook_event`)).toEqual([
      { state: 'processed', effects_dead: 1 },
    ]);
  });

  it('poison 3: a body that cannot be read', async () => {
    let runs = 0;
    script.handle = () => (runs += 1);
    await inbox.deliver('d-1', 'grant.made', '{"a":');
    await inbox.deliver('d-2', 'grant.made', '{"a":1}');
    expect(await inbox.relay.tick()).toMatchObject({ leased: 2, dead: 1, done: 1 });
    expect(runs).toBe(1);
    expect(await inbox.rows(`state = 'dead'`)).toMatchObject([
      { event_id: 'd-1', reason: 'unreadable-body' },
    ]);
    expect(await database.query(`SELECT body FROM webhook_claim WHERE event_id = 'd-1'`)).toEqual([
      { body: Buffer.from('{"a":') },
    ]);
  });

  it('poison 4: a payload of an effect that cannot be read', async () => {
    const got: unknown[] = [];
    script.effect = (payload) => void got.push(payload);
    const outbox = inbox.app.get(Outbox);
    const [cut, gone] = [
      await outbox.enqueue(inbox.dataSource.manager, 'mail', { n: 1 }, { outsideTransaction: true }),
      await outbox.enqueue(inbox.dataSource.manager, 'mail', { n: 2 }, { outsideTransaction: true }),
    ];
    await outbox.enqueue(inbox.dataSource.manager, 'mail', { n: 3 }, { outsideTransaction: true });
    // As damage on the disk, or a restore of one of the tables, would leave them.
    await database.query(`UPDATE webhook_outbox_data SET payload = '{"n":' WHERE outbox_id = $1`, [cut.id]);
    await database.query(`DELETE FROM webhook_outbox_data WHERE outbox_id = $1`, [gone.id]);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 3, dead: 2, done: 1 });
    expect(got).toEqual([{ n: 3 }]);
    expect(await inbox.rows(`state = 'dead'`)).toMatchObject(
      [cut, gone].map(({ id }) => ({ id, reason: 'unreadable-payload', attempt: 1 })),
    );
  });

  async function serve(status: number): Promise<{ server: Server; url: string }> {
    const server = createServer((_, response) => response.writeHead(status).end());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }
});

describe('retries', () => {
  it('wait with full jitter between nothing and the ceiling of the attempt, which doubles up to the cap', async () => {
    const events = 60;
    script.handle = () => Promise.reject(new Error('no'));
    await Promise.all(Array.from({ length: events }, (_, index) => inbox.deliver(`d-${index}`)));
    for (const [index, ceiling] of [BASE_MS, BASE_MS * 2, BASE_MS * 4, CAP_MS].entries()) {
      await inbox.makeDue();
      await inbox.relay.drain({ maxMs: 10_000 });
      // One whose delay was next to nothing has had another attempt meanwhile.
      const delays = (
        await database.query<{ ms: number }>(
          `SELECT extract(epoch FROM due_at - now())::float8 * 1000 AS ms FROM webhook_outbox WHERE attempt = $1 ORDER BY 1`,
          [index + 1],
        )
      ).map((row) => row.ms);
      expect(delays.length).toBeGreaterThan(events * 0.7);
      // Each was drawn from 0 to the ceiling, and some time has passed since.
      expect(delays.at(-1)!).toBeLessThanOrEqual(ceiling);
      expect(delays.at(-1)!).toBeGreaterThan(ceiling * 0.7);
      expect(delays[0]!).toBeLessThan(ceiling * 0.3);
      expect(delays.filter((ms) => ms < ceiling / 2).length).toBeGreaterThan(events * 0.2);
      expect(delays.filter((ms) => ms > ceiling / 2).length).toBeGreaterThan(events * 0.15);
    }
  });

  it.each([
    ['RetryAfter', new RetryAfter(120_000)],
    ['RetryAfter in words', new RetryAfter('2m')],
    [
      'a Retry-After header in seconds',
      Object.assign(new Error('429'), { status: 429, headers: { 'retry-after': '120' } }),
    ],
    [
      'a Retry-After header of a fetch response',
      Object.assign(new Error('503'), {
        response: { status: 503, headers: new Headers({ 'retry-after': '120' }) },
      }),
    ],
    [
      'a Retry-After header that is a date',
      Object.assign(new Error('503'), {
        status: 503,
        // Read when it is used: the tests before take their time.
        get headers() {
          return { 'retry-after': new Date(Date.now() + 121_000).toUTCString() };
        },
      }),
    ],
  ])('never come before the time that the other side asks for: %s', async (_, error) => {
    const { state, delay } = await failWith(error);
    expect(state).toBe('pending');
    // Less what a busy machine takes between the header and the settle.
    expect(delay).toBeGreaterThan(60_000);
    expect(delay).toBeLessThan(130_000);
  });

  it.each([
    ['more than PostgreSQL has room for', new RetryAfter(Number.MAX_VALUE)],
    ['no number', new RetryAfter(Number.NaN)],
    ['infinite', new RetryAfter(Infinity)],
    ['no duration', new RetryAfter('soon')],
    ['negative', new RetryAfter(-5_000)],
  ])('whose asked delay is %s are recorded as failures all the same', async (_, error) => {
    const { state, error: text, delay } = await failWith(error);
    expect(state).toBe('pending');
    expect(text).toContain('RetryAfter');
    expect(delay).toBeLessThanOrEqual(30 * 86_400_000);
  });
});

describe('R14 R38 dead letters', () => {
  it('are told of although the application’s logger throws', async () => {
    script.handle = () => {
      throw new PermanentError('no');
    };
    await inbox.deliver('unlogged');
    alerts.length = 0;
    const quiet = () => undefined;
    const warn = () => {
      throw new Error('the logger has ended');
    };
    inbox.app.useLogger({ log: quiet, warn, error: quiet });
    await inbox.relay.tick();
    inbox.app.useLogger(false);
    expect(await inbox.rows()).toMatchObject([{ state: 'dead' }]);
    expect(alerts).toMatchObject([{ kind: 'dead-letter', event: { eventId: 'unlogged' } }]);
  });

  it('come after the attempts allowed, with payload, last error, attempts and time, and a person is told once', async () => {
    let runs = 0;
    script.handle = () => Promise.reject(new Error(`no ${(runs += 1)}`));
    await inbox.deliver('d-1', 'grant.made', { amount: 5 });
    for (let round = 0; round < MAX_ATTEMPTS + 2; round += 1) {
      await inbox.makeDue();
      await inbox.relay.tick();
    }
    expect(runs).toBe(MAX_ATTEMPTS);
    const [row] = await inbox.rows();
    expect(row).toMatchObject({
      state: 'dead',
      reason: 'attempts-exhausted',
      attempt: MAX_ATTEMPTS,
      error: `no ${MAX_ATTEMPTS}`,
      settled_at: expect.any(Date),
      leased_by: null,
    });
    expect(await database.query(`SELECT body FROM webhook_claim`)).toEqual([
      { body: Buffer.from('{"amount":5}') },
    ]);
    expect(alerts).toEqual([
      {
        kind: 'dead-letter',
        outboxId: row!.id,
        name: 'awardee/handle',
        attempt: MAX_ATTEMPTS,
        reason: 'attempts-exhausted',
        error: `no ${MAX_ATTEMPTS}`,
        event: { source: 'awardee', tenant: '', eventId: 'd-1' },
      },
    ]);
  });

  it('of an effect keep the bytes that were enqueued', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', { amount: 5 }));
    script.effect = () => Promise.reject(new PermanentError('refused'));
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    await inbox.relay.tick();
    expect(
      await database.query(
        `SELECT o.state, d.payload FROM webhook_outbox o JOIN webhook_outbox_data d ON d.outbox_id = o.id WHERE kind = 'effect'`,
      ),
    ).toEqual([{ state: 'dead', payload: Buffer.from('{"amount":5}') }]);
  });

  it('at the threshold are told of once, and again only after their number has fallen below it', async () => {
    script.handle = () => Promise.reject(new PermanentError('no'));
    const many = () => alerts.filter((alert) => alert.kind === 'dead-letters');
    let next = 0;
    const die = async (count: number) => {
      for (let index = 0; index < count; index += 1) await inbox.deliver(`d-${(next += 1)}`);
      await inbox.relay.drain({ maxMs: 10_000 });
      await settled();
    };
    await die(THRESHOLD - 1);
    expect(many()).toEqual([]);
    await die(1);
    expect(many()).toEqual([{ kind: 'dead-letters', count: THRESHOLD, threshold: THRESHOLD }]);
    await die(3);
    expect(many()).toHaveLength(1);
    // A person clears them; the next one that dies is below the threshold, and only then may it be told again.
    await database.query(`TRUNCATE webhook_outbox`);
    await die(1);
    expect(many()).toHaveLength(1);
    await die(THRESHOLD - 1);
    expect(many()).toHaveLength(2);
  });

  it('that reach the threshold together are told of: none comes too late for the count', async () => {
    script.handle = () => Promise.reject(new PermanentError('no'));
    for (let round = 0; round < 10; round += 1) {
      await database.query(`TRUNCATE webhook_claim, webhook_outbox`);
      await die('below');
      alerts.length = 0;
      await Promise.all(['a', 'b'].map((id) => inbox.deliver(id)));
      await inbox.relay.tick();
      await until(() => alerts.some((alert) => alert.kind === 'dead-letters'));
    }

    async function die(id: string): Promise<void> {
      await inbox.deliver(id);
      await inbox.relay.tick();
      await settled();
    }
  });

  it('are recorded whatever onAlert does', async () => {
    for (const fault of [
      () => {
        throw new Error('onAlert');
      },
      () => Promise.reject(new Error('onAlert')),
      () => new Promise(() => undefined),
    ]) {
      onAlert = fault;
      await database.query(`TRUNCATE webhook_claim, webhook_outbox`);
      expect(await failWith(new PermanentError('no'))).toMatchObject({ state: 'dead' });
    }
  });

  it('hold an error that PostgreSQL can store, and no more than is needed of it', async () => {
    const { state, error } = await failWith(new Error(`\u0000 \ud800 ${'x'.repeat(100_000)}`));
    expect(state).toBe('pending');
    expect(Buffer.byteLength(error)).toBeLessThanOrEqual(4_000);
  });

  /** The count that follows a death has ended. */
  async function settled(): Promise<void> {
    await inbox.app.get(DeadLetters).check();
  }
});

describe('inline handlers of one event under retries by the provider', () => {
  it('a deferred constraint that one breaks is that one’s failure: the others are done', async () => {
    const ran: string[] = [];
    @Injectable()
    class Two {
      @OnWebhook('awardee', '*', { name: 'innocent', inline: true })
      innocent({ eventId }: WebhookEvent) {
        ran.push(eventId);
      }

      @OnWebhook('awardee', '*', { name: 'guilty', inline: true })
      async guilty(_: WebhookEvent, { manager }: HandlerContext) {
        await manager.query(`INSERT INTO once (id) VALUES (1), (1)`);
      }

      @OnWebhook('awardee', '*', { name: 'swapping', inline: true })
      async swapping(_: WebhookEvent, { manager }: HandlerContext) {
        await manager.query(`INSERT INTO once (id) VALUES (2), (2)`);
        await manager.query(`DELETE FROM once WHERE ctid IN (SELECT max(ctid) FROM once WHERE id = 2)`);
      }
    }
    const other = await startInbox({
      providers: [Two],
      webhooks: { sources: { awardee: awardeeSource({ retries: 'provider' }) } },
    });
    await other.query(`CREATE TABLE once (id int, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED)`);
    expect(await other.deliver('d-1')).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(ran).toEqual(['d-1']);
    const rows = (await other.rows()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const states = rows.map(({ name, state, reason }) => [name, state, reason]);
    expect(states).toEqual([
      ['awardee/guilty', 'dead', 'permanent-error'],
      ['awardee/innocent', 'done', null],
      ['awardee/swapping', 'done', null],
    ]);
    expect(await other.query(`SELECT id FROM once`)).toEqual([{ id: 2 }]);
    await other.stop();
  });
});
