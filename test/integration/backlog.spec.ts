import { awardeeSource, scripted, startInbox, type Script } from './support/inbox.js';

describe('maxPending', () => {
  it('answers 503 while more rows are pending, and takes deliveries again when they are fewer', async () => {
    const inbox = await startInbox({
      webhooks: { maxPending: 2 },
      providers: [scripted({}, { effect: false })],
    });
    const statuses: number[] = [];
    for (const id of ['1', '2', '3']) statuses.push((await inbox.deliver(id)).status);
    // The number is looked at once a second at most: what came in the meantime is let in.
    expect(statuses[0]).toBe(200);
    await inbox.query(`SELECT pg_sleep(1.1)`);
    expect(await inbox.deliver('4')).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
    expect(await inbox.query(`SELECT FROM webhook_claim WHERE event_id = '4'`)).toEqual([]);
    await inbox.settle();
    await inbox.query(`SELECT pg_sleep(1.1)`);
    expect(await inbox.deliver('4')).toMatchObject({ status: 200 });
    await inbox.stop();
  });

  it('lets redeliveries of known events through: under retries by the provider nothing else works its rows off', async () => {
    const script: Partial<Script> = {
      handle: () => {
        throw new Error('down');
      },
    };
    const inbox = await startInbox({
      webhooks: { maxPending: 1, sources: { awardee: awardeeSource({ retries: 'provider' }) } },
      providers: [scripted(script, { effect: false })],
    });
    expect((await inbox.deliver('1')).status).toBe(500);
    expect((await inbox.deliver('2')).status).toBe(500);
    script.handle = () => undefined;
    await inbox.query(`SELECT pg_sleep(1.1)`);
    expect((await inbox.deliver('3')).status).toBe(503);
    expect((await inbox.deliver('1')).status).toBe(200);
    expect((await inbox.deliver('2')).status).toBe(200);
    expect(await inbox.rows()).toMatchObject([{ state: 'done' }, { state: 'done' }]);
    await inbox.stop();
  });
});
