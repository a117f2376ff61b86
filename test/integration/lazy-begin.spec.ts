import { Client, Query, type QueryConfig } from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import { UserTransaction } from '../../src/storage/postgres/user-transaction.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let dataSource: DataSource;

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  dataSource = await new DataSource({ type: 'postgres', url: database.url, poolSize: 1 }).initialize();
  await dataSource.query('CREATE TABLE written (n int)');
});
afterAll(async () => {
  await dataSource?.destroy();
  await database?.drop();
});
afterEach(() => dataSource.query('TRUNCATE written'));

const run = <T>(code: (manager: EntityManager) => Promise<T>) =>
  UserTransaction.run(dataSource, { timeoutMs: 20_000, onMisuse: () => undefined }, (transaction) =>
    transaction.asUser(() => code(transaction.manager)),
  );
const written = () => dataSource.query<{ n: number }[]>('SELECT n FROM written ORDER BY n');

/** Ways to a query; each says so when it has failed. */
const WAYS: Record<string, (manager: EntityManager) => Promise<unknown>> = {
  'a query with values': (manager) => manager.query('INSERT INTO written VALUES ($1)', [1]),
  'a query without values': (manager) => manager.query('INSERT INTO written VALUES (1)'),
  'a query object': async ({ queryRunner }) => {
    const client = (await queryRunner!.connect()) as Client;
    const query = client.query(new Query('INSERT INTO written VALUES (1)'));
    return new Promise((resolve, reject) => query.on('end', resolve).on('error', reject));
  },
  'a query object with a callback': async ({ queryRunner }) => {
    const client = (await queryRunner!.connect()) as Client;
    return new Promise((resolve, reject) => {
      const query = new Query('INSERT INTO written VALUES (1)');
      const callback = (error: Error | null) => (error ? reject(error) : resolve(undefined));
      client.query(Object.assign(query, { callback }));
    });
  },
  'a query with a callback': async ({ queryRunner }) => {
    const client = (await queryRunner!.connect()) as Client;
    return new Promise((resolve, reject) => {
      client.query('INSERT INTO written VALUES (1)', (error) => (error ? reject(error) : resolve(undefined)));
    });
  },
  'settings of a query with a callback in them': async ({ queryRunner }) => {
    const client = (await queryRunner!.connect()) as Client;
    return new Promise((resolve, reject) => {
      const callback = (error: Error | null) => (error ? reject(error) : resolve(undefined));
      void client.query({
        text: 'INSERT INTO written VALUES ($1)',
        values: [1],
        callback,
      } as object as QueryConfig);
    });
  },
};

/** How many queries pg had at once, at most. */
async function mostAtOnce(work: () => Promise<unknown>): Promise<number> {
  let most = 0;
  const original = Reflect.get(Client.prototype, 'query') as (...args: unknown[]) => unknown;
  Client.prototype.query = function (this: Client, ...args: unknown[]) {
    const sent = original.apply(this, args);
    const { _queryQueue, _activeQuery } = this as object as { _queryQueue: unknown[]; _activeQuery: unknown };
    most = Math.max(most, _queryQueue.length + (_activeQuery === null ? 0 : 1));
    return sent;
  } as unknown as Client['query'];
  try {
    await work();
    return most;
  } finally {
    Client.prototype.query = original as unknown as Client['query'];
  }
}

/** As if the server refused to begin. */
async function withoutBegin<T>(work: () => Promise<T>): Promise<T> {
  const original = Reflect.get(Client.prototype, 'query') as (...args: unknown[]) => unknown;
  Client.prototype.query = function (this: Client, ...args: unknown[]) {
    const [first, ...others] = args;
    const refused = typeof first === 'string' && first.startsWith('START TRANSACTION');
    return original.call(this, refused ? 'SELECT 1 / 0' : first, ...others);
  } as unknown as Client['query'];
  try {
    return await work();
  } finally {
    Client.prototype.query = original as unknown as Client['query'];
  }
}

