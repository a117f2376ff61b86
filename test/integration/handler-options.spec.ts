import { z } from 'zod';
import {
  Outbox,
  RetryAfter,
  type EffectOptions,
  type HandlerOptions,
  type SkipStale,
  type WebhookEvent,
} from '../../src/index.js';
import { until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import {
  awardeeSource,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';

interface Subscription {
  readonly id: string;
  readonly at?: string;
  readonly status: string;
}
const of = ({ payload }: WebhookEvent) => payload as Subscription;

let inbox: TestInbox;
let script: Partial<Script>;

async function start(handler: HandlerOptions, setup: InboxSetup = {}): Promise<TestInbox> {
  return (inbox = await startInbox({ providers: [scripted(script, { handler })], ...setup }));
}
beforeEach(() => {
  script = {};
});
afterEach(() => inbox.stop());

describe('R05 case 41 skipStale', () => {
  const skipStale: SkipStale = {
    key: (event) => of(event).id,
    at: (event) => (of(event).at === undefined ? undefined : new Date(of(event).at!)),
  };
  const stored = async () =>
    (
      await inbox.query<{ event_type: string }>(`SELECT event_type FROM received_event ORDER BY event_id`)
    ).map((row) => row.event_type);
  const states = async () =>
    (await inbox.rows(`kind = 'handler'`)).map(({ event_id, state }) => `${event_id} ${state}`);

  beforeEach(() => {
    script.handle = ({ payload }, { manager }) => {
      const { id, status } = payload as Subscription;
      return manager.query(
        `INSERT INTO received_event (source, event_id, event_type) VALUES ('subscription', $1, $2)
             ON CONFLICT (source, event_id) DO UPDATE SET event_type = EXCLUDED.event_type`,
        [id, status],
      );
    };
  });
  const deliver = (eventId: string, status: string, at?: string, id = 'sub_1') =>
    inbox.deliver(eventId, 'subscription', { id, at, status } satisfies Subscription);

  it('an update that came first is not overwritten by the creation that came after it', async () => {
    await start({ skipStale });
    await deliver('updated', 'active', '2026-01-01T00:00:01Z');
    await inbox.relay.tick();
    await deliver('created', 'incomplete', '2026-01-01T00:00:00Z');
    expect(await inbox.relay.tick()).toMatchObject({ superseded: 1 });
    expect(await stored()).toEqual(['active']);
    expect(await inbox.query(`SELECT event_id, state FROM webhook_event ORDER BY event_id`)).toEqual([
      { event_id: 'created', state: 'superseded' },
      { event_id: 'updated', state: 'processed' },
    ]);
  });

  it('equal times run, as does an event without a time, and other resources and tenants are other marks', async () => {
    await start({ skipStale });
    await deliver('1', 'one', '2026-01-02T00:00:00Z');
    await deliver('2', 'two', '2026-01-02T00:00:00Z');
    await deliver('3', 'three');
    await deliver('4', 'four', '2025-01-01T00:00:00Z', 'sub_2');
    await inbox.relay.tick();
    expect(await states()).toEqual(['1 done', '2 done', '3 done', '4 done']);
  });

  it('a handler that fails has seen nothing: its mark goes back with it', async () => {
    const work = script.handle!;
    script.handle = () => {
      throw new RetryAfter(3_600_000, 'on purpose');
    };
    await start({ skipStale });
    await deliver('new', 'new', '2026-01-02T00:00:00Z');
    await inbox.relay.tick();
    script.handle = work;
    await deliver('old', 'old', '2026-01-01T00:00:00Z');
    await inbox.relay.tick();
    expect(await stored()).toEqual(['old']);
    await inbox.settle();
    expect(await stored()).toEqual(['new']);
  });

  it('a time far ahead runs, moves no mark and is told: later events are not stale for it', async () => {
    await start({ skipStale });
    await deliver('1', 'from the future', '2999-01-01T00:00:00Z');
    await inbox.relay.tick();
    await deliver('2', 'now', new Date().toISOString());
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    expect(inbox.alerts).toMatchObject([{ kind: 'future-time', event: { eventId: '1' } }]);
  });

  it('a time that is none runs and moves no mark, and is warned of once', async () => {
    const warnings: string[] = [];
    const quiet = () => undefined;
    const logger = { log: quiet, error: quiet, warn: (text: unknown) => void warnings.push(String(text)) };
    await start({ skipStale }, { configure: (app) => app.useLogger(logger) });
    await deliver('1', 'newest', '2026-01-02T00:00:00Z');
    await inbox.relay.tick();
    for (const id of ['2', '3']) await deliver(id, id, 'last Tuesday');
    expect(await inbox.relay.tick()).toMatchObject({ done: 2 });
    await deliver('4', 'older', '2026-01-01T00:00:00Z');
    expect(await inbox.relay.tick()).toMatchObject({ superseded: 1 });
    expect(warnings.filter((text) => text.includes('skipStale.at'))).toEqual([
      expect.stringContaining('expected a Date or undefined, received an invalid Date'),
    ]);
  });

  it('of many at once, in any order, the newest is what stays', async () => {
    await start({ skipStale });
    for (const second of [5, 2, 9, 1, 7, 3])
      await deliver(String(second), `at ${second}`, `2026-01-01T00:00:0${second}Z`);
    await inbox.relay.tick();
    expect(await stored()).toEqual(['at 9']);
  });

  it('without it the last to come wins, whatever its time', async () => {
    await start({});
    await deliver('updated', 'active', '2026-01-01T00:00:01Z');
    await inbox.relay.tick();
    await deliver('created', 'incomplete', '2026-01-01T00:00:00Z');
    await inbox.relay.tick();
    expect(await stored()).toEqual(['incomplete']);
  });
});

describe('R21 hydrate', () => {
  it('hands the handler the current state, fetched before its transaction', async () => {
    const seen: unknown[] = [];
    let inTransaction: unknown[] = [];
    script.handle = (_event, { current }) => void seen.push(current);
    await start({
      hydrate: {
        key: (event) => of(event).id,
        fetch: async (event) => {
          inTransaction = await inbox.query(
            `SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
          );
          return { id: of(event).id, status: 'active' };
        },
      },
    });
    await inbox.deliver('1', 't', { id: 'sub_1', status: 'incomplete' });
    await inbox.relay.tick();
    expect(seen).toEqual([{ id: 'sub_1', status: 'active' }]);
    expect(inTransaction).toEqual([]);
  });

  it('a burst about one resource asks once; another resource asks for itself', async () => {
    const asked: string[] = [];
    const currents: unknown[] = [];
    script.handle = (_event, { current }) => void currents.push(current);
    await start({
      hydrate: {
        key: (event) => of(event).id,
        fetch: async (event) => {
          asked.push(of(event).id);
          await new Promise((resolve) => setTimeout(resolve, 100));
          return asked.length;
        },
      },
    });
    for (const id of ['a', 'a', 'a', 'b'])
      await inbox.deliver(String(Math.random()), 't', { id, status: '' });
    expect(await inbox.relay.tick()).toMatchObject({ done: 4 });
    expect(asked.toSorted()).toEqual(['a', 'b']);
    expect(currents).toHaveLength(4);
  });

  it.each([
    ['at once', 0, true],
    ['at once, without hand-off', 0, false],
    ['20 ms apart', 20, true],
    ['20 ms apart, without hand-off', 20, false],
  ])('50 events of one resource, %s, cost three fetches at most', async (_, apartMs, handOff) => {
    const asked: number[] = [];
    const stale: string[] = [];
    const arrived = new Map<string, number>();
    script.handle = ({ eventId }, { current }) => {
      if (asked[current as number]! < arrived.get(eventId)!) stale.push(eventId);
    };
    await start(
      {
        hydrate: {
          key: () => 'a',
          fetch: async () => {
            const nth = asked.push(performance.now()) - 1;
            await new Promise((resolve) => setTimeout(resolve, 100));
            return nth;
          },
        },
      },
      { loop: true, webhooks: { relay: { handOff, pollInterval: '50ms' } } },
    );
    const deliver = async (nth: number) => {
      await new Promise((resolve) => setTimeout(resolve, nth * apartMs));
      arrived.set(String(nth), performance.now());
      await inbox.deliver(String(nth));
    };
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: 50 }, (_unused, nth) => deliver(nth)));
    const tookMs = performance.now() - startedAt;
    await until(async () => (await inbox.rows(`state = 'done'`)).length === 50);
    expect(stale).toEqual([]);
    // On a machine that takes longer for them than the second that is meant, a fetch more for each pause.
    expect(asked.length).toBeLessThanOrEqual(3 + Math.floor(tookMs / 1_500));
  });

  it('an answer that was asked for before the event came is not used for it', async () => {
    const latch = new Latch();
    const currents: string[] = [];
    let state = 'before';
    script.handle = (_event, { current }) => void currents.push(current as string);
    await start({
      hydrate: {
        key: (event) => of(event).id,
        fetch: async () => {
          const read = state;
          await latch.wait();
          return read;
        },
      },
    });
    await inbox.deliver('1', 't', { id: 'a', status: '' });
    const first = inbox.relay.tick();
    await until(() => latch.arrived === 1);
    state = 'after';
    await inbox.deliver('2', 't', { id: 'a', status: '' });
    const second = inbox.relay.tick();
    await until(() => latch.arrived === 2);
    latch.open();
    await Promise.all([first, second]);
    expect(currents.toSorted()).toEqual(['after', 'before']);
  });

  it('one whose lease is lost does not end the fetch for those who share it; when nobody is left it is aborted', async () => {
    let latch = new Latch();
    const fetches: { id: string; signal: AbortSignal }[] = [];
    await start({
      hydrate: {
        key: () => 'a',
        fetch: async ({ eventId }, { signal }) => {
          fetches.push({ id: eventId, signal });
          const aborted = new Promise((_, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason as Error)),
          );
          await Promise.race([latch.wait(), aborted]);
        },
      },
    });
    const taken = async (where: string) => {
      await inbox.query(
        `UPDATE webhook_outbox SET leased_by = gen_random_uuid() WHERE leased_by IS NOT NULL AND ${where}`,
      );
      await inbox.work.renew();
    };
    for (const id of ['1', '2']) await inbox.deliver(id, 't', { id: 'a', status: '' });
    const first = inbox.relay.tick();
    await until(() => latch.arrived === 1);
    await taken(`event_id = '${fetches[0]!.id}'`);
    expect(fetches[0]!.signal.aborted).toBe(false);
    latch.open();
    expect(await first).toMatchObject({ done: 1, lost: 1 });
    expect(fetches).toHaveLength(1);
    latch = new Latch();
    await inbox.deliver('3', 't', { id: 'a', status: '' });
    const last = inbox.relay.tick();
    await until(() => latch.arrived === 1);
    await taken(`event_id = '3'`);
    expect(fetches[1]!.signal.aborted).toBe(true);
    expect(await last).toMatchObject({ lost: 1 });
  });

  it('a fetch that fails is the attempt that fails, and the next one asks again', async () => {
    let asked = 0;
    script.handle = (_event, { current }) => String(current);
    await start({
      hydrate: {
        key: () => 'a',
        fetch: async () => {
          asked += 1;
          if (asked === 1) throw Object.assign(new Error('down'), { status: 503 });
          return 'there';
        },
      },
    });
    await inbox.deliver('1');
    expect(await inbox.relay.tick()).toMatchObject({ retried: 1 });
    await inbox.settle();
    expect(asked).toBe(2);
  });
});

describe('schema', () => {
  const schema = z.object({ id: z.string(), at: z.coerce.date(), status: z.string().default('unknown') });

  it('validates the payload, and the handler gets what it makes of it', async () => {
    const seen: unknown[] = [];
    script.handle = ({ payload }) => void seen.push(payload);
    await start({ schema });
    await inbox.deliver('1', 't', { id: 'a', at: '2026-01-01T00:00:00Z', more: 'dropped' });
    await inbox.relay.tick();
    expect(seen).toEqual([{ id: 'a', at: new Date('2026-01-01T00:00:00Z'), status: 'unknown' }]);
  });

  it('a mismatch is permanent, names the path and shows no value', async () => {
    await start({ schema });
    await inbox.deliver('1', 't', { id: { secret: 's3cret' }, at: 'x' });
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    const [row] = await inbox.rows();
    expect(row).toMatchObject({ reason: 'permanent-error', error: expect.stringContaining('id: ') });
    expect(row!.error).not.toContain('s3cret');
  });

  it('any Standard Schema will do, one that answers later included', async () => {
    const seen: unknown[] = [];
    script.handle = ({ payload }) => void seen.push(payload);
    await start({
      schema: {
        '~standard': { version: 1, vendor: 'a test', validate: async (value) => ({ value: [value] }) },
      },
    });
    await inbox.deliver('1', 't', 5);
    await inbox.relay.tick();
    expect(seen).toEqual([[5]]);
  });
});

describe('effects for later', () => {
  it('run when their time has come, by the clock of the database, and not before', async () => {
    script.handle = async (_event, { enqueue }) => {
      await enqueue('mail', {}, { key: 'a', delayMs: 3_600_000 });
      await enqueue('mail', {}, { key: 'b', runAt: new Date(Date.now() + 86_400_000) });
      await enqueue('mail', {}, { key: 'c', runAt: new Date(0) });
    };
    await start({});
    await inbox.deliver('1');
    await inbox.relay.drain({ maxMs: 5_000 });
    expect((await inbox.rows(`kind = 'effect' AND state = 'done'`)).map((row) => row.key)).toEqual(['c']);
    const [a, b] = await inbox.query<{ s: number }>(
      `SELECT extract(epoch FROM due_at - created_at)::int AS s FROM webhook_outbox WHERE state = 'pending' ORDER BY key`,
    );
    expect(a!.s).toBe(3_600);
    expect(Math.abs(b!.s - 86_400)).toBeLessThan(60);
    await inbox.makeDue();
    expect(await inbox.relay.tick()).toMatchObject({ done: 2 });
  });

  it('outside of a run too', async () => {
    await start({});
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'mail', {}, { delayMs: 60_000, outsideTransaction: true });
    expect(await inbox.relay.tick()).toMatchObject({ leased: 0 });
  });
});

describe('options that contradict each other stop the boot, naming the class and the remedy', () => {
  beforeEach(async () => {
    await start({});
  });
  const boot = async (
    handler: HandlerOptions,
    effect: EffectOptions = {},
    setup: Partial<InboxSetup> = {},
  ) => {
    const started = await startInbox({
      database: inbox.database,
      providers: [scripted({}, { handler, effect })],
      ...setup,
    });
    await started.stop();
  };
  const key = () => 'k';
  const probe = async () => 'done' as const;

  it.each<[string, HandlerOptions, EffectOptions, RegExp]>([
    ['inline with a key', { inline: true, key }, {}, /Scripted\.handle.*'key' needs the relay/],
    ['inline with a batch', { inline: true, batch: 5 }, {}, /'batch' needs the relay/],
    [
      'inline with hydrate',
      { inline: true, hydrate: { key, fetch: probe } },
      {},
      /'hydrate' calls the provider/,
    ],
    [
      'inline for longer than the answer may take',
      { inline: true, timeout: '1m' },
      {},
      /inline: true the answer waits.*ackTimeout \(8000 ms\), received 60000 ms/,
    ],
    ['onDead without a key', { onDead: 'block' }, {}, /'onDead'.*expected 'key'/],
    ['probeFirst without a probe', {}, { probeFirst: true }, /expected 'probe'/],
    [
      'attempts that outlast the key',
      {},
      { keyRetention: '1h' },
      /Scripted\.effect.*keyRetention.*expected fewer attempts/,
    ],
    ['a name that no row can hold', { name: 'n'.repeat(248) }, {}, /at most 255 bytes, received 256/],
    ['a former name that no row can hold', { was: ['é'.repeat(130)] }, {}, /at most 255 bytes, received 268/],
    ['a batch of none', { batch: 0 }, {}, /batch/],
    ['a schema that is none', { schema: {} as never }, {}, /Standard Schema/],
  ])('%s', async (_, handler, effect, message) => {
    await expect(boot(handler, effect)).rejects.toThrow(message);
  });

  it.each<[string, HandlerOptions, RegExp]>([
    ['a key', { key }, /'key' needs the relay, and retries: 'provider'/],
    [
      'a time-out longer than the lease of a delivery',
      { timeout: '9s' },
      /Scripted\.handle.*retries: 'provider' the answer waits.*ackTimeout \(8000 ms\), received 9000 ms: shorten/,
    ],
  ])("%s under retries: 'provider'", async (_, handler, message) => {
    const webhooks = { sources: { awardee: awardeeSource({ retries: 'provider' }) } };
    await expect(boot(handler, {}, { webhooks })).rejects.toThrow(message);
  });

  it.each([
    [10, false],
    [11, false],
    [9, true],
  ])(
    'relay.handlers: %i with a pool of 10: handlers that could take every connection',
    async (handlers, fine) => {
      const booted = boot({}, {}, { poolSize: 10, webhooks: { relay: { handlers } } });
      if (fine) await booted;
      else
        await expect(booted).rejects.toThrow(
          /relay\.handlers.*expected less than the DataSource's poolSize \(10\), received 1/,
        );
    },
  );

  it.each<[string, HandlerOptions, EffectOptions]>([
    [
      'what is meant together',
      { key, onDead: 'block', batch: 5 },
      { probe, probeFirst: true, inDoubt: 'park' },
    ],
    ['fewer attempts within the key', {}, { keyRetention: '1h', retry: { maxAttempts: 3 } }],
    ['a key that is never forgotten', {}, { keyRetention: false, retry: { maxAttempts: 1_000 } }],
    [
      'a time-out longer than the lease of the relay, which is renewed',
      { timeout: '10m' },
      { timeout: '10m' },
    ],
  ])('but not %s', async (_, handler, effect) => {
    await boot(handler, effect);
  });
});
