import { createHmac } from 'node:crypto';
import { hmac, Inbox, RetryAfter, type Answer } from '../../src/index.js';
import type { EventKey } from '../../src/core/event.js';
import { outboxId, uuidV7 } from '../../src/core/ids.js';
import { ClaimStore, type NewClaim } from '../../src/storage/claim.store.js';
import { until } from '../support/application.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
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

const OK = { status: 200, body: { status: 'ok' } };
const DUPLICATE = { status: 200, body: { status: 'duplicate' } };
const UNAVAILABLE = { status: 503, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } };

const SOURCES = {
  awardee: awardeeSource({ retriesSameBytes: true }),
  grants: awardeeSource(),
  wary: awardeeSource({ suspectedReplays: 'refuse' }),
  inline: awardeeSource(),
  waited: awardeeSource({ retries: 'provider' }),
  silent: awardeeSource(),
  /** A vendor that sends several events in one body. */
  batched: hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    eventsPath: 'events',
    idPath: 'id',
    typePath: 'type',
  }),
};

const script: Partial<Script> = {};
let inbox: TestInbox;

beforeAll(async () => {
  inbox = await startInbox({
    webhooks: { sources: SOURCES },
    providers: [
      scripted(script, { sources: ['awardee', 'grants', 'wary', 'batched', 'waited'] }),
      scripted(script, { sources: ['inline'], handler: { inline: true }, effect: false }),
    ],
    poolSize: 20,
  });
});
beforeEach(() => {
  script.handle = record;
  script.effect = undefined;
  inbox.alerts.length = 0;
});
afterEach(async () => {
  await clear(inbox.database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(() => inbox?.stop());

describe('a header that jsonb refuses', () => {
  it('is kept as far as it can be: a verified event is never refused for it', async () => {
    const { headers, body } = awardee('odd', 'grant.made', {});
    const odd = { ...headers, 'user-agent': 'a\u0000b\ud800c' };
    expect(await inbox.app.get(Inbox).receive('awardee', { headers: odd, rawBody: body })).toMatchObject(OK);
    expect(await inbox.query(`SELECT headers->>'user-agent' AS agent FROM webhook_claim`)).toEqual([
      { agent: 'a\u2400b\ufffdc' },
    ]);
  });
});

describe('case 1 a claim tells truly who won it', () => {
  const key: EventKey = { source: 'awardee', tenant: '', eventId: 'e-1' };

  it('the first claim of an event is won, the second is not, and its rows are not inserted', async () => {
    const claims = inbox.app.get(ClaimStore);
    const { manager } = inbox.dataSource;
    const [first, second] = [newClaim(key), newClaim(key)];
    expect(await claims.claim(manager, [first])).toMatchObject([{ won: true, receivedAt: expect.any(Date) }]);
    expect(await claims.claim(manager, [second])).toMatchObject([{ won: false, receivedAt: undefined }]);
    expect(await claims.find(manager, key)).toMatchObject({ id: first.id });
    expect(await inbox.rows()).toMatchObject([{ id: first.rows[0]!.id }]);
  });

  it('in a batch each claim is told for itself, in the order in which it was given', async () => {
    const claims = inbox.app.get(ClaimStore);
    const { manager } = inbox.dataSource;
    await claims.claim(manager, [newClaim({ ...key, eventId: 'e-2' })]);
    const batch = ['e-1', 'e-2', 'e-3'].map((eventId) => newClaim({ ...key, eventId }));
    expect((await claims.claim(manager, batch)).map(({ won }) => won)).toEqual([true, false, true]);
    expect(await inbox.rows()).toHaveLength(3);
  });

  it('one that waits for another transaction wins when that rolls back, and does not when it commits', async () => {
    const claims = inbox.app.get(ClaimStore);
    for (const end of ['ROLLBACK', 'COMMIT'] as const) {
      const event = { ...key, eventId: end };
      const runner = inbox.dataSource.createQueryRunner();
      await runner.startTransaction();
      await claims.claim(runner.manager, [newClaim(event)]);
      const waiting = claims.claim(inbox.dataSource.manager, [newClaim(event)]);
      await until(async () => (await waiters()) === 1);
      await (end === 'COMMIT' ? runner.commitTransaction() : runner.rollbackTransaction());
      await runner.release();
      expect(await waiting).toMatchObject([{ won: end === 'ROLLBACK' }]);
    }
  });
});

describe('R01 R02 R26 what makes an event one', () => {
  it('a delivery of a known event is answered 200 and brings no work, before and after the event was handled', async () => {
    expect(await inbox.deliver('d-1')).toMatchObject(OK);
    expect(await inbox.deliver('d-1')).toMatchObject(DUPLICATE);
    await inbox.settle();
    expect(await inbox.deliver('d-1')).toMatchObject(DUPLICATE);
    expect(await inbox.relay.tick()).toMatchObject({ leased: 0 });
    expect(await applied()).toEqual({ 'awardee/d-1': 1 });
  });

  it('another id with equal bytes is another event, and so is the same id of another source', async () => {
    for (const [source, id] of [
      ['awardee', 'd-1'],
      ['awardee', 'd-2'],
      ['grants', 'd-1'],
    ] as const) {
      expect(await inbox.deliverTo(source, id, { amount: 5 })).toMatchObject(OK);
    }
    await inbox.settle();
    expect(await applied()).toEqual({ 'awardee/d-1': 1, 'awardee/d-2': 1, 'grants/d-1': 1 });
  });

  it('R25 an event that no handler matches is kept byte for byte, and is skipped', async () => {
    expect(await inbox.deliverTo('silent', 'd-1', '{"a" :1.0}')).toMatchObject(OK);
    expect(await inbox.query(`SELECT state, outcome FROM webhook_event`)).toEqual([
      { state: 'skipped', outcome: 'no handler matched' },
    ]);
    expect(await bodies()).toEqual({ 'd-1': '{"a" :1.0}' });
  });
});

describe('R17 R34 the primary key decides a race', () => {
  it('of 50 equal deliveries at once one is answered ok and 49 duplicate, and the event is handled once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => inbox.deliver(`d-${round}`)));
      expect(count(answers)).toEqual({ ok: 1, duplicate: 49 });
    }
    await inbox.settle();
    expect(Object.values(await applied())).toEqual([1, 1, 1, 1, 1]);
  });

  it('inline, the losers are answered 503 until the winner has committed, and none of them holds a connection', async () => {
    const winner = delayed(() => inbox.deliverTo('inline', 'd-1'));
    await winner.handling;
    const losers = await Promise.all(Array.from({ length: 49 }, () => inbox.deliverTo('inline', 'd-1')));
    expect(count(losers)).toEqual({ unavailable: 49 });
    expect(losers[0]).toMatchObject(UNAVAILABLE);
    expect(await waiters()).toBe(0);
    expect(await inbox.deliverTo('inline', 'd-2')).toMatchObject(OK);
    winner.goOn();
    expect(await winner.answer).toMatchObject(OK);
    expect(await inbox.deliverTo('inline', 'd-1')).toMatchObject(DUPLICATE);
    expect(await applied()).toEqual({ 'inline/d-1': 1, 'inline/d-2': 1 });
  });

  it('inline, when the winner rolls back, a redelivery becomes the owner', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      throw new Error('no');
    };
    expect(await inbox.deliverTo('inline', 'd-1')).toMatchObject(OK);
    script.handle = record;
    expect(await applied()).toEqual({});
    await inbox.settle();
    expect(await applied()).toEqual({ 'inline/d-1': 1 });
  });

  it('under retries: provider a redelivery that arrives while the first is handled is answered 503', async () => {
    const first = delayed(() => inbox.deliverTo('waited', 'd-1'));
    await first.handling;
    expect(await inbox.deliverTo('waited', 'd-1')).toMatchObject(UNAVAILABLE);
    first.goOn();
    expect(await first.answer).toMatchObject(OK);
    expect(await inbox.deliverTo('waited', 'd-1')).toMatchObject(DUPLICATE);
    expect(await applied()).toEqual({ 'waited/d-1': 1 });
  });

  /** A delivery whose handler waits after its write. */
  function delayed(deliver: () => Promise<Answer>) {
    let goOn: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    let answer: Promise<Answer> | undefined;
    const handling = new Promise<void>((resolve) => {
      script.handle = async (event, context) => {
        script.handle = record;
        await record(event, context);
        resolve();
        await gate;
      };
      answer = deliver();
    });
    return { handling, goOn, answer: answer! };
  }
});

