import { Injectable, type Type } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  Outbox,
  Parked,
  Replays,
  Revivals,
  type CompletionContext,
  type EffectContext,
  type HandlerContext,
  type ReplayOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const why: ReplayOptions = { by: 'a test', reason: 'to see' };
const event = (eventId: string) => ({ source: 'awardee', tenant: '', eventId });
const one = { events: [event('1')] };

let database: TestDatabase;
let inbox: TestInbox;
let script: Partial<Script>;
let sent: { key: string; payload: unknown }[];

async function start(...providers: Type[]): Promise<void> {
  inbox = await startInbox({ database, providers: providers.length > 0 ? providers : [scripted(script)] });
}
async function restart(...providers: Type[]): Promise<void> {
  await inbox.stop();
  await start(...providers);
}
const replays = () => inbox.app.get(Replays);
const applied = async () =>
  (await inbox.query<{ applied_count: number }>('SELECT applied_count FROM received_event')).map(
    (row) => row.applied_count,
  );

beforeEach(async () => {
  database = await createDatabase();
  sent = [];
  script = {
    handle: async (received, context) => {
      await record(received, context);
      await context.enqueue('mail', { attempt: context.attempt });
    },
    effect: (payload, { key }) => void sent.push({ key, payload }),
  };
});
afterEach(async () => {
  await inbox.stop();
  await database.drop();
});

