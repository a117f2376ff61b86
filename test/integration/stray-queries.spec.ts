import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { outsideTransaction } from '../../src/index.js';
import { INSERT_RECORD, record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

describe('R29 a handler that queries past its transaction', () => {
  const script: Partial<Script> = {};
  let inbox: TestInbox;

  beforeAll(async () => {
    inbox = await startInbox({ providers: [scripted(script, { effect: false })] });
  });
  afterAll(() => inbox.stop());
  afterEach(() => inbox.query('DELETE FROM received_event'));

  const settleOne = async (id: string) => {
    await inbox.deliver(id);
    await inbox.relay.tick();
    return (await inbox.rows(`event_id = '${id}'`))[0]!;
  };
  const write = (id: string) => inbox.dataSource.query(INSERT_RECORD, ['awardee', id, 'stray']);

  it('is refused when it writes, with the remedy, and leaves no row behind', async () => {
    script.handle = async (event, context) => {
      await record(event, context);
      await write('stray');
    };
    // At once: trying again would be refused again.
    expect(await settleOne('1')).toMatchObject({
      state: 'dead',
      error: expect.stringContaining('outsideTransaction(() => …)'),
    });
    expect(await inbox.query('SELECT * FROM received_event')).toEqual([]);
  });

  it.each<[string, (error: unknown) => unknown]>([
    ['swallows', () => undefined],
    ['wraps', (cause) => Promise.reject(new Error('no such order', { cause }))],
  ])('is refused when it %s the error', async (name, then) => {
    script.handle = (event) => write(event.eventId).catch(then);
    expect(await settleOne(name)).toMatchObject({
      state: 'dead',
      error: expect.stringContaining('A handler wrote past its transaction'),
    });
  });

  it('is told of without the values in it', async () => {
    script.handle = () => inbox.dataSource.query(`DELETE FROM received_event WHERE event_id = 'card 4242'`);
    expect(await settleOne('1a')).toMatchObject({
      error: expect.stringContaining(`: DELETE FROM received_event WHERE event_id = '…'. It would stay`),
    });
  });

  it('is refused when it opens a transaction of its own and writes in that', async () => {
    script.handle = () =>
      inbox.dataSource.transaction((manager) => manager.query(INSERT_RECORD, ['awardee', 'stray', 'stray']));
    expect(await settleOne('2')).toMatchObject({ state: 'dead', attempt: 1 });
    expect(await inbox.query('SELECT * FROM received_event')).toEqual([]);
  });

  it('is warned once for each place when it reads', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    script.handle = () => inbox.dataSource.query('SELECT 1');
    expect(await settleOne('3')).toMatchObject({ state: 'done' });
    expect(await settleOne('4')).toMatchObject({ state: 'done' });
    const warnings = warn.mock.calls.filter(([line]) => String(line).includes('past its transaction'));
    warn.mockRestore();
    expect(warnings).toHaveLength(1);
  });

  it('may do so inside outsideTransaction, and after it has ended', async () => {
    let later: (() => Promise<unknown>) | undefined;
    script.handle = async () => {
      await outsideTransaction(() => write('meant'));
      later = () => write('later');
    };
    expect(await settleOne('5')).toMatchObject({ state: 'done' });
    await later!();
    expect(await inbox.query('SELECT event_id FROM received_event ORDER BY 1')).toEqual([
      { event_id: 'later' },
      { event_id: 'meant' },
    ]);
  });

  describe('where NODE_ENV says neither development nor test', () => {
    const before = process.env.NODE_ENV;
    let log: jest.SpiedFunction<Logger['log']>;
    let other: TestInbox | undefined;
    beforeEach(() => {
      log = jest.spyOn(Logger.prototype, 'log').mockImplementation(() => undefined);
    });
    afterEach(async () => {
      process.env.NODE_ENV = before;
      log.mockRestore();
      await other?.stop();
      other = undefined;
    });
    const start = async (environment: string | undefined) => {
      if (environment === undefined) delete process.env.NODE_ENV;
      else process.env.NODE_ENV = environment;
      other = await startInbox({ providers: [scripted(script, { effect: false })] });
      process.env.NODE_ENV = before;
      return other;
    };
    const told = () =>
      log.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('NODE_ENV'));

    it('is not watched', async () => {
      const production = await start('production');
      script.handle = () => production.dataSource.query(INSERT_RECORD, ['awardee', 'stray', 'stray']);
      await production.deliver('6');
      expect(await production.relay.tick()).toMatchObject({ done: 1 });
    });

    it.each([
      [undefined, 'NODE_ENV is not set'],
      ['', 'NODE_ENV is not set'],
      ['staging', "NODE_ENV is 'staging'"],
    ])('boot says so, and what to set (NODE_ENV: %j)', async (environment, text) => {
      await start(environment);
      expect(told()).toEqual([
        `${text}: queries past a handler's transaction are not detected. Set NODE_ENV=development (or test) on your own machine: ` +
          'then such a write throws, and such a read warns',
      ]);
    });

    it.each(['production', 'development', 'test'])(
      'boot says nothing of it under %s',
      async (environment) => {
        await start(environment);
        expect(told()).toEqual([]);
      },
    );
  });
});
