import { jest } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { BackfillSource, Backfills, OnWebhook, Retention, StartupReconciler } from '../../src/index.js';
import { OwedRows } from '../../src/inbox/catch-up/owed-rows.js';
import { Claimer } from '../../src/inbox/claimer.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { WakeUp } from '../../src/outbox/wake/wake-up.js';
import { RetentionStore } from '../../src/storage/desk/retention.store.js';
import { StatStore } from '../../src/storage/desk/stat.store.js';
import { createDatabase } from '../support/database.js';
import { makePast } from '../support/past.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { startInbox, type InboxSetup, type TestInbox } from './support/inbox.js';

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*')
  handle() {}
}

@Injectable()
class List {
  @BackfillSource('awardee')
  async *list() {
    for (const id of ['1', '2', '3'])
      yield {
        body: { id },
        headers: { 'X-Awardee-Delivery': id, 'X-Awardee-Event': 'grant.made' },
      };
  }
}

let inbox: TestInbox;
const start = async (providers: Type[], setup: InboxSetup = {}) => {
  inbox = await startInbox({ providers, ...setup });
  return jest.spyOn(inbox.app.get(WakeUp), 'wake');
};

describe('a job that fails in a later part wakes the relays for what its earlier parts have committed', () => {
  afterEach(() => inbox.stop());

  it('the reconciler', async () => {
    const wake = await start([Handlers]);
    for (const id of ['1', '2']) await inbox.deliver(id);
    await inbox.query('DELETE FROM webhook_outbox');
    const rows = inbox.app.get(OwedRows);
    const add = rows.add.bind(rows);
    let added = 0;
    jest.spyOn(rows, 'add').mockImplementation((...of) => {
      added += 1;
      return added === 2 ? Promise.reject(new Error('no database')) : add(...of);
    });
    wake.mockClear();
    await expect(inbox.app.get(StartupReconciler).reconcile()).rejects.toThrow('no database');
    expect(await inbox.rows()).toHaveLength(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  it('a backfill', async () => {
    const wake = await start([Handlers, List]);
    const claimer = inbox.app.get(Claimer);
    const claim = claimer.claim.bind(claimer);
    // Together they are refused; one by one the first goes in, the second does not.
    jest.spyOn(claimer, 'claim').mockImplementation((...of) => {
      const ids = of[1].map(({ event }) => event.eventId);
      return ids.join() === '1' ? claim(...of) : Promise.reject(new Error('no database'));
    });
    wake.mockClear();
    const since = new Date(Date.now() - 3_600_000);
    await expect(inbox.app.get(Backfills).run('awardee', { since })).rejects.toThrow('no database');
    expect(await inbox.rows()).toHaveLength(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });
});

describe('on a connection that went half-open within its transaction', () => {
  it.each<[string, (freeze: () => void) => Promise<unknown>]>([
    [
      'retention ends, with an error',
      (freeze) => {
        const store = inbox.app.get(RetentionStore);
        const original = store.deleteClaims.bind(store);
        jest.spyOn(store, 'deleteClaims').mockImplementation((...of) => {
          freeze();
          return original(...of);
        });
        return inbox.app.get(Retention).prune();
      },
    ],
    [
      'the writing down of counts ends, with an error',
      (freeze) => {
        const store = inbox.app.get(StatStore);
        const original = store.flush.bind(store);
        jest.spyOn(store, 'flush').mockImplementation((...of) => {
          freeze();
          return original(...of);
        });
        return inbox.app.get(DeskKeeper).round();
      },
    ],
  ])('%s', async (_, job) => {
    const database = await createDatabase();
    const proxy = await TcpProxy.start(database.url);
    try {
      await start([Handlers], {
        database,
        databaseUrl: proxy.url,
        webhooks: { claimTimeout: '100ms', relay: { listen: false } },
      });
      await makePast(database, { source: 'awardee', events: 2, days: [40, 50] });
      await expect(job(() => proxy.freeze())).rejects.toThrow(/connection|Connection/);
    } finally {
      await proxy.stop();
      await inbox.app.close();
      await database.drop();
    }
  });
});
