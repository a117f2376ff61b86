import { Injectable } from '@nestjs/common';
import { OnEffect, Outbox, WebhookLifecycle, type EffectContext } from '../../src/index.js';
import { qualified } from '../../src/storage/schema/own-schema.js';
import { KEEP_RESULT, RESUME_LATE, SETTLE_LATE, SETTLE_MANY } from '../../src/storage/settle.sql.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { hear } from '../support/statements.js';
import { clear, startInbox, type TestInbox } from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';
import { cuttingProxy, type CuttingProxy } from './support/proxy.js';

type Call = (context: EffectContext) => unknown;

/** A late end comes after it. */
const TIMEOUT_MS = 500;

let database: TestDatabase;
let proxy: CuttingProxy;
let inbox: TestInbox;
let call: Call;
let done: { outboxId: string; attempt: number }[] = [];
let lines: string[] = [];

@Injectable()
class Effects {
  @OnEffect('mail', { timeout: TIMEOUT_MS, retry: { base: '1h' } })
  mail(_payload: unknown, context: EffectContext) {
    return call(context);
  }

  @OnEffect('in-line', { timeout: TIMEOUT_MS, key: () => 'one line' })
  inLine(_payload: unknown, context: EffectContext) {
    return call(context);
  }

  @OnEffect('doubtful', { timeout: TIMEOUT_MS, inDoubt: 'park' })
  doubtful(_payload: unknown, context: EffectContext) {
    return call(context);
  }
}

