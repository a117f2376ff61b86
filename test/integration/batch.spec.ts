import { Injectable, type Type } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type BatchContext,
  type BatchEvent,
  type Enqueued,
  type HandlerOptions,
} from '../../src/index.js';
import { outboxId } from '../../src/core/ids.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { record, startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';

const SIZE = 10;
type Code = (events: readonly BatchEvent[], context: BatchContext) => unknown;

let database: TestDatabase;
let inboxes: TestInbox[];
let code: Code;
/** The events of each call. */
let calls: string[][];

/** A class with one handler of batches; its code is `code`. */
function batched(options: HandlerOptions): Type {
  @Injectable()
  class Batched {
    @OnWebhook('awardee', '*', { name: 'batch', batch: SIZE, ...options })
    handle(events: readonly BatchEvent[], context: BatchContext) {
      calls.push(events.map((event) => event.eventId));
      return code(events, context);
    }

    @OnEffect('mail')
    mail() {}
  }
  return Batched;
}

async function start(options: HandlerOptions = {}, setup: InboxSetup = {}): Promise<TestInbox> {
  const inbox = await startInbox({ database, providers: [batched(options)], ...setup });
  inboxes.push(inbox);
  return inbox;
}

const deliver = async (inbox: TestInbox, count: number) => {
  for (let index = 0; index < count; index += 1) await inbox.deliver(String(index));
};
const recordAll: Code = async (events, { manager }) => {
  for (const event of events) await record(event, { manager });
};
const applied = () => database.query(`SELECT event_id, applied_count FROM received_event ORDER BY event_id`);
const once = (...ids: string[]) => ids.map((event_id) => ({ event_id, applied_count: 1 }));
const ids = (count: number) => Array.from({ length: count }, (_, index) => String(index));

beforeEach(async () => {
  database = await createDatabase();
  inboxes = [];
  calls = [];
  code = recordAll;
});
afterEach(async () => {
  for (const inbox of inboxes) await inbox.stop();
  await database.drop();
});

it('up to so many events are handled in one transaction', async () => {
  const transactions = new Set<string>();
  code = async (events, { manager }) => {
    const [row] = await manager.query<{ id: string }[]>(`SELECT pg_current_xact_id()::text AS id`);
    transactions.add(row!.id);
    await recordAll(events, { manager, signal: AbortSignal.abort() });
    return 'imported';
  };
  const inbox = await start({ concurrency: 1 });
  await deliver(inbox, 14);
  expect(await inbox.relay.tick()).toMatchObject({ leased: SIZE, done: SIZE });
  expect(await inbox.relay.tick()).toMatchObject({ leased: 4, done: 4 });
  expect(calls.map((events) => events.length)).toEqual([SIZE, 4]);
  expect(transactions.size).toBe(2);
  expect(await applied()).toHaveLength(14);
  expect(await inbox.query(`SELECT DISTINCT outcome FROM webhook_event`)).toEqual([
    { outcome: 'awardee/batch: imported' },
  ]);
});

it('what is leased for two slots makes two batches', async () => {
  const inbox = await start({ concurrency: 2 });
  await deliver(inbox, 2 * SIZE);
  expect(await inbox.relay.tick()).toMatchObject({ leased: 2 * SIZE, done: 2 * SIZE });
  expect(calls.map((events) => events.length)).toEqual([SIZE, SIZE]);
});

it('one that fails is split until the culprit stands alone, and the others are done in the same round', async () => {
  code = async (events, context) => {
    await recordAll(events, context);
    if (events.some(({ eventId }) => eventId === '3')) throw new PermanentError('event 3');
  };
  const inbox = await start();
  await deliver(inbox, SIZE);
  expect(await inbox.relay.tick()).toMatchObject({ leased: SIZE, done: SIZE - 1, dead: 1 });
  expect(await inbox.rows(`state = 'dead'`)).toMatchObject([
    { event_id: '3', error: expect.stringContaining('event 3') },
  ]);
  expect(await applied()).toEqual(once(...ids(SIZE).filter((id) => id !== '3')));
  expect(calls).toContainEqual(['3']);
  // Halving, not one by one.
  expect(calls.length).toBeLessThan(SIZE);
});

it('a body that cannot be read fails alone, before the transaction', async () => {
  const inbox = await start();
  await inbox.deliver('bad', 't', '{');
  await deliver(inbox, 3);
  expect(await inbox.relay.tick()).toMatchObject({ done: 3, dead: 1 });
  expect(calls).toEqual([ids(3)]);
});

it('a deadlock with another transaction costs no event and no attempt', async () => {
  let deadlocks = 1;
  code = async (events, context) => {
    await recordAll(events, context);
    if (deadlocks-- > 0) await context.manager.query(`DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$`);
  };
  const inbox = await start();
  await deliver(inbox, 4);
  expect(await inbox.relay.tick()).toMatchObject({ done: 4, retried: 0 });
  expect(await applied()).toEqual(once(...ids(4)));
});

it('a row whose last attempt never ended runs alone', async () => {
  const inbox = await start();
  await deliver(inbox, 5);
  await inbox.query(
    `UPDATE webhook_outbox SET attempt = 1, leased_by = gen_random_uuid(), lease_until = now() WHERE event_id = '2'`,
  );
  await inbox.relay.tick();
  expect(calls.toSorted((a, b) => a.length - b.length)).toEqual([['2'], ['0', '1', '3', '4']]);
});