describe.each(Object.entries(WAYS))('a transaction whose first query is %s', (_, query) => {
  it('holds it, with its limits', async () => {
    await expect(
      run(async (manager) => {
        await query(manager);
        expect(await manager.query('SHOW statement_timeout')).toEqual([{ statement_timeout: '20s' }]);
        throw new Error('rolled back');
      }),
    ).rejects.toThrow('rolled back');
    expect(await written()).toEqual([]);
    await run(query);
    expect(await written()).toEqual([{ n: 1 }]);
    expect(await dataSource.query('SHOW statement_timeout')).toEqual([{ statement_timeout: '0' }]);
  });

  it('writes nothing where it could not be begun, whatever becomes of the error', async () => {
    const swallowed = async (manager: EntityManager) => {
      // One after the other, and at once.
      for (let nth = 0; nth < 2; nth += 1) await query(manager).catch(() => undefined);
      await Promise.allSettled(Object.values(WAYS).map((way) => way(manager)));
    };
    // One whose BEGIN had been prepared, on a connection that was cleared since; and one that is refused.
    await run((manager) => manager.query('SELECT $1::int', [1]));
    await dataSource.query('DISCARD ALL');
    await withoutBegin(() => expect(run(swallowed)).rejects.toThrow(/division by zero|does not exist/));
    expect(await written()).toEqual([]);
    await run(query);
    expect(await written()).toEqual([{ n: 1 }]);
  });
});

it('a transaction without a query is committed, and leaves nothing open', async () => {
  expect(await run(async () => 'done')).toBe('done');
  expect(await dataSource.query(`SELECT state FROM pg_stat_activity WHERE pid = pg_backend_pid()`)).toEqual([
    { state: 'active' },
  ]);
  await run(WAYS['a query with values']!);
  expect(await written()).toEqual([{ n: 1 }]);
});

it('a transaction without a query, whose last statement is refused, leaves nothing open', async () => {
  const refused = UserTransaction.run(
    dataSource,
    { timeoutMs: 20_000, onMisuse: () => undefined },
    async (transaction) =>
      transaction.commitWith({ statements: [{ sql: 'SELECT 1 / 0' }], refusal: () => new Error('refused') }),
  );
  await expect(refused).rejects.toThrow('refused');
  expect(await written()).toEqual([]);
});

it('queries that are started at once are all in it, one after the other', async () => {
  const atOnce = await mostAtOnce(() =>
    run((manager) => Promise.all(Object.values(WAYS).map((way) => way(manager)))),
  );
  expect(await written()).toEqual(Object.keys(WAYS).map(() => ({ n: 1 })));
  // pg 8.23 warns of a second query while one runs, and pg 9 refuses it.
  expect(atOnce).toBe(1);
  const failing = run(async (manager) => {
    await Promise.all(Object.values(WAYS).map((way) => way(manager)));
    await manager.query('SELECT 1 / $1::int', [0]).catch(() => undefined);
  });
  // pg tells of the failure before the server says what state it is in: the COMMIT may be what finds out.
  await expect(failing).rejects.toThrow('its error was swallowed: SELECT 1 / $1::int: division by zero');
  expect(await written()).toHaveLength(Object.keys(WAYS).length);
});

it.each(Object.entries(WAYS))(
  'code that goes on after its time hears that %s was not sent',
  async (_, query) => {
    const time = new AbortController();
    const heard: unknown[] = [];
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const code = async (manager: EntityManager) => {
      time.abort(new Error('its time is up'));
      await new Promise((resolve) => setImmediate(resolve));
      heard.push(await query(manager).catch((error: unknown) => error));
      end();
    };
    await UserTransaction.run(dataSource, { timeoutMs: 20_000, onMisuse: () => undefined }, (transaction) =>
      transaction.asUser(() => code(transaction.manager), time.signal),
    ).catch(() => undefined);
    await ended;
    expect(heard).toMatchObject([{ code: 'MANAGER_MISUSED' }]);
    expect(await written()).toEqual([]);
  },
);