beforeAll(async () => {
  database = await createDatabase();
  proxy = await cuttingProxy(database.url);
  const keep = (line: unknown) => void lines.push(String(line));
  inbox = await startInbox({
    database,
    databaseUrl: proxy.url,
    providers: [Effects],
    configure: (app) => app.useLogger({ log: keep, warn: keep, error: keep, debug: () => undefined }),
  });
  inbox.app.get(WebhookLifecycle).on('effectDone', ({ outboxId, attempt }) => {
    done.push({ outboxId, attempt });
  });
});
beforeEach(() => {
  lines = [];
  done = [];
});
afterEach(async () => {
  await clear(database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(async () => {
  await inbox?.stop();
  await proxy?.close();
  await database?.drop();
});

const LATE_STATEMENTS = new Set([SETTLE_LATE, RESUME_LATE]);
const row = async () => (await inbox.rows())[0]!;
const results = () => inbox.query(`SELECT result FROM webhook_outbox_data WHERE result IS NOT NULL`);
const linesAbout = (beginning: string) => lines.filter((line) => line.startsWith(beginning));

async function owe(effect = 'mail'): Promise<string> {
  const { manager } = inbox.dataSource;
  return (await inbox.app.get(Outbox).enqueue(manager, effect, {}, { outsideTransaction: true })).id;
}

/** Another transaction holds the row until the attempt is aborted, so that its settle waits meanwhile. */
async function holdUntilAborted({ key, signal }: EffectContext): Promise<void> {
  const holder = inbox.dataSource.createQueryRunner();
  await holder.startTransaction();
  await holder.query(`SELECT FROM webhook_outbox WHERE id = $1 FOR UPDATE`, [key]);
  const letGo = () => void holder.rollbackTransaction().then(() => holder.release());
  if (signal.aborted) letGo();
  else signal.addEventListener('abort', letGo);
}

describe('an attempt whose time-out fires while its end is being recorded', () => {
  it.each<[string, Call]>([
    [
      'without a completion',
      async (context) => {
        await holdUntilAborted(context);
        return 'sent';
      },
    ],
    [
      'with one',
      async (context) => {
        await new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS / 2));
        await context.complete(() => holdUntilAborted(context));
        return 'sent';
      },
    ],
  ])('is done, and is recorded once: %s', async (_, settles) => {
    call = settles;
    const outboxId = await owe();
    const heard = await hear(inbox.dataSource, async () => {
      expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
      // A late end would be recorded by now.
      await inbox.relay.tick();
    });
    expect(heard.filter(({ sql }) => LATE_STATEMENTS.has(sql))).toEqual([]);
    expect(heard.filter(({ sql }) => sql === KEEP_RESULT).length).toBeLessThan(2);
    expect(linesAbout('a late end')).toEqual([]);
    expect(done).toEqual([{ outboxId, attempt: 1 }]);
    expect(await results()).toEqual([{ result: '"sent"' }]);
  });
});

describe('the settle of an effect whose answer never came', () => {
  it.each<[string, string, () => string, (context: EffectContext) => Promise<void>]>([
    ['with others', 'mail', () => qualified(inbox.dataSource, SETTLE_MANY), async () => undefined],
    ['with the turn of its key', 'in-line', () => 'COMMIT', async () => undefined],
    ['with a completion', 'mail', () => 'COMMIT', ({ complete }) => complete(() => undefined)],
  ])('is told of once, as any other: %s', async (_, effect, statement, completes) => {
    call = async (context) => {
      await completes(context);
      proxy.cutAt(statement(), 'after');
      return 'sent';
    };
    const outboxId = await owe(effect);
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    expect(proxy.cuts).toBe(1);
    expect(done).toEqual([{ outboxId, attempt: 1 }]);
    expect(linesAbout('effect done ')).toHaveLength(1);
  });
});

describe('a call that was given up', () => {
  let latch: Latch;
  let context: EffectContext;

  beforeEach(() => {
    latch = new Latch();
    call = async (given) => {
      context = given;
      await latch.wait();
      return 'sent late';
    };
  });

  it.each([
    ['mail', 'pending'],
    ['doubtful', 'parked'],
  ])('and ends well is told of once, as done: %s, which was %s', async (effect, state) => {
    const outboxId = await owe(effect);
    await inbox.relay.tick();
    expect([await row(), done]).toMatchObject([{ state }, []]);
    latch.open();
    await until(() => linesAbout('a late end').length > 0);
    expect(linesAbout('a late end')).toEqual([expect.stringMatching(/^a late end was recorded /)]);
    expect(done).toEqual([{ outboxId, attempt: 1 }]);
    expect([await row(), await results()]).toMatchObject([{ state: 'done' }, [{ result: '"sent late"' }]]);
  });

  it('is done also when the answer of its late settle never came', async () => {
    const outboxId = await owe();
    await inbox.relay.tick();
    proxy.cutAt(qualified(inbox.dataSource, SETTLE_LATE), 'after');
    latch.open();
    await until(() => linesAbout('a late end').length > 0);
    expect(proxy.cuts).toBe(1);
    expect(linesAbout('a late end')).toEqual([expect.stringMatching(/^a late end was recorded /)]);
    expect(done).toEqual([{ outboxId, attempt: 1 }]);
  });

  it('is not told of as done where another attempt was made: nothing of it is kept', async () => {
    const outboxId = await owe();
    await inbox.relay.tick();
    call = () => 'sent again';
    await inbox.makeDue();
    expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
    latch.open();
    await until(() => linesAbout('a late end').length > 0);
    expect(linesAbout('a late end')).toEqual([
      expect.stringMatching(/^a late end of the effect was not recorded; it may have happened twice/),
    ]);
    expect(done).toEqual([{ outboxId, attempt: 2 }]);
    expect(await results()).toEqual([{ result: '"sent again"' }]);
  });

  it('and has a completion is not done: its result is kept for the next attempt', async () => {
    await owe();
    await inbox.relay.tick();
    await context.complete(() => undefined);
    latch.open();
    await until(() => linesAbout('a late end').length > 0);
    expect(linesAbout('a late end')).toEqual([expect.stringMatching(/^a late end was kept /)]);
    expect([done, await row(), await results()]).toMatchObject([
      [],
      { state: 'pending' },
      [{ result: '"sent late"' }],
    ]);
  });

  it('is kept although the end of its attempt could not be recorded', async () => {
    await inbox.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused'; END $$`);
    await inbox.query(`CREATE TRIGGER refuse BEFORE UPDATE ON webhook_outbox FOR EACH ROW
      WHEN (NEW.error IS NOT NULL) EXECUTE FUNCTION refuse()`);
    try {
      await owe();
      await inbox.relay.tick();
      expect(linesAbout('the end of a run was not recorded')).toHaveLength(1);
    } finally {
      await inbox.query(`DROP FUNCTION refuse CASCADE`);
    }
    await context.complete(() => undefined);
    latch.open();
    await until(async () => (await results()).length > 0);
    expect(await row()).toMatchObject({ state: 'pending', leased_by: expect.any(String) });
  });
});

it('an effect whose lease was given back during its call is done, and told of', async () => {
  call = async ({ key }) => {
    await inbox.query(`UPDATE webhook_outbox SET leased_by = NULL WHERE id = $1`, [key]);
    return 'sent';
  };
  const outboxId = await owe();
  expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
  expect(done).toEqual([{ outboxId, attempt: 1 }]);
  expect(linesAbout('effect done ')).toHaveLength(1);
});