describe('case 2 R13 R35 a first delivery that fails leaves nothing that stops the second', () => {
  const slow = (error: unknown) => new Promise((_, reject) => setTimeout(() => reject(error as Error), 200));
  const faults: [string, () => unknown][] = [
    ['throws', () => Promise.reject(new Error('no'))],
    ['throws what is no Error', () => Promise.reject('no')],
    ['rejects after a while', () => slow(new Error('no'))],
    ['throws nothing at all', () => Promise.reject(undefined)],
  ];

  it.each(faults)('a handler that %s', async (_, fault) => {
    const sent = new Set<string>();
    script.effect = (_payload, { key }) => void sent.add(key);
    script.handle = async (event, context) => {
      await record(event, context);
      await context.enqueue('mail', {});
      if (context.attempt === 1) await fault();
    };
    expect(await inbox.deliverTo('waited', 'd-1')).toMatchObject({ status: 500 });
    expect(await applied()).toEqual({});
    expect(await inbox.rows(`kind = 'effect'`)).toEqual([]);

    expect(await inbox.deliverTo('waited', 'd-1')).toMatchObject(OK);
    expect(await inbox.deliverTo('waited', 'd-1')).toMatchObject(DUPLICATE);
    await inbox.settle();
    expect(await applied()).toEqual({ 'waited/d-1': 1 });
    expect(sent.size).toBe(1);
  });
});

