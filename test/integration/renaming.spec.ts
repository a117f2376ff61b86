import {
  OnEffect,
  Outbox,
  Pauses,
  Replays,
  type EffectOptions,
  type HandlerOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { clear, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

interface Options {
  readonly handler?: HandlerOptions;
  readonly effect?: EffectOptions;
}

const who = { by: 'a test', reason: 'to see' };
const key = ({ payload }: WebhookEvent) => (payload as { key: string }).key;
let database: TestDatabase;
let open: TestInbox[];
let script: Partial<Script>;

beforeAll(async () => {
  database = await createDatabase();
});
beforeEach(() => {
  open = [];
  script = {};
});
afterEach(async () => {
  for (const inbox of open) await inbox.stop();
  await database.query('TRUNCATE webhook_watermark, webhook_pause');
  await clear(database);
});
afterAll(() => database?.drop());

/** A process of before the renaming, or of after it. */
async function version(name: 'old' | 'new', { handler, effect }: Options): Promise<TestInbox> {
  const was = name === 'new' ? ['old'] : [];
  const inbox = await startInbox({
    database,
    providers: [scripted(script, { handler: { ...handler, name, was }, effect })],
  });
  open.push(inbox);
  return inbox;
}

describe('a handler that was renamed, beside a process of before', () => {
  it.each([
    ['before', 'old', 'new'],
    ['after', 'new', 'old'],
  ] as const)(
    'runs one row of an order key at a time, in order: what was claimed %s is first',
    async (_, first, second) => {
      const [older, newer] = [
        await version('old', { handler: { key } }),
        await version('new', { handler: { key } }),
      ];
      const claims = { old: older, new: newer };
      await claims[first].deliver('1', 'x', { key: 'a' });
      await claims[second].deliver('2', 'x', { key: 'a' });
      const ran: string[] = [];
      const latch = new Latch();
      script.handle = async ({ eventId }) => {
        ran.push(eventId);
        await latch.wait();
      };
      const ticking = [newer.relay.tick(), older.relay.tick(), newer.relay.tick()];
      await until(() => ran.length > 0);
      await newer.startRound();
      expect(ran).toEqual(['1']);
      latch.open();
      await Promise.all(ticking);
      await newer.settle();
      expect(ran).toEqual(['1', '2']);
    },
  );

  it('knows what it has handled under its former name: what is older is superseded, and the other way about', async () => {
    const skipStale = { key, at: ({ payload }: WebhookEvent) => new Date((payload as { at: number }).at) };
    const [older, newer] = [
      await version('old', { handler: { skipStale } }),
      await version('new', { handler: { skipStale } }),
    ];
    const seen: string[] = [];
    script.handle = ({ eventId }) => void seen.push(eventId);
    await older.deliver('second', 'x', { key: 'a', at: 2_000 });
    await older.settle();
    await newer.deliver('first', 'x', { key: 'a', at: 1_000 });
    await newer.deliver('third', 'x', { key: 'a', at: 3_000 });
    await newer.settle();
    await older.deliver('late', 'x', { key: 'a', at: 2_500 });
    await older.settle();
    expect(seen).toEqual(['second', 'third']);
    expect(await newer.rows(`state = 'superseded'`)).toMatchObject([
      { event_id: 'first' },
      { event_id: 'late' },
    ]);
  });

  it('stays paused, in every version, and is resumed by either name', async () => {
    const older = await version('old', {});
    await older.app.get(Pauses).pause('handler', 'awardee/old', who);
    const newer = await version('new', {});
    for (const inbox of [older, newer]) {
      await inbox.deliver(`of ${String(inbox === older)}`);
      expect(await inbox.relay.tick()).toMatchObject({ leased: 0 });
    }
    expect(await newer.app.get(Pauses).list()).toMatchObject([{ name: 'awardee/new' }]);
    expect(await newer.app.get(Pauses).resume('handler', 'awardee/new', who)).toBe(true);
    expect(await newer.relay.tick()).toMatchObject({ leased: 2 });
  });

  it.each(['old', 'new'] as const)('stays paused where a delivery runs it, by its %s name', async (name) => {
    const handled: string[] = [];
    script.handle = ({ eventId }) => void handled.push(eventId);
    const older = await version('old', {});
    const newer = await version('new', { handler: { inline: true } });
    await (name === 'old' ? older : newer).app.get(Pauses).pause('handler', `awardee/${name}`, who);
    // What the other has read of the pauses may be a second old.
    await until(async () => {
      await newer.deliver(`d-${Math.random()}`);
      return (await newer.rows(`state = 'pending' AND attempt = 0`)).length > 0;
    });
    handled.length = 0;
    await newer.deliver('paused');
    expect(handled).toEqual([]);
    expect(await newer.rows(`event_id = 'paused'`)).toMatchObject([{ state: 'pending', attempt: 0 }]);
  });
});

describe('an effect that was renamed', () => {
  const start = async (name: string, was: readonly string[], options: EffectOptions = {}) => {
    const provider = scripted(script, { effect: false });
    const method = Object.getOwnPropertyDescriptor(provider.prototype, 'effect')!;
    OnEffect(name, { ...options, was })(provider.prototype as object, 'effect', method);
    const inbox = await startInbox({ database, providers: [provider] });
    open.push(inbox);
    return inbox;
  };

  it('is no source of the same name: a pause of the source is of the source', async () => {
    const inbox = await start('awardee', ['old-mail']);
    await inbox.app.get(Pauses).pause('source', 'awardee', who);
    expect(await inbox.query(`SELECT kind, name FROM webhook_pause`)).toEqual([
      { kind: 'source', name: 'awardee' },
    ]);
  });

  it('is the same one when a process of before runs its handler again: it is not done twice', async () => {
    const sent: string[] = [];
    let name = 'new-mail';
    script.handle = async (_, { enqueue }) => void (await enqueue(name, {}));
    script.effect = (_, { key: id }) => void sent.push(id);
    const older = await start('old-mail', []);
    const newer = await start('new-mail', ['old-mail']);
    await newer.deliver('1');
    await newer.settle();
    name = 'old-mail';
    await older.query(
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, attempt_base = attempt WHERE kind = 'handler'`,
    );
    await older.settle();
    expect(sent).toHaveLength(1);
  });

  it.each(['old-mail', 'new-mail'])('is refired as the preview says, under its name %s', async (asked) => {
    const sent: string[] = [];
    script.handle = async (_, { enqueue }) => void (await enqueue('old-mail', {}));
    script.effect = (_, { key: id }) => void sent.push(id);
    const older = await start('old-mail', []);
    await older.deliver('1');
    await older.settle();
    script.handle = async (_, { enqueue }) => void (await enqueue('new-mail', {}));
    const newer = await start('new-mail', ['old-mail']);
    const events = { events: [{ source: 'awardee', eventId: '1' }] };
    const [plan] = await newer.app.get(Replays).preview(events, [asked]);
    expect(plan).toMatchObject({ staysDone: [], refired: [{ name: 'old-mail' }] });
    await newer.app.get(Replays).run(events, { ...who, refire: [asked] });
    await newer.settle();
    expect(new Set(sent).size).toBe(2);
  });

  describe('has one row for each key that the application enqueues', () => {
    it.each([
      ['before and then after', 'old-mail', 'new-mail'],
      ['after and then before', 'new-mail', 'old-mail'],
    ])('%s the renaming', async (_, first, second) => {
      const inboxes = {
        'old-mail': await start('old-mail', []),
        'new-mail': await start('new-mail', ['old-mail']),
      };
      const enqueue = (name: string) => {
        const { app, dataSource } = inboxes[name as keyof typeof inboxes];
        return app.get(Outbox).enqueue(dataSource.manager, name, {}, { key: 'k', outsideTransaction: true });
      };
      const { id } = await enqueue(first);
      expect(await enqueue(second)).toEqual({ id, existing: true });
      expect(await inboxes['new-mail'].rows()).toMatchObject([{ id, name: first }]);
    });

    it('in two transactions at once', async () => {
      const older = await start('old-mail', []);
      const newer = await start('new-mail', ['old-mail']);
      const enqueueds = await newer.dataSource.transaction(async (manager) => {
        const ours = await newer.app.get(Outbox).enqueue(manager, 'new-mail', {}, { key: 'k' });
        const theirs = older.app
          .get(Outbox)
          .enqueue(older.dataSource.manager, 'old-mail', {}, { key: 'k', outsideTransaction: true });
        // Not vacuous: it has looked, seen nothing, and waits for us.
        await until(async () => (await waiting()) === 1);
        return { ours, theirs };
      });
      const { id } = enqueueds.ours;
      expect(await enqueueds.theirs).toEqual({ id, existing: true });
      expect(await newer.rows()).toMatchObject([{ id }]);
    });

    it('also when a build in between did not know the former name', async () => {
      const between = await start('new-mail', []);
      const { id } = await between.app
        .get(Outbox)
        .enqueue(between.dataSource.manager, 'new-mail', {}, { key: 'k', outsideTransaction: true });
      const newer = await start('new-mail', ['old-mail']);
      expect(
        await newer.app
          .get(Outbox)
          .enqueue(newer.dataSource.manager, 'new-mail', {}, { key: 'k', outsideTransaction: true }),
      ).toEqual({
        id,
        existing: true,
      });
    });

    const waiting = async () =>
      (
        await database.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        )
      ).length;
  });

  it('runs one row of an order key at a time under both names', async () => {
    const ordered: EffectOptions = { key: () => 'a' };
    const older = await start('old-mail', [], ordered);
    const newer = await start('new-mail', ['old-mail'], ordered);
    await older.app
      .get(Outbox)
      .enqueue(older.dataSource.manager, 'old-mail', { nth: 1 }, { outsideTransaction: true });
    await newer.app
      .get(Outbox)
      .enqueue(newer.dataSource.manager, 'new-mail', { nth: 2 }, { outsideTransaction: true });
    const latch = new Latch();
    const ran: unknown[] = [];
    script.effect = async (payload) => {
      ran.push(payload);
      await latch.wait();
    };
    const ticking = newer.relay.tick();
    await until(() => ran.length > 0);
    await newer.startRound();
    expect(ran).toEqual([{ nth: 1 }]);
    latch.open();
    await ticking;
    await newer.settle();
    expect(ran).toEqual([{ nth: 1 }, { nth: 2 }]);
  });
});

it('a handler that has no order key any more still runs what waits for its turn', async () => {
  const older = await version('old', { handler: { key } });
  for (const id of ['1', '2']) await older.deliver(id, 'x', { key: 'a' });
  const newer = await version('new', {});
  const ran: string[] = [];
  script.handle = ({ eventId }) => void ran.push(eventId);
  await newer.settle();
  expect(ran).toEqual(['1', '2']);
});
