import { deliver, runDue } from '../../src/testing/index.js';
import { until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const event = (id: string) => ({ id, type: 'grant.made', payload: { grant: 'g-7' } });

describe('runDue beside the relay’s own rounds', () => {
  const script: Partial<Script> = {};
  let inbox: TestInbox;
  beforeAll(async () => {
    inbox = await startInbox({ loop: true, providers: [scripted(script)] });
  });
  afterAll(() => inbox?.stop());

  it('waits for a run that they have begun, and for what it enqueues, and counts both', async () => {
    let begun = false;
    const go = new Latch();
    script.handle = async (_event, { enqueue }) => {
      begun = true;
      await go.wait();
      await enqueue('mail', { to: 'a' });
    };
    await deliver(inbox.app, 'awardee', event('d-1'));
    await until(() => begun);
    const ended = runDue(inbox.app);
    go.open();
    expect(await ended).toMatchObject({ leased: 2, done: 2 });
    expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
  });

  it('counts what they have done before it was called, once', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'b' });
    await deliver(inbox.app, 'awardee', event('d-2'));
    await until(async () => (await inbox.rows(`state = 'done' AND kind = 'effect'`)).length === 2);
    expect(await runDue(inbox.app)).toMatchObject({ done: 2 });
    expect(await runDue(inbox.app)).toMatchObject({ leased: 0, done: 0 });
  });

  it('says the same whoever was first, and leaves the rounds on', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'c' });
    for (const id of ['d-3', 'd-4', 'd-5']) {
      await deliver(inbox.app, 'awardee', event(id));
      expect(await runDue(inbox.app)).toMatchObject({ leased: 2, done: 2, retried: 0 });
    }
    await deliver(inbox.app, 'awardee', event('d-6'));
    await until(async () => (await inbox.rows(`state = 'done' AND event_id = 'd-6'`)).length > 0);
  });
});
