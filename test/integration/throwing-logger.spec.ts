import { jest } from '@jest/globals';
import { scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

describe('an application whose logger throws', () => {
  const script: Partial<Script> = {};
  const emitWarning = jest.spyOn(process, 'emitWarning').mockReturnValue();
  const fail = () => {
    throw new Error('the logger has ended');
  };
  let inbox: TestInbox;

  beforeAll(async () => {
    inbox = await startInbox({
      loop: true,
      providers: [scripted(script, { handler: { retry: { base: 1 } } })],
    });
    inbox.app.useLogger({ log: fail, warn: fail, error: fail, debug: fail });
  });
  afterAll(async () => {
    emitWarning.mockRestore();
    inbox?.app.useLogger(false);
    await inbox?.stop();
  });

  it('has its events acknowledged, run and settled all the same, and is told once', async () => {
    script.handle = async (_event, { attempt, enqueue }) => {
      if (attempt === 1) throw new Error('not yet');
      await enqueue('mail', {});
    };
    for (const id of ['a', 'a', 'b']) expect(await inbox.deliver(id)).toMatchObject({ status: 200 });
    await inbox.settle();
    const rows = await inbox.rows();
    expect(rows).toHaveLength(4);
    for (const row of rows) expect(row).toMatchObject({ state: 'done', lost: 0 });
    expect(emitWarning.mock.calls).toEqual([
      [`the application's logger threw: Error: the logger has ended`, 'WebhookInboxWarning'],
    ]);
  });
});
