import { Injectable } from '@nestjs/common';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation,
  runInTransaction,
  Transactional,
} from 'typeorm-transactional';
import type { DataSource, EntityManager } from 'typeorm';
import { OnEffect, Outbox } from '../../src/index.js';
import type { WebhooksOptions } from '../../src/core/options/options.js';
import { INSERT_RECORD, record, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

let dataSource: DataSource;
let outbox: Outbox;

@Injectable()
class Effects {
  @OnEffect('mail')
  mail() {}
}

class Orders {
  @Transactional()
  async place(fails: boolean): Promise<void> {
    await dataSource.manager.query(
      `INSERT INTO received_event (source, event_id, event_type) VALUES ('o', '1', 't')`,
    );
    await outbox.enqueue(dataSource.manager, 'mail', {});
    if (fails) throw new Error('no such customer');
  }

  @Transactional({ propagation: Propagation.NOT_SUPPORTED })
  async outside(): Promise<void> {
    await outbox.enqueue(dataSource.manager, 'mail', {});
  }
}

let inbox: TestInbox;
const counts = async () => [
  (await inbox.rows()).length,
  (await inbox.query(`SELECT FROM received_event`)).length,
];

beforeAll(async () => {
  initializeTransactionalContext();
  inbox = await startInbox({ providers: [Effects] });
  dataSource = addTransactionalDataSource(inbox.dataSource);
  outbox = inbox.app.get(Outbox);
});
afterAll(() => inbox.stop());

describe('Outbox.enqueue with typeorm-transactional', () => {
  it('inside @Transactional() takes dataSource.manager, and commits and rolls back with it', async () => {
    await expect(new Orders().place(true)).rejects.toThrow('no such customer');
    expect(await counts()).toEqual([0, 0]);
    await new Orders().place(false);
    expect(await counts()).toEqual([1, 1]);
  });

  it('outside of one refuses dataSource.manager', async () => {
    for (const enqueue of [
      () => outbox.enqueue(dataSource.manager, 'mail', {}),
      () => new Orders().outside(),
    ])
      await expect(enqueue()).rejects.toMatchObject({ code: 'ENQUEUE_REFUSED' });
    expect(await counts()).toEqual([1, 1]);
  });
});

describe('a handler whose service is under @Transactional()', () => {
  const script: Partial<Script> = {};
  let second: TestInbox;
  let others: DataSource;

  class Service {
    @Transactional({ connectionName: 'second' })
    async write(id: string): Promise<void> {
      await others.manager.query(INSERT_RECORD, ['service', id, 't']);
    }
  }
  const both: Script['handle'] = async (event, context) => {
    await record(event, context);
    await new Service().write(event.eventId);
  };
  const written = () => second.query(`SELECT source FROM received_event ORDER BY source`);
  const start = async (transaction?: WebhooksOptions['transaction']) => {
    second = await startInbox({ providers: [scripted(script)], webhooks: { transaction } });
    deleteDataSourceByName('second');
    others = addTransactionalDataSource({ name: 'second', dataSource: second.dataSource });
  };
  afterEach(() => second.stop());

  it('is one transaction with it by the option `transaction`, however the run ends', async () => {
    await start((_, run) =>
      runInTransaction(() => run(), { connectionName: 'second', propagation: Propagation.REQUIRES_NEW }),
    );
    script.handle = async (event, context) => {
      await both(event, context);
      if (context.attempt === 1) throw new Error('not yet');
    };
    await second.deliver('1');
    await second.relay.tick();
    expect(await written()).toEqual([]);
    await second.settle();
    expect(await written()).toEqual([{ source: 'awardee' }, { source: 'service' }]);
    expect(await second.rows()).toMatchObject([{ state: 'done', attempt: 2 }]);
  });

  it('is dead at once without it, where it is caught', async () => {
    await start();
    script.handle = both;
    await second.deliver('1');
    await second.relay.tick();
    expect(await second.rows()).toMatchObject([
      { state: 'dead', attempt: 1, error: expect.stringContaining('option `transaction` of WebhooksModule') },
    ]);
    expect(await written()).toEqual([]);
  });

  it.each<[string, WebhooksOptions['transaction'], string]>([
    [
      'has it fail before COMMIT',
      (ds, run) => ds.transaction((manager) => runThenFail(run, manager)),
      'answered ROLLBACK',
    ],
    ['opens none', (_, run) => run(), 'outside a transaction'],
    ['calls nothing', async () => undefined, 'without the COMMIT'],
  ])('is not done where the option %s', async (_, transaction, error) => {
    await start(transaction);
    script.handle = record;
    await second.deliver('1');
    await second.relay.tick();
    expect(await second.rows()).toMatchObject([{ state: 'pending', error: expect.stringContaining(error) }]);
    expect(await written()).toEqual([]);
  });
});

/** As where the library swallows the error, so that what it opened is rolled back. */
async function runThenFail(run: (manager: EntityManager) => Promise<void>, manager: EntityManager) {
  await run(manager);
  await manager.query('SELECT 1 / 0').catch(() => undefined);
}
