import { DataSource } from 'typeorm';
import { NotAnswered } from '../../src/core/errors.js';
import { BoundedRead } from '../../src/storage/postgres/bounded-read.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { TcpProxy } from '../support/tcp-proxy.js';

describe('questions of people', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  it('are two at a time, fifty that wait, and no more', async () => {
    const reads = new BoundedRead(database.dataSource);
    const latch = new Latch();
    let running = 0;
    const ask = () =>
      reads.run(async (manager) => {
        running += 1;
        expect(running).toBeLessThanOrEqual(2);
        await latch.wait();
        await manager.query('SELECT 1');
        running -= 1;
      });
    const asked = Array.from({ length: 52 }, ask);
    await expect(ask()).rejects.toThrow(NotAnswered);
    latch.open();
    await Promise.all(asked);
    await ask();
  });

  it('change nothing, and end with their statement’s limit', async () => {
    const reads = new BoundedRead(database.dataSource);
    await expect(reads.run((manager) => manager.query('DELETE FROM webhook_stat'))).rejects.toMatchObject({
      code: '25006',
    });
    await expect(reads.run((manager) => manager.query('SELECT pg_sleep(60)'))).rejects.toMatchObject({
      code: '57014',
    });
  });

  it('give their places back when their connections have died without a word', async () => {
    const proxy = await TcpProxy.start(database.url);
    const dataSource = await new DataSource(options(proxy.url, 4)).initialize();
    const reads = new BoundedRead(dataSource);
    try {
      const dead = [1, 2].map(() =>
        reads.run(async (manager) => {
          await manager.query('SELECT 1');
          proxy.freeze();
          await manager.query('SELECT 1');
        }, 1_500),
      );
      await Promise.all(dead.map((one) => expect(one).rejects.toThrow(/./)));
      expect(await reads.run((manager) => manager.query('SELECT 1 AS one'))).toEqual([{ one: 1 }]);
    } finally {
      await proxy.stop();
      await dataSource.destroy();
    }
  });
});
