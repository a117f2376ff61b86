import { Injectable } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  Outbox,
  Replays,
  type BatchContext,
  type BatchEvent,
  type EffectContext,
  type HandlerContext,
} from '../../src/index.js';
import { SettleStore } from '../../src/storage/settle.store.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { scripted, startInbox, type InboxSetup, type Script, type TestInbox } from './support/inbox.js';

const WHO = { by: 'a test', reason: 'on purpose' };
const THE_EVENT = { events: [{ source: 'awardee', tenant: '', eventId: 'd-1' }] };

let database: TestDatabase;
let inboxes: TestInbox[] = [];

beforeEach(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  for (const inbox of inboxes) await inbox.app.close();
  inboxes = [];
  await database.drop();
});

async function start(setup: InboxSetup): Promise<TestInbox> {
  const inbox = await startInbox({ database, ...setup });
  inboxes.push(inbox);
  return inbox;
}

describe('the time since which a key is in use', () => {
  it('is kept by a shutdown in the middle of the call: past the key’s retention a person decides', async () => {
    const calls: string[] = [];
    const latch = new Latch();
    const script: Partial<Script> = {
      effect: async (_, { key }) => {
        calls.push(key);
        await latch.wait();
      },
    };
    const first = await start({ providers: [scripted(script)] });
    await first.app.get(Outbox).enqueue(first.dataSource.manager, 'mail', {}, { outsideTransaction: true });
    const ticking = first.relay.tick();
    await until(() => calls.length === 1);
    await database.query(`UPDATE webhook_outbox SET first_leased_at = now() - interval '30 hours'`);
    first.work.stopLeasing();
    await first.work.finish(50);
    await ticking;
    const second = await start({ providers: [scripted(script)] });
    await second.makeDue();
    await second.relay.tick();
    expect(await second.rows()).toMatchObject([{ state: 'parked', reason: 'key-expired' }]);
    expect(calls).toHaveLength(1);
    latch.open();
  });
});

describe('refire', () => {
  it.each([
    ['pending', 'refire it when it has ended'],
    ['parked', 'decide about it first'],
    ['dead', 'revive it instead'],
  ])(
    'is refused while the effect is %s: it may still happen under its present key',
    async (state, advice) => {
      const script: Partial<Script> = { handle: async (_, { enqueue }) => void (await enqueue('mail', {})) };
      const inbox = await start({ providers: [scripted(script)] });
      await inbox.deliver('d-1');
      await inbox.relay.tick();
      await database.query(
        `UPDATE webhook_outbox SET state = $1::text, settled_at = CASE WHEN $1 = 'dead' THEN now() END WHERE kind = 'effect'`,
        [state],
      );
      const report = await inbox.app.get(Replays).run(THE_EVENT, { ...WHO, refire: ['mail'] });
      expect(report).toMatchObject({
        replayed: 0,
        refused: [{ refused: `effect 'mail' is ${state}: ${advice}` }],
      });
      expect((await inbox.app.get(Replays).preview(THE_EVENT))[0]!.refused).toBeUndefined();
    },
  );
});

describe('Outbox.enqueue', () => {
  it('is refused in a batch handler, where it would belong to no event and be done again by a replay', async () => {
    @Injectable()
    class Batched {
      constructor(private readonly outbox: Outbox) {}

      @OnWebhook('awardee', '*', { name: 'batch', batch: 10 })
      async handle(_events: readonly BatchEvent[], { manager }: BatchContext) {
        await this.outbox.enqueue(manager, 'mail', {});
      }

      @OnEffect('mail')
      mail() {}
    }
    const inbox = await start({ providers: [Batched] });
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    expect(await inbox.rows()).toMatchObject([{ kind: 'handler', state: 'dead', reason: 'permanent-error' }]);
    expect((await inbox.rows())[0]!.error).toContain('use the event');
  });

  it('in a completion is the run’s own: two events may use one key', async () => {
    const followed: string[] = [];
    @Injectable()
    class Chained {
      constructor(private readonly outbox: Outbox) {}

      @OnWebhook('awardee', '*', { name: 'handle' })
      async handle({ eventId }: { eventId: string }, { enqueue }: HandlerContext) {
        await enqueue('charge', { eventId });
      }

      @OnEffect('charge')
      async charge({ eventId }: { eventId: string }, { complete }: EffectContext) {
        await complete(async ({ manager }) => {
          await this.outbox.enqueue(manager, 'mail', { eventId }, { key: 'customer' });
        });
      }

      @OnEffect('mail')
      mail(payload: { eventId: string }) {
        followed.push(payload.eventId);
      }
    }
    const inbox = await start({ providers: [Chained] });
    await inbox.deliver('d-1');
    await inbox.deliver('d-2');
    await inbox.settle();
    expect(followed.sort()).toEqual(['d-1', 'd-2']);
  });
});

describe('a call that was made', () => {
  it('stays in doubt when our own database refuses the settle', async () => {
    let calls = 0;
    const script: Partial<Script> = { effect: () => void (calls += 1) };
    const inbox = await start({ providers: [scripted(script, { effect: { inDoubt: 'park' } })] });
    await inbox.app.get(Outbox).enqueue(inbox.dataSource.manager, 'mail', {}, { outsideTransaction: true });
    const store = inbox.app.get(SettleStore);
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    const settleMany = store.settleMany.bind(store);
    const endOf = store.endOf.bind(store);
    // What pg throws while the server restarts; then it is back.
    store.settleMany = () => Promise.reject(refused);
    store.endOf = () => Promise.reject(refused);
    expect(await inbox.relay.tick()).toMatchObject({ lost: 1 });
    Object.assign(store, { settleMany, endOf });
    await database.query(`UPDATE webhook_outbox SET lease_until = now() WHERE state = 'pending'`);
    await inbox.relay.tick();
    // A row with a lost attempt goes to its lane first, and runs at the next look.
    await inbox.relay.tick();
    expect(await inbox.rows()).toMatchObject([{ state: 'parked', reason: 'in-doubt' }]);
    expect(calls).toBe(1);
  });

  it('ends with its completion’s time-out: place, connection and lease are not held for ever', async () => {
    const script: Partial<Script> = {
      effect: (_, { complete }) => complete(() => new Promise(() => undefined)),
    };
    const inbox = await start({ providers: [scripted(script, { effect: { timeout: '1s' } })] });
    await inbox.app.get(Outbox).enqueue(inbox.dataSource.manager, 'mail', {}, { outsideTransaction: true });
    expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 0 });
    expect(inbox.work.running).toBe(0);
    expect(await inbox.rows()).toMatchObject([{ state: 'pending', leased_by: null }]);
  });
});