it('an effect belongs to the event that enqueued it, under the id it would have had alone', async () => {
  code = async (events) => {
    for (const event of events) await event.enqueue('mail', { for: event.eventId });
  };
  const inbox = await start();
  await deliver(inbox, 3);
  await inbox.relay.tick();
  const handlers = await inbox.rows(`kind = 'handler'`);
  const effects = await inbox.rows(`kind = 'effect'`);
  expect(effects.map(({ id, event_id, parent_id }) => ({ id, event_id, parent_id }))).toEqual(
    handlers.map(({ id, event_id }) => ({ id: outboxId(id, 'mail'), event_id, parent_id: id })),
  );
});

it('effects that are enqueued at once go in one statement, each told whether it was there', async () => {
  const enqueued: Enqueued[] = [];
  code = async (events) => {
    enqueued.push(
      ...(await Promise.all(events.map((event) => event.enqueue('mail', { for: event.eventId })))),
    );
  };
  const inbox = await start();
  await deliver(inbox, 3);
  const [there] = await inbox.rows(`event_id = '1'`);
  await database.query(
    `INSERT INTO webhook_outbox (id, kind, name, parent_id, source, tenant, event_id)
     SELECT $1, 'effect', 'mail', id, source, tenant, event_id FROM webhook_outbox WHERE id = $2`,
    [outboxId(there!.id, 'mail'), there!.id],
  );
  await database.query(`CREATE TABLE inserted (rows int)`);
  await database.query(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO inserted SELECT count(*) FROM added; RETURN NULL; END $$`);
  await database.query(
    `CREATE TRIGGER note AFTER INSERT ON webhook_outbox REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note()`,
  );
  await inbox.relay.tick();
  expect(enqueued.map(({ existing }) => existing)).toEqual([false, true, false]);
  expect(await database.query(`SELECT rows FROM inserted`)).toEqual([{ rows: 2 }]);
});

it('effects with large payloads are enqueued at once, too, in as many statements as they need', async () => {
  const large = 'x'.repeat(900_000);
  code = async (events) => {
    await Promise.all(events.map((event) => event.enqueue('mail', { large, for: event.eventId })));
  };
  const inbox = await start();
  await deliver(inbox, 6);
  await inbox.relay.tick();
  const sizes = await database.query<{ bytes: number }>(
    `SELECT octet_length(payload) AS bytes FROM webhook_outbox_data`,
  );
  expect(sizes).toHaveLength(6);
  expect(sizes.every(({ bytes }) => bytes > 900_000)).toBe(true);
});

it('a lease that was lost takes its own event out of the batch, and nothing of it is written', async () => {
  const inbox = await start();
  await deliver(inbox, 4);
  let stolen = false;
  code = async (events, context) => {
    await recordAll(events, context);
    if (stolen) return;
    stolen = true;
    await database.query(
      `UPDATE webhook_outbox SET attempt = attempt + 1, leased_by = gen_random_uuid() WHERE event_id = '1'`,
    );
  };
  expect(await inbox.relay.tick()).toMatchObject({ done: 3, lost: 1 });
  expect(await applied()).toEqual(once('0', '2', '3'));
});

it('two relays share the events of a handler, in opposite orders too, and each event is handled once', async () => {
  code = async (events, context) => recordAll(calls.length % 2 === 0 ? events : events.toReversed(), context);
  const relays = [
    await start({ skipStale: { key: ({ eventId }) => eventId } }),
    await start({ skipStale: { key: ({ eventId }) => eventId } }),
  ];
  await deliver(relays[0]!, 60);
  const reports = await Promise.all(relays.map((inbox) => inbox.relay.drain({ maxMs: 10_000 })));
  expect(reports.reduce((sum, { done }) => sum + done, 0)).toBe(60);
  expect(await applied()).toEqual(once(...ids(60).toSorted()));
});

describe('skipStale within a batch', () => {
  const options: HandlerOptions = {
    skipStale: {
      key: ({ payload }) => (payload as { key: string }).key,
      at: ({ payload }) => new Date((payload as { at: string }).at),
    },
  };

  it('what something newer of the same batch has made old is not handled', async () => {
    const inbox = await start(options);
    await inbox.deliver('new', 't', { key: 'a', at: '2026-01-02T00:00:00Z' });
    await inbox.deliver('old', 't', { key: 'a', at: '2026-01-01T00:00:00Z' });
    await inbox.deliver('other', 't', { key: 'b', at: '2025-01-01T00:00:00Z' });
    expect(await inbox.relay.tick()).toMatchObject({ done: 2, superseded: 1 });
    expect(calls).toEqual([['new', 'other']]);
  });

  it('a batch that fails takes its marks back with it', async () => {
    code = () => {
      throw new Error('on purpose');
    };
    const inbox = await start(options);
    await inbox.deliver('new', 't', { key: 'a', at: '2026-01-02T00:00:00Z' });
    await inbox.relay.tick();
    expect(await inbox.query('SELECT FROM webhook_watermark')).toEqual([]);
  });
});

it('a batch that was split is not aborted for the rows that it has settled: its lease is renewed by the others', async () => {
  const first = new Latch();
  const alone = new Latch();
  code = async (events, { signal }) => {
    if (events.length > 1) {
      first.open();
      throw new Error('on purpose');
    }
    if (events[0]!.eventId === '0') return;
    alone.arrived += 1;
    await alone.wait();
    signal.throwIfAborted();
  };
  const inbox = await start({}, { webhooks: { relay: { lease: '3s' } } });
  await deliver(inbox, 2);
  const tick = inbox.relay.tick();
  while (alone.arrived === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  for (let renewal = 0; renewal < 14; renewal += 1) {
    await inbox.work.renew();
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  alone.open();
  expect(await tick).toMatchObject({ done: 2 });
});
