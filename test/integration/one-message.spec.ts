import { jest } from '@jest/globals';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { pgClient, type PgClient } from '../../src/storage/postgres/connection.js';
import { eachInTransaction } from '../../src/storage/postgres/each-transaction.js';
import {
  inOneMessage,
  plannedOnce,
  prepared,
  withoutPreparedStatements,
} from '../../src/storage/postgres/one-message.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { TransactionPooler } from '../support/transaction-pooler.js';

let database: TestDatabase;
let dataSource: DataSource;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(async () => {
  await database?.drop();
});
beforeEach(async () => {
  dataSource = await connect(database.url);
});
afterEach(async () => {
  await dataSource.destroy();
});

function connect(url: string, extra: Record<string, unknown> = {}): Promise<DataSource> {
  return new DataSource({ type: 'postgres', url, poolSize: 1, extra }).initialize();
}

/** With the pool's only connection. */
async function onClient<T>(work: (client: PgClient) => Promise<T>, of = dataSource): Promise<T> {
  const runner = of.createQueryRunner();
  try {
    return await work(await pgClient(runner));
  } finally {
    await runner.release();
  }
}

async function preparedCount(of = dataSource): Promise<number> {
  const [row] = await of.query<{ count: number }[]>(
    `SELECT count(*)::int AS count FROM pg_prepared_statements WHERE name LIKE 'webhook_inbox_%'`,
  );
  return row!.count;
}

const LIMITS = { lockTimeoutMs: 1_000, endAfterMs: 10_000 };
const ADD = 'SELECT $1::int + $2::int AS sum';

