import type { SkipStale } from '../../src/index.js';
import { WakeUp } from '../../src/outbox/wake/wake-up.js';
import { LEASE_ALONE, leaseDue } from '../../src/storage/outbox.sql.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { hear } from '../support/statements.js';
import {
  awardeeSource,
  scripted,
  startInbox,
  type InboxSetup,
  type Script,
  type TestInbox,
} from './support/inbox.js';

const script: Partial<Script> = {};
/** By how many rows it is for, at most. */
const LEASES = new Set([10, 100, 1_000].map(leaseDue));

let database: TestDatabase;
let inbox: TestInbox;

const plain = ['awardee', 'grants', 'idle'];
const names = [...plain, 'marked', 'line'];
const sources = Object.fromEntries(names.map((name) => [name, awardeeSource()]));
const skipStale: SkipStale = {
  key: () => 'one',
  at: ({ payload }) => new Date((payload as { at: number }).at),
};
const start = (setup: InboxSetup) =>
  startInbox({
    database,
    providers: [
      scripted(script, { sources: plain }),
      scripted(script, { sources: ['marked'], handler: { skipStale }, effect: false }),
      scripted(script, { sources: ['line'], handler: { skipStale, key: () => 'one' }, effect: false }),
    ],
    ...setup,
  });

beforeAll(async () => {
  database = await createDatabase();
  // A poll so late that a test which had to wait for it would fail.
  inbox = await start({ loop: true, webhooks: { sources, relay: { pollInterval: '10m' } } });
});
afterAll(async () => {
  await inbox.stop();
  await database.drop();
});