describe('a replay', () => {
  it('previews what runs and which effects stay done, and changes nothing', async () => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    const before = await inbox.rows();
    const [handler, effect] = before;
    expect(await replays().preview(one)).toMatchObject([
      {
        event: event('1'),
        run: [{ handler: 'awardee/handle', rowId: handler!.id }],
        staysDone: [{ id: effect!.id, name: 'mail', key: '' }],
        refired: [],
      },
    ]);
    expect(await replays().preview(one, ['mail'])).toMatchObject([
      { staysDone: [], refired: [{ id: effect!.id }] },
    ]);
    expect(await inbox.rows()).toEqual(before);
  });

  it('R06 R25 runs the handler again under its id; what is done is not done again', async () => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    const before = await inbox.rows();
    expect(await replays().run(one, why)).toMatchObject({ replayed: 1, skipped: 0, refused: [] });
    await inbox.settle();
    expect(await applied()).toEqual([2]);
    expect((await inbox.rows()).map((row) => row.id)).toEqual(before.map((row) => row.id));
    expect(sent).toHaveLength(1);
    expect(await inbox.query('SELECT replayed_by, reason FROM webhook_replay')).toEqual([
      { replayed_by: 'a test', reason: 'to see' },
    ]);
  });

  it('refire makes a new, recorded generation, once, also when the replay is run again under its id', async () => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    const { id } = await replays().run(one, { ...why, refire: ['mail'] });
    expect(await replays().run(one, { ...why, refire: ['mail'], id })).toMatchObject({
      replayed: 0,
      skipped: 1,
      refused: [],
    });
    await inbox.settle();
    expect(await replays().run(one, { ...why, refire: ['mail'], id })).toMatchObject({
      replayed: 0,
      skipped: 1,
    });
    await inbox.settle();
    expect(new Set(sent.map(({ key }) => key)).size).toBe(2);
    expect(sent).toHaveLength(2);
    expect(await inbox.query('SELECT effect, generation, replay_id FROM webhook_refire')).toEqual([
      { effect: 'mail', generation: 1, replay_id: id },
    ]);
    // A replay without it stays in that generation.
    await replays().run(one, why);
    await inbox.settle();
    expect(sent).toHaveLength(2);
    await replays().run(one, { ...why, refire: ['mail'] });
    await inbox.settle();
    expect(new Set(sent.map(({ key }) => key)).size).toBe(3);
  });

  it('refires what an effect enqueued with that effect, and refuses to refire it without', async () => {
    @Injectable()
    class Chain {
      @OnWebhook('awardee', '*', { name: 'chain' })
      handle(_event: WebhookEvent, { enqueue }: HandlerContext) {
        return enqueue('first', {});
      }

      @OnEffect('first')
      async first(_payload: unknown, { key, complete }: EffectContext) {
        sent.push({ key, payload: 'first' });
        await complete(({ enqueue }: CompletionContext) => enqueue('second', {}));
      }

      @OnEffect('second')
      second(_payload: unknown, { key }: EffectContext) {
        sent.push({ key, payload: 'second' });
      }
    }
    await start(Chain);
    await inbox.deliver('1');
    await inbox.settle();
    const [plan] = await replays().preview(one, ['first']);
    expect(plan!.refired.map(({ name }) => name)).toEqual(['first', 'second']);
    await replays().run(one, { ...why, refire: ['first'] });
    await inbox.settle();
    expect(sent.map(({ payload }) => payload)).toEqual(['first', 'second', 'first', 'second']);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(4);
    const { refused } = await replays().run(one, { ...why, refire: ['second'] });
    expect(refused).toMatchObject([{ refused: expect.stringContaining(`by 'first'`) }]);
  });

  it('R25 runs a handler that was added since', async () => {
    await start(scripted({}, { handler: { name: 'old' }, effect: false }));
    await inbox.deliver('1');
    await inbox.deliver('unmatched');
    await inbox.settle();
    await restart(
      scripted({}, { handler: { name: 'old' }, effect: false }),
      scripted(script, { handler: { name: 'new' } }),
    );
    expect(await replays().run(one, why)).toMatchObject({ replayed: 1 });
    await inbox.settle();
    expect(await applied()).toEqual([1]);
    expect(
      (await inbox.rows(`event_id = '1' AND kind = 'handler'`)).map((row) => row.name).toSorted(),
    ).toEqual(['awardee/new', 'awardee/old']);
  });

  it('is refused where a handler of then is unknown, until `was` says which of today it is', async () => {
    await start(scripted(script, { handler: { name: 'then' } }));
    await inbox.deliver('1');
    await inbox.settle();
    await restart(scripted(script, { handler: { name: 'now' } }));
    const { refused } = await replays().run(one, why);
    expect(refused).toMatchObject([{ refused: expect.stringContaining(`{ was: ['then'] }`) }]);
    await restart(scripted(script, { handler: { name: 'now', was: ['then'] } }));
    expect(await replays().run(one, why)).toMatchObject({ replayed: 1 });
    await inbox.settle();
    expect([await applied(), sent.length]).toEqual([[2], 1]);
  });

  it.each([
    ['no such event', `DELETE FROM webhook_claim`, 'no such event'],
    ['a body that is gone', `UPDATE webhook_claim SET body = NULL`, 'body was removed'],
    [
      'a handler that has not ended',
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL`,
      'has not ended yet',
    ],
    [
      'a handler that a person has parked',
      `UPDATE webhook_outbox SET state = 'parked', reason = 'by-person', settled_at = NULL WHERE kind = 'handler'`,
      'decide about it first',
    ],
  ])('is refused for %s, with the reason, and changes nothing', async (_, sql, reason) => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    await inbox.query(sql);
    const before = await inbox.rows();
    const { replayed, refused } = await replays().run(one, why);
    expect(replayed).toBe(0);
    expect(refused).toMatchObject([{ refused: expect.stringContaining(reason) }]);
    expect(await inbox.rows()).toEqual(before);
    expect(await inbox.query('SELECT FROM webhook_replay')).toEqual([]);
  });

  it('names an effect that nobody has before it touches anything', async () => {
    await start();
    await expect(replays().run(one, { ...why, refire: ['mial'] })).rejects.toMatchObject({
      code: 'UNKNOWN_EFFECT',
    });
  });

  it.each<[string, () => Promise<unknown>]>([
    ['a replay', () => replays().run(one, why)],
    ["a person's revival", async () => inbox.app.get(Revivals).revive([(await inbox.rows())[0]!.id], why)],
    ["a redelivery's revival", () => inbox.deliver('1')],
  ])('a row that died in the lane of lost ones has its attempts and no more after %s', async (_, again) => {
    script.handle = () => Promise.reject(new Error('down'));
    await start(scripted(script, { handler: { retry: { maxAttempts: 2 } } }));
    await inbox.deliver('1');
    await inbox.settle();
    await inbox.query(`UPDATE webhook_outbox SET alone = true, reason = 'last-attempt-lost'`);
    await again();
    await inbox.settle();
    expect(await inbox.rows()).toMatchObject([{ state: 'dead', attempt: 4, reason: 'attempts-exhausted' }]);
  });

  it('of two at once each event is run by both or by one, and never mixed', async () => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    const reports = await Promise.all([replays().run(one, why), replays().run(one, why)]);
    expect(reports.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(1);
    await inbox.settle();
    expect(await applied()).toEqual([2]);
  });

  it('leaves effects from outside of a run alone', async () => {
    await start();
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'mail', {}, { key: 'k', outsideTransaction: true });
    await inbox.deliver('1');
    await inbox.settle();
    await replays().run({ source: 'awardee' }, { ...why, refire: ['mail'] });
    await inbox.settle();
    expect(sent).toHaveLength(3);
  });
});

describe('a bulk replay', () => {
  beforeEach(async () => {
    await start();
    for (let index = 0; index < 6; index += 1)
      await inbox.deliver(String(index), index < 4 ? 'grant.made' : 'other');
    await inbox.settle();
  });
  const done = async () =>
    (
      await inbox.query<{ event_id: string }>(
        `SELECT event_id FROM received_event WHERE applied_count > 1 ORDER BY event_id`,
      )
    ).map((row) => row.event_id);

  it('takes the events that fit, oldest first, and no more than its limit', async () => {
    expect(await replays().run({ type: 'grant.*', limit: 3 }, why)).toMatchObject({ replayed: 3 });
    await inbox.settle();
    expect(await done()).toEqual(['0', '1', '2']);
  });

  it('goes on under its id where it was stopped, and tells how far it is', async () => {
    const stop = new AbortController();
    const progress: number[] = [];
    const first = await replays().run(
      { type: 'grant.*' },
      {
        ...why,
        signal: stop.signal,
        onProgress: ({ replayed }) => {
          progress.push(replayed);
          if (replayed === 2) stop.abort();
        },
      },
    );
    expect([first.replayed, progress]).toEqual([2, [1, 2]]);
    expect(await replays().run({ type: 'grant.*' }, { ...why, id: first.id })).toMatchObject({
      id: first.id,
      replayed: 2,
      skipped: 0,
      refused: [],
    });
    await inbox.settle();
    expect(await done()).toEqual(['0', '1', '2', '3']);
    expect(await replays().run({ type: 'grant.*' }, { ...why, id: first.id })).toMatchObject({ replayed: 0 });
  });

  it('keeps to its rate, and a stop does not wait for it', async () => {
    const startedAt = performance.now();
    await replays().run({ type: 'grant.*' }, { ...why, perSecond: 20 });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(145);
    await inbox.settle();
    const stop = new AbortController();
    const report = await replays().run(
      { type: 'grant.*' },
      {
        ...why,
        perSecond: 0.001,
        signal: stop.signal,
        onProgress: () => void setTimeout(() => stop.abort(), 10),
      },
    );
    expect(report.replayed).toBe(1);
  });
});

describe('what is asked for', () => {
  it.each([
    [{ evnt: 'x' }, "selection: unknown option 'evnt'"],
    [{ source: 1 }, 'selection.source: expected string, received 1'],
    [{}, 'say { all: true } for every event'],
    [{ limit: 5 }, 'say { all: true } for every event'],
  ])('is refused when it is no selection: %j', async (selection, message) => {
    await start();
    await inbox.deliver('1');
    const refused = { code: 'INPUT_REFUSED', message: expect.stringContaining(message) as string };
    await expect(replays().preview(selection as never)).rejects.toMatchObject(refused);
    await expect(replays().run(selection as never, why)).rejects.toMatchObject(refused);
  });

  it('is everything with all: true, and an event without a tenant', async () => {
    await start();
    await inbox.deliver('1');
    await inbox.settle();
    expect(await replays().preview({ all: true })).toHaveLength(1);
    const [plan] = await replays().preview({ events: [{ source: 'awardee', eventId: '1' }] });
    expect(plan).toMatchObject({ event: event('1'), run: [{ handler: 'awardee/handle' }] });
  });

  it('is refused where an outbox id is none, before PostgreSQL sees it', async () => {
    await start();
    const refused = {
      code: 'INPUT_REFUSED',
      message: expect.stringContaining('expected an outbox id') as string,
    };
    await expect(inbox.app.get(Revivals).revive(['xyz'], why)).rejects.toMatchObject(refused);
    await expect(inbox.app.get(Parked).decide('xyz', 'done', why)).rejects.toMatchObject(refused);
  });
});

it('an event that nobody handled says so until a handler has run it, although it is still owed nothing', async () => {
  inbox = await startInbox({ database });
  await inbox.deliver('1');
  const seen = async () => (await inbox.query(`SELECT state, outcome, owed FROM webhook_event`))[0];
  expect(await seen()).toEqual({ state: 'skipped', outcome: 'no handler matched', owed: 0 });
  script.handle = () => 'granted';
  await restart();
  await replays().run(one, why);
  await inbox.settle();
  expect(await seen()).toEqual({ state: 'processed', outcome: 'awardee/handle: granted', owed: 0 });
});
