import { Injectable, type Type } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  Operator,
  Replays,
  Revivals,
  StartupReconciler,
  type BatchContext,
  type BatchEvent,
  type HandlerContext,
  type ReplayOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { awardeeSource, clear, record, startInbox, type TestInbox } from './support/inbox.js';

const why = { by: 'a test', reason: 'to see' };
const selection = (source: string, eventId: string) => ({ events: [{ source, tenant: '', eventId }] });

let sent: string[] = [];
/** What the handlers enqueue and write today. */
let today: (event: WebhookEvent, context: Pick<HandlerContext, 'manager' | 'enqueue'>) => Promise<unknown>;

const then: typeof today = async (event, context) => {
  await record(event, context);
  await context.enqueue('mail', {});
};
/** As code that hides every error does it. */
const withReceipt: typeof today = async (event, context) => {
  await then(event, context);
  await context.enqueue('receipt', {}, { key: 'r' }).catch(() => undefined);
};

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*', { name: 'handle', businessRecord: { missing: (events) => events, minAge: 0 } })
  @OnWebhook('provider', '*', { name: 'handle' })
  handle(event: WebhookEvent, context: HandlerContext) {
    return today(event, context);
  }

  @OnWebhook('inline', '*', { name: 'handle', inline: true })
  inline(event: WebhookEvent, context: HandlerContext) {
    return today(event, context);
  }

  @OnWebhook('batch', '*', { name: 'handle', batch: 5 })
  async batch(events: BatchEvent[], { manager }: BatchContext) {
    for (const event of events) await today(event, { manager, enqueue: event.enqueue });
  }

  @OnWebhook('ordered', '*', { name: 'handle', key: () => 'one' })
  ordered(event: WebhookEvent, context: HandlerContext) {
    return today(event, context);
  }
}

@Injectable()
class Effects {
  @OnEffect('mail')
  mail() {
    sent.push('mail');
  }

  @OnEffect('receipt')
  receipt() {
    sent.push('receipt');
  }
}

const sources = {
  awardee: awardeeSource(),
  batch: awardeeSource(),
  ordered: awardeeSource(),
  provider: awardeeSource({ retries: 'provider' }),
  inline: awardeeSource({ retries: 'provider' }),
};
let database: TestDatabase;
let inbox: TestInbox;
const start = (...providers: Type[]) => startInbox({ database, providers, webhooks: { sources } });
const replays = () => inbox.app.get(Replays);
const handler = async (source: string) => (await inbox.rows(`kind = 'handler' AND source = '${source}'`))[0]!;
const applied = async () =>
  (await inbox.query<{ n: number }>('SELECT applied_count AS n FROM received_event')).map(({ n }) => n);

/** Delivers an event, and has it handled as it was handled then. */
async function handledThen(source = 'awardee', id = '1'): Promise<void> {
  today = then;
  await inbox.deliver(id, 'grant.made', {}, source);
  await inbox.settle();
}

/** As if they had never been there. */
async function forgetRows(where: string): Promise<void> {
  await inbox.query(`TRUNCATE webhook_outbox_data`);
  await inbox.query(`DELETE FROM webhook_outbox WHERE ${where}`);
}

beforeAll(async () => {
  database = await createDatabase();
  inbox = await start(Handlers, Effects);
});
beforeEach(async () => {
  await clear(database);
  sent = [];
  inbox.alerts.length = 0;
});
afterAll(async () => {
  await inbox.stop();
  await database.drop();
});