describe('one message', () => {
  it('gives the results of all statements in order, each with its command', async () => {
    const results = await onClient((client) =>
      inOneMessage(client, dataSource, [
        { sql: 'BEGIN' },
        { sql: ADD, values: [1, 2] },
        { sql: 'SELECT 1 WHERE false' },
        { sql: 'COMMIT' },
      ]),
    );
    expect(results.map(({ command }) => command)).toEqual(['BEGIN', 'SELECT', 'SELECT', 'COMMIT']);
    expect(results.map(({ rows }) => rows)).toEqual([[], [{ sum: 3 }], [], []]);
  });

  it('runs nothing behind a statement that fails, and leaves the connection usable', async () => {
    await dataSource.query('CREATE TABLE IF NOT EXISTS kept (n int)');
    await onClient(async (client) => {
      const sent = inOneMessage(client, dataSource, [
        { sql: 'BEGIN' },
        { sql: 'INSERT INTO kept VALUES ($1)', values: [1] },
        { sql: 'SELECT 1 / $1::int', values: [0] },
        { sql: 'COMMIT' },
      ]);
      await expect(sent).rejects.toMatchObject({ code: '22012' });
      await expect(client.query('SELECT 1')).rejects.toMatchObject({ code: '25P02' });
      await client.query('ROLLBACK');
    });
    expect(await dataSource.query('SELECT * FROM kept')).toEqual([]);
  });

  it('writes values as PostgreSQL reads them', async () => {
    const at = new Date('2026-11-28T12:34:56.789Z');
    const texts = ['plain', 'a "quoted" \\ one', '', null, '{,}', 'NULL', 'ü\u{1f600}\n'];
    const bytes = Buffer.from([0, 1, 0x22, 0x5c, 0xff]);
    const [row] = await prepared<Record<string, unknown>>(
      dataSource.manager,
      `SELECT $1::text[] AS texts, $2::bytea AS bytes, $3::bytea[] AS many, $4::timestamptz AS at, $5::timestamptz[] AS times,
              $6::int[] AS numbers, $7::boolean AS yes, $8::boolean[] AS flags, $9::text AS nothing, $10::int[] AS none`,
      [texts, bytes, [bytes, null], at, [at, null], [1, null, -3], true, [true, false, null], undefined, []],
    );
    expect(row).toEqual({
      texts,
      bytes,
      many: [bytes, null],
      at,
      times: [at, null],
      numbers: [1, null, -3],
      yes: true,
      flags: [true, false, null],
      nothing: null,
      none: [],
    });
  });

  it('ends the transaction of a statement that fails, so that the next on its connection is sound', async () => {
    for (let nth = 0; nth < 30; nth += 1) {
      await eachInTransaction(dataSource, LIMITS, async (statements) => {
        await expect(statements.commit('SELECT 1 / $1::int', [0])).rejects.toMatchObject({ code: '22012' });
        expect(await statements.commit(ADD, [nth, 1])).toEqual([{ sum: nth + 1 }]);
      });
    }
  });

  it('runs a statement again whose preparation was taken away, since nothing of it was committed', async () => {
    await dataSource.query('CREATE TABLE IF NOT EXISTS summed (n int)');
    const add = 'INSERT INTO summed SELECT $1::int + $2::int RETURNING n';
    const once = () => eachInTransaction(dataSource, LIMITS, ({ commit }) => commit(add, [1, 1]));
    await once();
    await dataSource.query('DEALLOCATE ALL');
    expect(await once()).toEqual([{ n: 2 }]);
    expect(await dataSource.query('SELECT n FROM summed')).toEqual([{ n: 2 }, { n: 2 }]);
  });

  it.each([
    ['is done', 'INSERT INTO ended VALUES ($1)', 2, [1, 2, 3]],
    ['fails', 'INSERT INTO ended SELECT 1 / $1::int', 0, [1, 3]],
    // Only at its own commit.
    ['is refused by its commit', 'INSERT INTO ended VALUES ($1)', 1, [1, 3]],
  ])('what ends a connection is another transaction: one that %s', async (_how, sql, value, kept) => {
    await dataSource.query('DROP TABLE IF EXISTS ended');
    await dataSource.query(
      'CREATE TABLE ended (n int UNIQUE DEFERRABLE INITIALLY DEFERRED, xid xid8 DEFAULT pg_current_xact_id())',
    );
    const told: unknown[] = [];
    await eachInTransaction(dataSource, LIMITS, async ({ commit, endWith }) => {
      expect(await commit('INSERT INTO ended VALUES ($1) RETURNING n', [1])).toEqual([{ n: 1 }]);
      endWith({ sql, values: [value] }, (error) => told.push(error));
      expect(await commit('INSERT INTO ended VALUES ($1) RETURNING n', [3])).toEqual([{ n: 3 }]);
    });
    await until(() => told.length === 1);
    expect(told[0] === undefined).toBe(kept.length === 3);
    const rows = await dataSource.query<{ n: number; xid: string }[]>('SELECT * FROM ended ORDER BY n');
    expect(rows.map(({ n }) => n)).toEqual(kept);
    expect(new Set(rows.map(({ xid }) => xid)).size).toBe(rows.length);
  });

  it('nobody waits for what ends a connection, and it is given up when it takes too long', async () => {
    const holder = await connect(database.url);
    try {
      const told: unknown[] = [];
      const lock = holder.createQueryRunner();
      await lock.query('BEGIN');
      await lock.query('SELECT pg_advisory_xact_lock(4711)');
      const given = await eachInTransaction(
        dataSource,
        { lockTimeoutMs: 1_000, endAfterMs: 500 },
        async ({ endWith }) => {
          endWith({ sql: 'SELECT pg_advisory_xact_lock(4711)' }, (error) => told.push(error));
          return 'given';
        },
      );
      expect(given).toBe('given');
      expect(told).toEqual([]);
      await until(() => told.length === 1);
      expect(told[0]).toBeInstanceOf(Error);
      await lock.query('ROLLBACK');
      await lock.release();
      expect(await dataSource.query(ADD, [1, 1])).toEqual([{ sum: 2 }]);
    } finally {
      await holder.destroy();
    }
  });

  it('what is to end a connection is not sent where the work fails', async () => {
    const told: unknown[] = [];
    const work = eachInTransaction(dataSource, LIMITS, async ({ commit, endWith }) => {
      endWith({ sql: 'SELECT 1' }, (error) => told.push(error));
      await commit('SELECT 1 / $1::int', [0]);
    });
    await expect(work).rejects.toMatchObject({ code: '22012' });
    expect(told).toEqual([expect.objectContaining({ code: '22012' })]);
  });

  it('gives up a connection whose transaction may still be running', async () => {
    const holder = await connect(database.url);
    const hasty = await connect(database.url, { query_timeout: 200 });
    try {
      await holder.query('CREATE TABLE IF NOT EXISTS locked (n int)');
      const lock = holder.createQueryRunner();
      await lock.startTransaction();
      await lock.query('LOCK TABLE locked');
      const sent = eachInTransaction(hasty, LIMITS, ({ commit }) => commit('INSERT INTO locked VALUES (1)'));
      await expect(sent).rejects.toThrow('timeout');
      // What the server still tries fails for its own lock time-out, in a transaction that nobody ends.
      await until(async () => {
        const [row] = await lock.query(`SELECT count(*)::int AS waiting FROM pg_locks WHERE NOT granted`);
        return (row as { waiting: number }).waiting === 0;
      });
      expect(await hasty.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await lock.rollbackTransaction();
      await lock.release();
    } finally {
      await hasty.destroy();
      await holder.destroy();
    }
  });

  it('sends nothing of a message with a value that cannot be written', async () => {
    await onClient(async (client) => {
      const statement = { sql: 'SELECT $1::timestamptz', values: [new Date(Number.NaN)] };
      await expect(inOneMessage(client, dataSource, [statement])).rejects.toThrow(RangeError);
      expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    });
  });

  it('has a statement prepared once on a connection that leads to one process', async () => {
    for (let nth = 0; nth < 3; nth += 1) await prepared(dataSource.manager, ADD, [nth, 1]);
    expect(await preparedCount()).toBe(1);
  });

  it('prepares a statement again after a message in which it failed', async () => {
    const divide = 'SELECT 12 / $1::int AS result';
    await onClient((client) => inOneMessage(client, dataSource, [{ sql: ADD, values: [1, 1] }]));
    await expect(prepared(dataSource.manager, divide, [0])).rejects.toMatchObject({ code: '22012' });
    expect(await prepared(dataSource.manager, divide, [4])).toEqual([{ result: 3 }]);
  });

  it('goes on without prepared statements on a connection where they were taken away', async () => {
    await prepared(dataSource.manager, ADD, [1, 1]);
    await dataSource.query('DEALLOCATE ALL');
    expect(await prepared(dataSource.manager, ADD, [1, 1])).toEqual([{ sum: 2 }]);
    expect(await preparedCount()).toBe(0);
  });

  it('shares a connection with another copy of this package', async () => {
    // A module of its own for whoever resolves it.
    const path = '../../src/storage/postgres/one-message.js';
    const copy = (await import(`${path}?copy`)) as {
      inOneMessage: typeof inOneMessage;
    };
    expect(copy.inOneMessage).not.toBe(inOneMessage);
    await onClient(async (client) => {
      const ask = async (send: typeof inOneMessage, sql: string) =>
        (await send(client, dataSource, [{ sql }]))[0]!.rows;
      await ask(inOneMessage, `SELECT 'first' AS of_one`);
      for (const sql of [
        'second',
        'third',
        'fourth',
        'fifth',
        'sixth',
        'seventh',
        'eighth',
        'ninth',
        'tenth',
      ])
        await ask(copy.inOneMessage, `SELECT '${sql}' AS of_the_other`);
      expect(await ask(inOneMessage, `SELECT 'first' AS of_one`)).toEqual([{ of_one: 'first' }]);
    });
  });

  it('in a transaction fails where a prepared statement was taken away', async () => {
    await prepared(dataSource.manager, ADD, [1, 1]);
    const within = dataSource.transaction(async (manager) => {
      await manager.query('DEALLOCATE ALL');
      await prepared(manager, ADD, [1, 1]);
    });
    await expect(within).rejects.toMatchObject({ code: '26000' });
    expect(await prepared(dataSource.manager, ADD, [1, 1])).toEqual([{ sum: 2 }]);
  });

  it.each([
    ['that is used often', 100, 2_000],
    ['that is used now and then', 1, 11_000],
  ])(
    'prepares a statement %s anew after a while: its plan is of the table as it was',
    async (_, uses, ms) => {
      const preparedAt = async () => {
        const [{ prepare_time: at }] = await dataSource.query<[{ prepare_time: Date }]>(
          `SELECT prepare_time FROM pg_prepared_statements WHERE statement = '${ADD}'`,
        );
        return at.getTime();
      };
      const now = jest.spyOn(performance, 'now');
      try {
        await prepared(dataSource.manager, ADD, [1, 1]);
        const first = await preparedAt();
        for (let nth = 0; nth < uses; nth += 1) await prepared(dataSource.manager, ADD, [1, 1]);
        expect(await preparedAt()).toBe(first);
        const later = performance.now() + ms;
        now.mockImplementation(() => later);
        await prepared(dataSource.manager, ADD, [1, 1]);
        expect(await preparedAt()).toBeGreaterThan(first);
      } finally {
        now.mockRestore();
      }
    },
  );

  it('keeps a statement that is used now and then for some seconds', async () => {
    const now = jest.spyOn(performance, 'now');
    try {
      await prepared(dataSource.manager, ADD, [1, 1]);
      const later = performance.now() + 9_000;
      now.mockImplementation(() => later);
      await prepared(dataSource.manager, ADD, [1, 1]);
      const [{ generic_plans: kept, custom_plans: anew }] = await dataSource.query(
        `SELECT generic_plans::int, custom_plans::int FROM pg_prepared_statements WHERE statement = '${ADD}'`,
      );
      expect(kept + anew).toBe(2);
    } finally {
      now.mockRestore();
    }
  });

  it('plans a statement once for all values where that is asked', async () => {
    const last = `SELECT n FROM generate_series(1, 1000) n ORDER BY n LIMIT $1::int`;
    for (let nth = 1; nth <= 3; nth += 1)
      expect(await plannedOnce(dataSource.manager, last, [nth])).toHaveLength(nth);
    const [plans] = await dataSource.query(
      `SELECT generic_plans::int AS once, custom_plans::int AS anew FROM pg_prepared_statements WHERE statement = '${last}'`,
    );
    expect(plans).toEqual({ once: 3, anew: 0 });
    // Only for that message.
    expect(await dataSource.query('SHOW plan_cache_mode')).toEqual([{ plan_cache_mode: 'auto' }]);
  });

  it('prepares nothing where that is switched off', async () => {
    withoutPreparedStatements(dataSource);
    expect(await prepared(dataSource.manager, ADD, [1, 1])).toEqual([{ sum: 2 }]);
    expect(await preparedCount()).toBe(0);
  });

  it('prepares nothing behind a pooler, which lends other processes', async () => {
    const pooler = await TransactionPooler.start(database.url, 2);
    const pooled = await connect(pooler.url);
    try {
      for (let nth = 0; nth < 5; nth += 1) await prepared(pooled.manager, ADD, [nth, 1]);
      const all = await Promise.all([0, 1].map(() => preparedCount(pooled)));
      expect(all).toEqual([0, 0]);
    } finally {
      await pooled.destroy();
      await pooler.stop();
    }
  });

  it('sends one statement after the other where the client is not the one that writes the protocol', async () => {
    const client = new Client({ connectionString: database.url });
    await client.connect();
    try {
      const other = { query: client.query.bind(client), connection: undefined } as unknown as PgClient;
      const results = await inOneMessage(other, dataSource, [
        { sql: ADD, values: [2, 3] },
        { sql: 'SELECT 1 AS one' },
      ]);
      expect(results.map(({ rows }) => rows)).toEqual([[{ sum: 5 }], [{ one: 1 }]]);
    } finally {
      await client.end();
    }
  });
});