describe('batches of events', () => {
  it('in opposite orders never deadlock, and each event is claimed once', async () => {
    const before = await deadlocks();
    for (let round = 0; round < 10; round += 1) {
      const ids = Array.from({ length: 30 }, (_, index) => `${round}-${index}`);
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, index) => deliverBatch(index % 2 === 0 ? ids : ids.toReversed())),
      );
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 200));
      expect(answers.filter(({ body }) => (body as { status: string }).status === 'ok')).toHaveLength(1);
    }
    expect(await inbox.query(`SELECT FROM webhook_claim`)).toHaveLength(300);
    expect((await deadlocks()) - before).toBe(0);
  });

  it('case 35 one that PostgreSQL refuses does not keep the others out, wherever in the batch it is', async () => {
    await inbox.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.event_id LIKE 'bad%' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`);
    await inbox.query(
      `CREATE TRIGGER refuse BEFORE INSERT ON webhook_claim FOR EACH ROW EXECUTE FUNCTION refuse()`,
    );
    try {
      expect(await deliverBatch(['a', 'bad', 'c'])).toMatchObject(UNAVAILABLE);
      expect(Object.keys(await bodies())).toEqual(['a', 'c']);
    } finally {
      await inbox.query(`DROP TRIGGER refuse ON webhook_claim`);
    }
    expect(await deliverBatch(['a', 'bad', 'c'])).toMatchObject(OK);
    expect(Object.keys(await bodies())).toEqual(['a', 'bad', 'c']);
  });

  it('one that another transaction holds does not keep the others out', async () => {
    const impatient = await startInbox({
      database: inbox.database,
      webhooks: { sources: SOURCES, claimTimeout: '200ms' },
    });
    const runner = inbox.dataSource.createQueryRunner();
    await runner.startTransaction();
    const held = newClaim({ source: 'batched', tenant: '', eventId: 'a' });
    await inbox.app.get(ClaimStore).claim(runner.manager, [held]);
    try {
      expect(await deliverBatch(['a', 'b', 'c'], impatient)).toMatchObject(UNAVAILABLE);
      await until(async () => Object.keys(await bodies()).length === 2);
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
      await impatient.stop();
    }
    expect(await deliverBatch(['a', 'b', 'c'])).toMatchObject(OK);
  });

  it('case 35 a poisonous event of a batch fails alone, and a redelivery of the batch runs nothing again', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      if (event.eventId === 'b') throw new RetryAfter(3_600_000, 'poison');
    };
    expect(await deliverBatch(['a', 'b', 'c'])).toMatchObject(OK);
    await inbox.relay.tick();
    expect(await deliverBatch(['a', 'b', 'c'])).toMatchObject(DUPLICATE);
    await inbox.relay.tick();
    expect(await applied()).toEqual({ 'batched/a': 1, 'batched/c': 1 });
    expect((await inbox.rows(`event_id = 'b'`))[0]).toMatchObject({ state: 'pending', attempt: 1 });
  });

  function deliverBatch(ids: readonly string[], to = inbox): Promise<Answer> {
    return to.deliverTo('batched', '', { events: ids.map((id) => ({ id, type: 'grant.made' })) });
  }

  async function deadlocks(): Promise<number> {
    const [row] = await inbox.query<{ deadlocks: number }>(
      `SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`,
    );
    return row!.deadlocks;
  }
});

describe('payloads are stored byte for byte', () => {
  const payloads: [string, string][] = [
    ['case 17 an escaped NUL', '{"a":"x\\u0000"}'],
    ['case 17 a lone surrogate', '{"a":"\\ud83d"}'],
    ['case 17 a backslash before what looks like a NUL', '{"a":"\\\\u0000"}'],
    ['case 36 an integer that JavaScript rounds', '{"id":9007199254740993}'],
    ['a number that PostgreSQL refuses', '{"a":1e200000}'],
    ['equal keys', '{"a":1,"a":2}'],
    ['spaces, 1.0, an escape that need not be one, a newline at the end', '{ "b" : 1.0, "a":"\\u00e9é" }\n'],
    ['a key called __proto__', '{"__proto__":{"admin":true}}'],
    ['a byte order mark', '\ufeff{"a":1}'],
    ['nesting of 5,000', `${'['.repeat(5_000)}${']'.repeat(5_000)}`],
  ];

  it.each(payloads)('%s', async (_, text) => {
    let seen: Buffer | undefined;
    script.handle = (event) => {
      seen = event.rawBody;
      return typeof event.payload;
    };
    expect(await inbox.deliver('d-1', 'grant.made', text)).toMatchObject(OK);
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    expect(seen?.toString()).toBe(text);
    expect(await bodies()).toEqual({ 'd-1': text });
  });

  it('bytes that are no text at all, with their id in a header, are kept and dead: unreadable-body', async () => {
    const rawBody = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
    const headers = {
      'content-type': 'application/json',
      'X-Awardee-Delivery': 'd-1',
      'X-Awardee-Event': 'grant.made',
      'X-Awardee-Signature': createHmac('sha256', AWARDEE_SECRET).update(rawBody).digest('hex'),
    };
    expect(await inbox.app.get(Inbox).receive('awardee', { headers, rawBody })).toMatchObject(OK);
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await inbox.query(`SELECT body FROM webhook_claim`)).toEqual([{ body: rawBody }]);
    expect(await inbox.rows()).toMatchObject([{ state: 'dead', reason: 'unreadable-body', attempt: 1 }]);
    expect(await inbox.query(`SELECT state, outcome FROM webhook_event`)).toEqual([
      { state: 'dead', outcome: 'awardee/handle: unreadable-body' },
    ]);
  });

  it('case 36 two ids that JavaScript rounds to one are two events, with their digits', async () => {
    for (const id of ['9007199254740992', '9007199254740993']) {
      expect(await inbox.deliverTo('batched', '', `{"events":[{"id":${id},"type":"t"}]}`)).toMatchObject(OK);
    }
    expect(Object.keys(await bodies())).toEqual(['9007199254740992', '9007199254740993']);
  });
});

describe('R06 case 37 a redelivery of a dead event', () => {
  const die = async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      throw Object.assign(new Error('no such grant'), { status: 404 });
    };
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
  };

  it('gives its dead handler rows new attempts, once, and is answered duplicate', async () => {
    await die();
    expect(await inbox.deliver('d-1')).toMatchObject(DUPLICATE);
    expect(await inbox.rows()).toMatchObject([
      { state: 'pending', attempt: 1, attempt_base: 1, reason: null },
    ]);
    script.handle = record;
    await inbox.settle();
    expect(await applied()).toEqual({ 'awardee/d-1': 1 });
    expect(await inbox.rows()).toMatchObject([{ state: 'done', attempt: 2 }]);
  });

  it('does so only once: a second death stays until a person acts', async () => {
    await die();
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await inbox.deliver('d-1')).toMatchObject(DUPLICATE);
    expect(await inbox.rows()).toMatchObject([{ state: 'dead', attempt: 2 }]);
  });

  it('of many redeliveries at once one revives it', async () => {
    await die();
    const answers = await Promise.all(Array.from({ length: 10 }, () => inbox.deliver('d-1')));
    expect(count(answers)).toEqual({ duplicate: 10 });
    expect(await inbox.rows()).toMatchObject([{ state: 'pending', attempt: 1, attempt_base: 1 }]);
  });

  it('never revives a dead effect, and nothing of an event that a person has erased', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', {}));
    script.effect = () => Promise.reject(Object.assign(new Error('gone'), { status: 410 }));
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    await inbox.deliver('d-1');
    expect(await inbox.rows(`state = 'pending'`)).toEqual([]);

    await inbox.query(`UPDATE webhook_outbox SET state = 'dead' WHERE kind = 'handler'`);
    await inbox.query(`UPDATE webhook_claim SET erased_at = now(), body = NULL`);
    expect(await inbox.deliver('d-1')).toMatchObject(DUPLICATE);
    expect(await inbox.rows(`state = 'pending'`)).toEqual([]);
    expect(await inbox.query(`SELECT body FROM webhook_claim`)).toEqual([{ body: null }]);
  });
});

describe('deliveries that contradict what is known', () => {
  it('other bytes under a known id: the first stay, the conflict is recorded once and a person is told', async () => {
    await inbox.deliver('d-1', 'grant.made', { amount: 1 });
    for (let again = 0; again < 2; again += 1) {
      expect(await inbox.deliver('d-1', 'grant.made', { amount: 2 })).toMatchObject(DUPLICATE);
    }
    expect(await bodies()).toEqual({ 'd-1': '{"amount":1}' });
    expect(await inbox.query(`SELECT event_id, kind, deliveries FROM webhook_conflict`)).toEqual([
      { event_id: 'd-1', kind: 'other-bytes', deliveries: 2 },
    ]);
    expect(inbox.alerts).toContainEqual({
      kind: 'conflict',
      conflict: 'other-bytes',
      event: { source: 'awardee', tenant: '', eventId: 'd-1' },
    });
  });

  // Each event is told of once, and the application lives through all tests: ids of their own.
  it('known bytes under another id that no signature covers: flagged, and taken all the same', async () => {
    await inbox.deliver('twin-1', 'grant.made', { amount: 1 });
    expect(await inbox.deliver('twin-2', 'grant.made', { amount: 1 })).toMatchObject(OK);
    expect(inbox.alerts).toMatchObject([{ kind: 'conflict', conflict: 'suspected-replay' }]);
    await inbox.settle();
    expect(Object.keys(await applied())).toHaveLength(2);
  });

  it('a redelivery of either of two events with the same bytes is a duplicate and no replay', async () => {
    for (const id of ['same-1', 'same-2', 'same-1', 'same-2', 'same-2']) {
      await inbox.deliver(id, 'grant.made', { amount: 1 });
    }
    expect(inbox.alerts).toHaveLength(1);
    expect(await inbox.database.query('SELECT event_id, deliveries FROM webhook_conflict')).toEqual([
      { event_id: 'same-2', deliveries: 1 },
    ]);
  });

  it('known bytes under another id, where the source refuses them: a duplicate, and no claim', async () => {
    await inbox.deliverTo('wary', 'd-1', { amount: 1 });
    expect(await inbox.deliverTo('wary', 'd-2', { amount: 1 })).toMatchObject(DUPLICATE);
    expect(Object.keys(await bodies())).toEqual(['d-1']);
    expect(inbox.alerts).toMatchObject([{ kind: 'conflict', conflict: 'suspected-replay' }]);
  });
});

function newClaim(key: EventKey): NewClaim {
  const id = uuidV7();
  return {
    ...key,
    id,
    type: 'grant.made',
    origin: 'delivery',
    verifiedBy: 'test',
    headers: {},
    body: Buffer.from('{}'),
    rows: [{ id: outboxId(id, 'awardee/handle'), name: 'awardee/handle' }],
  };
}

/** How many answers there were of each kind. */
function count(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { body } of answers) {
    const { status } = body as { status: string };
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

async function applied(): Promise<Record<string, number>> {
  const rows = await inbox.query<{ key: string; applied_count: number }>(
    `SELECT source || '/' || event_id AS key, applied_count FROM received_event ORDER BY 1`,
  );
  return Object.fromEntries(rows.map((row) => [row.key, row.applied_count]));
}

async function bodies(): Promise<Record<string, string>> {
  const rows = await inbox.query<{ event_id: string; body: Buffer }>(
    `SELECT event_id, body FROM webhook_claim ORDER BY event_id`,
  );
  return Object.fromEntries(rows.map((row) => [row.event_id, row.body.toString()]));
}

/** Connections that wait for a lock. */
async function waiters(): Promise<number> {
  const rows = await inbox.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return rows.length;
}