describe('rounds of the relay', () => {
  it('work off a backlog of several names without a poll, though each round leases what few places are free', async () => {
    const receiver = await start({ loop: false, webhooks: { sources, relay: false, notify: false } });
    for (let nth = 0; nth < 60; nth += 1) {
      for (const source of ['awardee', 'grants']) await receiver.deliverTo(source, `d-${nth}`);
    }
    await receiver.stop();
    inbox.app.get(WakeUp).wakeOwn();
    await until(async () => (await inbox.rows(`state = 'done'`)).length === 120, 20_000);
  });

  it('find what has come due before the place where the last lease of a backlog ended, though no commit tells of it', async () => {
    const receiver = await start({ loop: false, webhooks: { sources, relay: false, notify: false } });
    for (let nth = 0; nth < 60; nth += 1) await receiver.deliverTo('awardee', `b-${nth}`);
    await receiver.stop();
    let handled = 0;
    script.handle = async () => {
      handled += 1;
      if (handled !== 20) return;
      // The last in the line is the first by now.
      await database.query(`UPDATE webhook_outbox SET due_at = now() - interval '1 h'
        WHERE event_id = 'b-59' AND leased_by IS NULL AND state = 'pending'`);
    };
    inbox.app.get(WakeUp).wakeOwn(['awardee/handle']);
    await until(
      async () => (await inbox.rows(`event_id LIKE 'b-%' AND state = 'done'`)).length === 60,
      20_000,
    );
    script.handle = undefined;
  });

  it('find what is committed under a name that had nothing before', async () => {
    script.handle = async (event, { enqueue }) => {
      if (event.source === 'idle') await enqueue('mail', {});
    };
    await inbox.deliverTo('idle', 'd-1');
    await until(
      async () => (await inbox.rows(`state = 'done' AND (kind = 'effect' OR source = 'idle')`)).length === 2,
      20_000,
    );
  });

  it('ask for the names that a commit has told of, and for no other', async () => {
    script.handle = () => undefined;
    const looks = await hear(inbox.dataSource, async () => {
      await until(() => inbox.leaser.wasEmpty('idle/handle'));
      inbox.app.get(WakeUp).wakeOwn(['idle/handle']);
      await until(() => inbox.leaser.wasEmpty('idle/handle'));
    });
    expect(looks.filter(({ sql }) => sql === LEASE_ALONE)).toEqual([]);
    expect(looks.filter(({ sql }) => LEASES.has(sql)).map(({ parameters }) => parameters[2])).toEqual([
      ['idle/handle'],
    ]);
  });

  it('ask no more for names without due rows while another has a backlog', async () => {
    script.handle = () => undefined;
    const receiver = await start({ loop: false, webhooks: { sources, relay: false, notify: false } });
    for (let nth = 0; nth < 200; nth += 1) await receiver.deliverTo('awardee', `alone-${nth}`);
    await receiver.stop();
    const looks = await hear(inbox.dataSource, async () => {
      inbox.app.get(WakeUp).wakeOwn();
      await until(() => inbox.leaser.wasEmpty('awardee/handle'));
    });
    const [first, ...later] = looks
      .filter(({ sql }) => LEASES.has(sql))
      .map(({ parameters }) => parameters[2] as string[])
      .filter((polled) => polled.includes('awardee/handle'));
    expect(first).toContain('grants/handle');
    expect(later.length).toBeGreaterThan(1);
    expect(new Set(later.flat())).toEqual(new Set(['awardee/handle']));
  });

  it('look everywhere when what was committed is not known', async () => {
    await database.query(
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, due_at = now()
        WHERE kind = 'handler' AND source = 'idle'`,
    );
    await until(() => inbox.leaser.wasEmpty('idle/handle'));
    inbox.app.get(WakeUp).wakeOwn();
    await until(async () => (await inbox.rows(`state = 'pending'`)).length === 0, 20_000);
  });

  it('after a failed run look for its name alone', async () => {
    await until(() => inbox.leaser.wasEmpty('grants/handle'));
    let runs = 0;
    script.handle = () => {
      runs += 1;
      if (runs === 1) throw new Error('for once');
    };
    const looks = await hear(inbox.dataSource, async () => {
      await inbox.deliverTo('grants', 'fails-once');
      await until(
        async () => (await inbox.rows(`event_id = 'fails-once' AND error IS NOT NULL`)).length === 1,
      );
      await until(() => inbox.leaser.wasEmpty('grants/handle'));
    });
    const leased = looks.filter(({ sql }) => LEASES.has(sql)).flatMap(({ parameters }) => parameters[2]);
    expect(new Set(leased)).toEqual(new Set(['grants/handle']));
    expect(looks.filter(({ sql }) => sql === LEASE_ALONE)).toEqual([]);
    script.handle = () => undefined;
  });

  it('look no more often for a run that ends superseded than for one that is done', async () => {
    script.handle = () => undefined;
    const looksFor = async (id: string, at: number, state: string) => {
      await until(() => inbox.leaser.wasEmpty('marked/handle'));
      const heard = await hear(inbox.dataSource, async () => {
        await inbox.deliverTo('marked', id, { at });
        await until(async () => (await inbox.rows(`event_id = '${id}' AND state = '${state}'`)).length === 1);
        await until(() => inbox.work.running === 0);
        // A round that the end of the run asks for begins at once.
        await new Promise((resolve) => setTimeout(resolve, 50));
        await until(() => inbox.leaser.wasEmpty('marked/handle'));
      });
      return heard.filter(
        ({ sql, parameters }) => LEASES.has(sql) && String(parameters[2]).includes('marked/handle'),
      ).length;
    };
    const done = await looksFor('newer', 2, 'done');
    expect(await looksFor('older', 1, 'superseded')).toBe(done);
  });

  it('lease what waits behind a superseded row of its key, though no poll comes', async () => {
    const latch = new Latch();
    // The row of another test may wait for its retry.
    script.handle = ({ source }) => (source === 'line' ? latch.wait() : undefined);
    for (const [nth, at] of [5, 1, 2, 6, 3, 7].entries()) await inbox.deliverTo('line', `l-${nth}`, { at });
    await until(() => latch.arrived === 1);
    latch.open();
    await until(async () => (await inbox.rows(`source = 'line' AND state = 'pending'`)).length === 0);
    expect((await inbox.rows(`source = 'line'`)).map(({ state }) => state)).toEqual([
      'done',
      'superseded',
      'superseded',
      'done',
      'superseded',
      'done',
    ]);
  });
});