describe('a handler that was done and runs again', () => {
  it.each(['awardee', 'batch', 'ordered', 'provider'])(
    'under a replay (source %s) is undone where it would enqueue an effect for the first time, until a person allows it',
    async (source) => {
      await handledThen(source);
      today = withReceipt;
      const one = selection(source, '1');
      expect(await replays().preview(one)).toMatchObject([
        { run: [{ newEffects: 'refuse' }], staysDone: [{ name: 'mail' }] },
      ]);
      expect(await replays().run(one, why)).toMatchObject({ replayed: 1 });
      expect(await inbox.relay.tick()).toMatchObject({ refused: 1, dead: 0, retried: 0 });
      expect([await applied(), sent]).toEqual([[1], ['mail']]);
      expect(await handler(source)).toMatchObject({
        state: 'done',
        leased_by: null,
        error: expect.stringContaining(`enqueue 'receipt' for the first time`) as string,
      });
      expect(inbox.alerts).toMatchObject([{ kind: 'new-effects-refused', effects: ['receipt'] }]);
      const [plan] = await replays().preview(one);
      expect(plan!.run).toMatchObject([{ refused: [{ name: 'receipt', key: 'r' }] }]);

      await replays().run(one, { ...why, newEffects: 'allow' });
      await inbox.settle();
      expect([await applied(), sent]).toEqual([[2], ['mail', 'receipt']]);
      // What was allowed is an effect that it has had from then on.
      await replays().run(one, why);
      await inbox.settle();
      expect([await applied(), sent]).toEqual([[3], ['mail', 'receipt']]);
    },
  );

  it.each(['provider', 'inline'])(
    'is undone in a delivery that takes the replay over, and the delivery is answered (source %s)',
    async (source) => {
      await handledThen(source);
      today = withReceipt;
      await replays().run(selection(source, '1'), why);
      expect(await inbox.deliver('1', 'grant.made', {}, source)).toMatchObject({ status: 200 });
      expect([await applied(), sent]).toEqual([[1], ['mail']]);
      expect(await handler(source)).toMatchObject({ state: 'done', leased_by: null });
      expect(inbox.alerts).toMatchObject([{ kind: 'new-effects-refused', effects: ['receipt'] }]);
    },
  );

  it('of a batch is undone alone: the others of it are handled', async () => {
    for (const id of ['1', '2', '3']) await handledThen('batch', id);
    today = (event, context) => (event.eventId === '2' ? withReceipt : then)(event, context);
    await replays().run({ source: 'batch' }, why);
    const totals = { refused: 0, done: 0 };
    for (let round = 0; round < 3; round += 1) {
      const { refused, done } = await inbox.relay.tick();
      totals.refused += refused;
      totals.done += done;
    }
    expect([totals, await applied()]).toEqual([{ refused: 1, done: 2 }, expect.arrayContaining([1, 2, 2])]);
  });

  it('under the reconciler is undone, and a person is told', async () => {
    await handledThen();
    today = withReceipt;
    await inbox.app.get(StartupReconciler).reconcile();
    expect(await inbox.relay.tick()).toMatchObject({ refused: 1 });
    expect([await applied(), sent]).toEqual([[1], ['mail']]);
    expect(inbox.alerts.map(({ kind }) => kind)).toEqual(['missing-record', 'new-effects-refused']);
  });

  it.each<[string, () => Promise<unknown>]>([
    ["a redelivery's revival", () => inbox.deliver('1')],
    ["a person's revival", async () => inbox.app.get(Revivals).revive([(await handler('awardee')).id], why)],
    ['a second replay', () => replays().run(selection('awardee', '1'), why)],
  ])('and died is undone under %s too, and is dead as before', async (_, again) => {
    await handledThen();
    today = () => Promise.reject(Object.assign(new Error('broken'), { status: 400 }));
    await replays().run(selection('awardee', '1'), why);
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    today = withReceipt;
    await again();
    expect(await inbox.relay.tick()).toMatchObject({ refused: 1 });
    expect([await applied(), sent, (await handler('awardee')).state]).toEqual([[1], ['mail'], 'dead']);
  });

  it('may enqueue what it had, also once more where a person refires it', async () => {
    await handledThen();
    await replays().run(selection('awardee', '1'), { ...why, refire: ['mail'] });
    await inbox.settle();
    expect(sent).toEqual(['mail', 'mail']);
    today = withReceipt;
    await replays().run(selection('awardee', '1'), { ...why, refire: ['mail'] });
    expect(await inbox.relay.tick()).toMatchObject({ refused: 1 });
    expect(sent).toEqual(['mail', 'mail']);
  });

  it('may roll an enqueue back to a savepoint', async () => {
    await handledThen();
    today = async (event, context) => {
      await then(event, context);
      await context.manager.query('SAVEPOINT ours');
      await context.enqueue('receipt', {});
      await context.manager.query('ROLLBACK TO SAVEPOINT ours');
    };
    await replays().run(selection('awardee', '1'), why);
    await inbox.settle();
    expect([await applied(), sent]).toEqual([[2], ['mail']]);
  });
});

describe('a handler that was never done for the event enqueues freely', () => {
  it.each([
    ['dead', `state = 'dead', reason = 'permanent-error'`],
    ['superseded', `state = 'superseded'`],
  ])('%s', async (_, as) => {
    await handledThen();
    await forgetRows(`kind = 'effect'`);
    await inbox.query(`UPDATE webhook_outbox SET ${as}, rerun = NULL WHERE kind = 'handler'`);
    sent = [];
    today = withReceipt;
    await replays().run(selection('awardee', '1'), why);
    await inbox.settle();
    expect(sent.toSorted()).toEqual(['mail', 'receipt']);
  });

  it('new for the event', async () => {
    await handledThen();
    await forgetRows('true');
    sent = [];
    today = withReceipt;
    const [plan] = await replays().preview(selection('awardee', '1'));
    expect(plan!.run).toEqual([{ handler: 'awardee/handle' }]);
    await replays().run(selection('awardee', '1'), why);
    await inbox.settle();
    expect(sent.toSorted()).toEqual(['mail', 'receipt']);
  });
});

it.each<[string, ReplayOptions]>([
  ['by default', why],
  ['and when new effects are allowed', { ...why, newEffects: 'allow' }],
])(
  'an effect that was renamed without `was` has the replay refused, with the remedy, %s',
  async (_, options) => {
    await handledThen();
    await inbox.query(`UPDATE webhook_outbox SET name = 'letter' WHERE name = 'mail'`);
    const before = await inbox.rows();
    const { refused } = await replays().run(selection('awardee', '1'), options);
    expect(refused).toMatchObject([{ refused: expect.stringContaining(`{ was: ['letter'] }`) as string }]);
    expect(await inbox.rows()).toEqual(before);
  },
);

it('the operator allows new effects with one action, which the audit holds', async () => {
  await handledThen();
  today = withReceipt;
  const operator = inbox.app.get(Operator);
  const { events } = selection('awardee', '1');
  const plans = await operator.previewReplay(events, [], 'allow');
  expect(plans).toMatchObject([{ run: [{ newEffects: 'allow' }] }]);
  await operator.replay(events, [], why, 'allow');
  await inbox.settle();
  expect(sent).toEqual(['mail', 'receipt']);
  expect(
    await inbox.query(`SELECT detail ->> 'newEffects' AS allowed FROM webhook_audit WHERE action = 'replay'`),
  ).toEqual([{ allowed: 'allow' }]);
});

it('anything but refuse or allow is refused before an event is looked at', async () => {
  await expect(
    replays().run(selection('awardee', '1'), { ...why, newEffects: 'yes' as never }),
  ).rejects.toMatchObject({ code: 'INPUT_REFUSED' });
});
