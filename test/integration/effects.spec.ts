import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { OnEffect, Outbox, type EffectContext, type EnqueueOptions } from '../../src/index.js';
import { outboxId } from '../../src/core/ids.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { clear, record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';

let database: TestDatabase;
let inbox: TestInbox;
const script: Partial<Script> = {};
const sent: { effect: string; key: string; payload: unknown }[] = [];

@Injectable()
class Others {
  @OnEffect('new-mail', { was: ['old-mail'] })
  renamed(payload: unknown, { key }: EffectContext) {
    sent.push({ effect: 'new-mail', key, payload });
  }

  @OnEffect('in-line', { key: () => 'one line' })
  inLine(payload: unknown, { key }: EffectContext) {
    sent.push({ effect: 'in-line', key, payload });
  }
}

beforeAll(async () => {
  database = await createDatabase();
  inbox = await startInbox({
    database,
    providers: [scripted(script, { effect: { timeout: '2s' } }), Others],
  });
});
beforeEach(() => {
  sent.length = 0;
  script.handle = record;
  script.effect = (payload, { key }) => void sent.push({ effect: 'mail', key, payload });
});
afterEach(async () => {
  await clear(database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(async () => {
  await inbox?.stop();
  await database?.drop();
});

const effects = () => inbox.rows(`kind = 'effect'`);

describe('R36 R37 what a handler enqueues', () => {
  it('has the same ids when the handler runs again, and what is done is not done again', async () => {
    script.handle = async (_, { enqueue }) => {
      for (const key of ['a', 'b']) await enqueue('mail', { key }, { key });
    };
    await inbox.deliver('d-1');
    await inbox.settle();
    expect(sent).toHaveLength(2);
    const before = await effects();

    // A person has the settled event run again; this time it enqueues one more.
    script.handle = async (_, { enqueue }) => {
      // In another order: the key is the effect's, and not its place among the others.
      for (const key of ['c', 'b', 'a']) {
        const { id, existing } = await enqueue('mail', { key: 'other' }, { key });
        const known = before.find((one) => one.key === key);
        expect({ key, existing, id: known?.id }).toEqual({ key, existing: key !== 'c', id: known && id });
      }
    };
    await runAgain();
    expect(await effects()).toHaveLength(3);
    const payloads = sent.map(({ payload }) => (payload as { key: string }).key);
    expect(payloads.sort()).toEqual(['a', 'b', 'other']);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(3);
    // That the payload was another one this time is on record.
    expect(
      await database.query(`SELECT FROM webhook_outbox_data WHERE other_payload_sha256 IS NOT NULL`),
    ).toHaveLength(2);
  });

  it('returns is kept and shown up to 64 kB, and named by its size beyond', async () => {
    script.handle = async (_, { enqueue }) => {
      for (const key of ['small', 'large']) await enqueue('mail', key, { key });
    };
    const largest = 'x'.repeat(64 * 1024 - 2);
    script.effect = (payload) => (payload === 'small' ? largest : `${largest}x`);
    await inbox.deliver('d-1');
    await inbox.settle();
    const results = await inbox.query<{ key: string; result: string }>(
      `SELECT o.key, d.result FROM webhook_outbox o JOIN webhook_outbox_data d ON d.outbox_id = o.id WHERE o.kind = 'effect'`,
    );
    expect(new Map(results.map(({ key, result }) => [key, JSON.parse(result) as unknown]))).toEqual(
      new Map<string, unknown>([
        ['small', largest],
        ['large', { omitted: 'a result of 65537 bytes' }],
      ]),
    );
  });

  it('returns without a completion may hold a BigInt: shown as text', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', {}));
    script.effect = () => ({ cents: 12n });
    await inbox.deliver('d-1');
    await inbox.settle();
    const kept = `SELECT result FROM webhook_outbox_data WHERE result IS NOT NULL`;
    expect(await database.query(kept)).toEqual([{ result: '{"cents":"12"}' }]);
  });

  it('is gone when the handler fails, and comes back under the same id', async () => {
    const ids: string[] = [];
    script.handle = async (_, { enqueue, attempt }) => {
      ids.push((await enqueue('mail', { attempt })).id);
      if (attempt === 1) throw new Error('after the enqueue');
    };
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    expect(await effects()).toEqual([]);
    await inbox.settle();
    expect(ids[0]).toBe(ids[1]);
    expect(sent).toEqual([{ effect: 'mail', key: ids[0], payload: { attempt: 2 } }]);
  });

  it('differs between events, handlers and keys, and comes in the order of arrival', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('mail', {}));
    for (const id of ['d-1', 'd-2', 'd-3']) await inbox.deliver(id);
    await inbox.settle();
    const ids = (await inbox.rows(`kind = 'handler'`)).map((row) => row.id);
    expect(ids.toSorted()).toEqual(ids);
    expect(new Set((await effects()).map((row) => row.id)).size).toBe(3);
  });

  it.each([0, 10])(
    'is not part of a nested transaction that the handler begins while it is under way (%i turns later)',
    async (turns) => {
      script.handle = async (_, { enqueue, manager }) => {
        const optional = async () => {
          for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
          await manager.transaction(async (nested) => {
            await nested.query('SELECT 1');
            throw new Error('what is optional has failed');
          });
        };
        await Promise.allSettled([enqueue('mail', { to: 'a' }), optional()]);
      };
      await inbox.deliver('d-1');
      await inbox.settle();
      expect(sent).toMatchObject([{ payload: { to: 'a' } }]);
    },
  );

  it('the same effect twice under one key is refused, with the remedy, and nothing of the run stays', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      await context.enqueue('mail', { n: 1 });
      await context.enqueue('mail', { n: 2 });
    };
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await inbox.rows()).toMatchObject([
      {
        state: 'dead',
        reason: 'permanent-error',
        error: expect.stringMatching(/EffectKeyRequired.*\{ key \}/s),
      },
    ]);
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
  });

  it('an effect that nobody carries out is refused at the enqueue, with the nearest name', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('mial', {}));
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect((await inbox.rows())[0]!.error).toContain("did you mean 'mail'?");
  });

  it.each([
    ['is not JSON', { big: 1n }],
    ['is too large', { text: 'x'.repeat(2_000_000) }],
  ])('a payload that %s is refused at the enqueue', async (_, payload) => {
    script.handle = async (_event, { enqueue }) => void (await enqueue('mail', payload));
    await inbox.deliver('d-1');
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    expect(await effects()).toEqual([]);
  });

  it('a former name of an effect that has rows: the same rows', async () => {
    script.handle = async (_, { enqueue }) => void (await enqueue('new-mail', {}));
    await inbox.deliver('d-1');
    await inbox.settle();
    expect(sent).toHaveLength(1);
    // As a version of before the renaming would have left it.
    const [handler] = await inbox.rows(`kind = 'handler'`);
    const former = outboxId(handler!.id, 'old-mail', '');
    await database.query(`UPDATE webhook_outbox SET id = $1, name = 'old-mail' WHERE kind = 'effect'`, [
      former,
    ]);
    await database.query(`UPDATE webhook_outbox_data SET outbox_id = $1 WHERE payload IS NOT NULL`, [former]);
    await runAgain();
    expect(await effects()).toMatchObject([{ id: former, state: 'done' }]);
    expect(sent).toHaveLength(1);
  });

  /** As a person's replay does it: the handler row gets another attempt. */
  async function runAgain(): Promise<void> {
    await database.query(
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, attempt_base = attempt, due_at = now()
        WHERE kind = 'handler'`,
    );
    await inbox.settle();
  }
});

describe('Outbox.enqueue', () => {
  const outbox = () => inbox.app.get(Outbox);
  const enqueue = (payload: unknown, options?: EnqueueOptions, effect = 'mail') =>
    outbox().enqueue(inbox.dataSource.manager, effect, payload, { ...options, outsideTransaction: true });

  it('outside a run makes a row of its own each time, under a UUIDv7', async () => {
    const [one, other] = [await enqueue({ n: 1 }), await enqueue({ n: 2 })];
    expect(one.id).not.toBe(other.id);
    for (const { id, existing } of [one, other]) {
      expect(existing).toBe(false);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    await inbox.settle();
    expect(sent.map(({ key }) => key).sort()).toEqual([one.id, other.id].sort());
    expect((await effects())[0]).toMatchObject({ event_id: null, parent_id: null });
  });

  it('a key is unique for each effect: of 20 at once one makes the row, and all get it', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => enqueue({ n }, { key: 'order-1' })));
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
    expect(all.filter(({ existing }) => !existing)).toHaveLength(1);
    await inbox.settle();
    expect(sent).toHaveLength(1);
    expect(await enqueue({}, { key: 'order-1' })).toMatchObject({ id: all[0]!.id, existing: true });
    expect(await enqueue({}, { key: 'order-1' }, 'new-mail')).toMatchObject({ existing: false });
  });

  it('a key that was used under a former name of the effect is the same key', async () => {
    const { id } = await enqueue({}, { key: 'order-1' }, 'new-mail');
    await database.query(`UPDATE webhook_outbox SET name = 'old-mail'`);
    expect(await enqueue({}, { key: 'order-1' }, 'new-mail')).toEqual({ id, existing: true });
    expect(await effects()).toHaveLength(1);
  });

  it('belongs to the transaction of its manager: rolled back with it, and not visible before the commit', async () => {
    const outboxRows = async () => (await effects()).length;
    await expect(
      inbox.dataSource.transaction(async (manager) => {
        await outbox().enqueue(manager, 'mail', {});
        expect(await outboxRows()).toBe(0);
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    expect(await outboxRows()).toBe(0);
    await inbox.dataSource.transaction((manager) => outbox().enqueue(manager, 'mail', {}));
    expect(await outboxRows()).toBe(1);
  });

  it.each<[string, () => EntityManager]>([
    ['the DataSource’s', () => inbox.dataSource.manager],
    ['a query runner’s that began none', () => inbox.dataSource.createQueryRunner().manager],
  ])('with a manager without a transaction, %s, is refused with the remedy', async (_, managerOf) => {
    const manager = managerOf();
    for (const options of [{}, { key: 'k' }, { outsideTransaction: false }])
      await expect(outbox().enqueue(manager, 'mail', {}, options)).rejects.toMatchObject({
        code: 'ENQUEUE_REFUSED',
        message: expect.stringContaining('{ outsideTransaction: true }') as string,
      });
    expect(await effects()).toEqual([]);
    await outbox().enqueue(manager, 'mail', {}, { outsideTransaction: true });
    expect(await effects()).toHaveLength(1);
    await manager.queryRunner?.release();
  });

  it('inside a run, with the run’s manager, is the run’s own enqueue: same ids, same rules', async () => {
    const ids: string[] = [];
    script.handle = async (_, { manager, attempt, outboxId }) => {
      ids.push((await outbox().enqueue(manager, 'mail', {}, { key: 'k' })).id);
      await manager.transaction((nested) => outbox().enqueue(nested, 'mail', {}, { key: 'l' }));
      if (attempt === 1) throw new Error('once');
      await expect(outbox().enqueue(manager, 'mail', {}, { key: 'k' })).rejects.toThrow('twice');
      expect((await inbox.rows()).map((row) => row.id)).toContain(outboxId);
    };
    await inbox.deliver('d-1');
    await inbox.settle();
    expect(ids[0]).toBe(ids[1]);
    expect(await effects()).toMatchObject([{ event_id: 'd-1' }, { event_id: 'd-1' }]);
    expect(sent).toHaveLength(2);
  });

  const REFUSED: [object, string][] = [
    [
      { key: 'k'.repeat(256) },
      "Effect 'mail' was enqueued with a key of 256 bytes, and at most 255 are kept",
    ],
    [{ key: 'ä'.repeat(128) }, 'a key of 256 bytes'],
    [{ key: 'a\0b' }, 'a key that is no text, or holds NUL'],
    [{ key: 7 }, 'a key that is no text, or holds NUL (a number)'],
    [{ delayMs: Number.NaN }, 'delayMs NaN: expected milliseconds from 0'],
    [{ delayMs: -1 }, 'delayMs -1'],
    [{ delayMs: Infinity }, 'delayMs Infinity'],
    [{ delayMs: Number.MAX_VALUE }, 'delayMs 1.79'],
    [{ delayMs: '5s' }, 'delayMs 5s'],
    [{ runAt: new Date('soon') }, 'runAt Invalid Date: expected a valid Date'],
    [{ runAt: new Date(-8.64e15) }, 'expected a valid Date'],
    [{ runAt: 'tomorrow' }, 'runAt tomorrow'],
  ];

  it('refuses options that cannot be kept before any statement: the transaction goes on', async () => {
    await inbox.dataSource.transaction(async (manager) => {
      for (const [options, message] of REFUSED) {
        const refused = outbox().enqueue(manager, 'mail', {}, options);
        await expect(refused).rejects.toMatchObject({
          code: 'ENQUEUE_REFUSED',
          message: expect.stringContaining(message),
        });
      }
      await outbox().enqueue(manager, 'mail', {}, { key: 'ä'.repeat(127), delayMs: 0, runAt: new Date() });
    });
    expect(await effects()).toHaveLength(1);
  });

  it('refuses them in a run too, whose writes and other effects commit all the same', async () => {
    const seen: unknown[] = [];
    script.handle = async (_, run) => {
      for (const [options] of REFUSED)
        await run.enqueue('mail', {}, options).catch((error: { code: string }) => seen.push(error.code));
      await run.enqueue('mail', {}, { key: 'k'.repeat(255), delayMs: 0 });
    };
    await inbox.deliver('d-1');
    await inbox.settle();
    expect(seen).toEqual(REFUSED.map(() => 'ENQUEUE_REFUSED'));
    expect(await effects()).toMatchObject([{ event_id: 'd-1', state: 'done' }]);
  });

  it('refuses what a run would refuse', async () => {
    await expect(enqueue({}, {}, 'mial')).rejects.toMatchObject({ code: 'UNKNOWN_EFFECT' });
    await expect(enqueue({ big: 1n })).rejects.toMatchObject({ code: 'PAYLOAD_REFUSED' });
  });
});

describe('complete', () => {
  beforeEach(async () => {
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'mail', { to: 'x' }, { outsideTransaction: true });
  });
  const note = `INSERT INTO received_event (source, event_id, event_type) VALUES ('completed', $1, '')`;

  it('commits its writes and its follow-up effects with the settle, once', async () => {
    script.effect = async (_, { key, complete }) => {
      sent.push({ effect: 'mail', key, payload: undefined });
      await complete(async ({ manager, enqueue, result }) => {
        await manager.query(note, [(result as { id: string }).id]);
        await enqueue('new-mail', { after: key });
      });
      return { id: 'sent-1' };
    };
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    expect(await database.query(`SELECT event_id FROM received_event`)).toEqual([{ event_id: 'sent-1' }]);
    await inbox.settle();
    expect(sent.map(({ effect }) => effect)).toEqual(['mail', 'new-mail']);
    expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
  });

  it('that fails leaves nothing of its own, and the next attempt gets the result of the call and need not call again', async () => {
    const seen: unknown[] = [];
    script.effect = async (_, { previous, complete, attempt }) => {
      seen.push(previous);
      const result = previous?.result ?? { id: 'sent-1' };
      if (previous === undefined) sent.push({ effect: 'mail', key: '', payload: undefined });
      await complete(async ({ manager, enqueue }) => {
        await manager.query(note, ['x']);
        await enqueue('new-mail', {});
        if (attempt < 3) throw new Error('no');
      });
      return result;
    };
    await inbox.relay.tick();
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    expect(await inbox.rows()).toMatchObject([{ state: 'pending', error: 'no' }]);
    await inbox.settle();
    expect(seen).toEqual([undefined, { result: { id: 'sent-1' } }, { result: { id: 'sent-1' } }]);
    expect(sent.map(({ effect }) => effect)).toEqual(['mail', 'new-mail']);
    expect(await database.query(`SELECT FROM received_event`)).toHaveLength(1);
  });

  it('whose lease was lost commits nothing, and the process that has the row gets the result', async () => {
    let seen: unknown;
    script.effect = async (_, { previous, complete }) => {
      seen = previous;
      if (previous === undefined) {
        await database.query(
          `UPDATE webhook_outbox SET leased_by = gen_random_uuid(), attempt = attempt + 1`,
        );
      }
      await complete(({ manager }) => manager.query(note, ['x']));
      return previous?.result ?? 'sent-1';
    };
    expect(await inbox.relay.tick()).toMatchObject({ lost: 1 });
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    await database.query(`UPDATE webhook_outbox SET lease_until = now()`);
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    expect(seen).toEqual({ result: 'sent-1' });
    expect(await database.query(`SELECT FROM received_event`)).toHaveLength(1);
  });

  it('that leaves a write behind has failed', async () => {
    script.effect = async (_, { complete, attempt }) => {
      await complete(({ manager }) => {
        const write = manager.query(note, ['x']);
        return attempt === 1 ? undefined : write;
      });
    };
    expect(await inbox.relay.tick()).toMatchObject({ retried: 1 });
    expect(await database.query(`SELECT FROM received_event`)).toEqual([]);
    await inbox.settle();
    expect(await database.query(`SELECT FROM received_event`)).toHaveLength(1);
  });

  it('gets the result whole, and as JSON, at the first attempt and at a later one', async () => {
    const seen: unknown[] = [];
    const text = 'x'.repeat(200_000);
    script.effect = async (_, { previous, complete, attempt }) => {
      await complete(({ result }) => {
        seen.push(result);
        if (attempt === 1) throw new Error('no');
      });
      return previous?.result ?? { at: new Date(0), text };
    };
    await inbox.settle();
    const result = { at: '1970-01-01T00:00:00.000Z', text };
    expect(seen).toEqual([result, result]);
    const [kept] = await database.query<{ result: string }>(`SELECT result FROM webhook_outbox_data`);
    expect(JSON.parse(kept!.result)).toEqual(result);
  });

  it.each([
    ['is no JSON', { cents: 1n }, /is not JSON \(TypeError: .*BigInt/],
    ['is no value of JSON', Symbol('x'), /is not JSON \(a symbol\)/],
    ['is too large', 'x'.repeat(1024 * 1024), /has 1048578 bytes, and at most 1048576 are kept/],
  ])('is not run with a result that %s: the row is dead, and is not called again', async (_, result, why) => {
    let completed = 0;
    script.effect = async (_payload, { key, complete }) => {
      sent.push({ effect: 'mail', key, payload: undefined });
      await complete(() => (completed += 1));
      return result;
    };
    expect(await inbox.relay.tick()).toMatchObject({ dead: 1 });
    await inbox.settle();
    expect([sent.length, completed]).toEqual([1, 0]);
    const [row] = await effects();
    expect(row).toMatchObject({ state: 'dead', reason: 'permanent-error' });
    expect(row!.error).toMatch(why);
    expect(row!.error).toMatch(/call of effect 'mail' was made.*Return an id/);
  });

  it('of an effect that then throws is not run', async () => {
    let completed = 0;
    script.effect = async (_, { complete, attempt }) => {
      await complete(() => (completed += 1));
      if (attempt === 1) throw new Error('after all');
    };
    await inbox.relay.tick();
    expect(completed).toBe(0);
    await inbox.settle();
    expect(completed).toBe(1);
  });
});

describe('Outbox.cancel', () => {
  const outbox = () => inbox.app.get(Outbox);
  const inTransaction = <T>(work: (manager: EntityManager) => Promise<T>) =>
    inbox.dataSource.transaction(work);
  const later = { runAt: new Date(Date.now() + 3_600_000) };
  const states = async () => (await effects()).map(({ state }) => state);

  it('calls a scheduled effect back, with the transaction of its manager', async () => {
    await inTransaction((manager) => outbox().enqueue(manager, 'mail', {}, { key: 'reminder-1', ...later }));
    const undone = inTransaction(async (manager) => {
      expect(await outbox().cancel(manager, 'mail', 'reminder-1')).toBe('cancelled');
      throw new Error('no');
    });
    await expect(undone).rejects.toThrow('no');
    expect(await states()).toEqual(['pending']);
    expect(await inTransaction((manager) => outbox().cancel(manager, 'mail', 'reminder-1'))).toBe(
      'cancelled',
    );
    await inbox.settle();
    expect(sent).toEqual([]);
    expect(await inTransaction((manager) => outbox().cancel(manager, 'mail', 'reminder-1'))).toBe(
      'cancelled',
    );
    expect(
      await inTransaction((manager) => outbox().enqueue(manager, 'mail', {}, { key: 'reminder-1' })),
    ).toMatchObject({
      existing: true,
    });
  });

  it('takes the id that a run got from its enqueue; a replay of the event leaves it cancelled', async () => {
    let id = '';
    script.handle = async (_, { enqueue }) => ({ id } = await enqueue('mail', {}, later));
    await inbox.deliver('d-1');
    await inbox.relay.tick();
    expect(await inTransaction((manager) => outbox().cancel(manager, 'mail', { id }))).toBe('cancelled');
    await inbox.settle();
    expect([sent, await states()]).toEqual([[], ['cancelled']]);
  });

  it('tells why it could not: done, running, unknown', async () => {
    const cancel = (key: string) => inTransaction((manager) => outbox().cancel(manager, 'mail', key));
    await inTransaction((manager) => outbox().enqueue(manager, 'mail', {}, { key: 'done' }));
    await inbox.settle();
    let during: string | undefined;
    script.effect = async () => void (during = await cancel('running'));
    await inTransaction((manager) => outbox().enqueue(manager, 'mail', {}, { key: 'running' }));
    await inbox.settle();
    expect([await cancel('done'), during, await cancel('never')]).toEqual(['settled', 'running', 'unknown']);
    expect(await states()).toEqual(['done', 'done']);
  });

  it('raced against the relay, an effect is either cancelled and not called, or called and not cancelled', async () => {
    const keys = Array.from({ length: 60 }, (_, nth) => `race-${nth}`);
    await inTransaction(async (manager) => {
      for (const key of keys) await outbox().enqueue(manager, 'mail', { key }, { key });
    });
    const outcomes = new Map<string, string>();
    const cancelling = Promise.all(
      keys.map(async (key) =>
        outcomes.set(key, await inTransaction((manager) => outbox().cancel(manager, 'mail', key))),
      ),
    );
    await Promise.all([cancelling, inbox.relay.drain({ maxMs: 20_000 })]);
    await inbox.settle();
    const called = new Set(sent.map(({ payload }) => (payload as { key: string }).key));
    for (const key of keys) expect([key, called.has(key)]).toEqual([key, outcomes.get(key) !== 'cancelled']);
    expect(sent).toHaveLength(called.size);
  });

  it('of the row that has the turn of its order key, passes the turn on', async () => {
    for (const key of ['first', 'second'])
      await inTransaction((manager) => outbox().enqueue(manager, 'in-line', {}, { key }));
    await inbox.query(`UPDATE webhook_outbox SET waits = false WHERE key = 'first'`);
    expect(await inTransaction((manager) => outbox().cancel(manager, 'in-line', 'first'))).toBe('cancelled');
    expect(await inbox.rows(`NOT waits AND state = 'pending'`)).toMatchObject([{ key: 'second' }]);
    await inbox.settle();
    expect(sent).toHaveLength(1);
  });

  it('refuses an effect that nobody has, and what is no id', async () => {
    const cancel = (effect: string, key: string | { id: string }) =>
      inTransaction((manager) => outbox().cancel(manager, effect, key));
    await expect(cancel('nothing', 'a')).rejects.toMatchObject({ code: 'UNKNOWN_EFFECT' });
    await expect(cancel('mail', { id: 'a' })).rejects.toMatchObject({ code: 'INPUT_REFUSED' });
  });
});
