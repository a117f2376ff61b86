import { Injectable } from '@nestjs/common';
import {
  addTransactionalDataSource,
  initializeTransactionalContext,
  Propagation,
  Transactional,
} from 'typeorm-transactional';
import type { DataSource } from 'typeorm';
import { OnEffect, Outbox } from '../../src/index.js';
import { startInbox, type TestInbox } from './support/inbox.js';

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
