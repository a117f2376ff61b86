import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Client } from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import { eachInTransaction } from '../../src/storage/postgres/each-transaction.js';
import { plannedOnce } from '../../src/storage/postgres/one-message.js';
import { UserTransaction } from '../../src/storage/postgres/user-transaction.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

type Query = (this: Client, ...args: unknown[]) => unknown;
type Wrapper = (original: Query) => Query;
interface Config {
  text?: string;
  values?: unknown[];
  callback?: (error: unknown, result: unknown) => void;
}
const isConfig = (value: unknown): value is Config => typeof value === 'object' && value !== null;
const COMMENT = " /*traceparent='00-1-1-00'*/";

/** What tools and applications make of a pg client's queries. */
const WRAPPERS: Record<string, Wrapper> = {
  'spreads the query and adds a comment, as OpenTelemetry does': (original) =>
    function (first, ...rest) {
      if (!isConfig(first)) return original.call(this, `${first as string}${COMMENT}`, ...rest);
      const { callback } = first;
      const copy = { ...first, text: first.text + COMMENT };
      if (callback) copy.callback = (error, result) => callback(error, result);
      return original.call(this, copy, ...rest);
    },
  'copies the query': (original) =>
    function (first, ...rest) {
      return original.call(this, isConfig(first) ? { ...first } : first, ...rest);
    },
  'sends text and values': (original) =>
    function (first, ...rest) {
      return isConfig(first)
        ? original.call(this, first.text, first.values)
        : original.call(this, first, ...rest);
    },
  'waits, and sends a copy': (original) =>
    async function (first, ...rest) {
      await Promise.resolve();
      return original.call(this, isConfig(first) ? { ...first, callback: undefined } : first, ...rest);
    },
  'changes the text in its place, as dd-trace does': (original) =>
    function (first, ...rest) {
      if (isConfig(first) && typeof first.text === 'string') {
        const { text } = first;
        Object.defineProperty(first, 'text', { get: () => text + COMMENT, configurable: true });
      }
      return original.call(this, first, ...rest);
    },
  'puts its own callback around the query’s': (original) =>
    function (first, ...rest) {
      if (isConfig(first) && first.callback) {
        const { callback } = first;
        first.callback = (error, result) => setImmediate(callback, error, result);
      }
      return original.call(this, first, ...rest);
    },
  'makes promises of everything, as Sentry does': (original) =>
    async function (...args) {
      return original.apply(this, args);
    },
  'puts a promise in the place of the callback': (original) =>
    function (first, ...rest) {
      if (!isConfig(first)) return original.call(this, first, ...rest);
      return new Promise((resolve, reject) => {
        first.callback = (error, result) => (error ? reject(error) : resolve(result));
        original.call(this, first, ...rest);
      });
    },
  'stands before the query as a proxy': (original) =>
    function (first, ...rest) {
      return original.call(this, isConfig(first) ? new Proxy(first, {}) : first, ...rest);
    },
};

let database: TestDatabase;
let dataSource: DataSource;
const original = Reflect.get(Client.prototype, 'query') as Query;
const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);

beforeAll(async () => {
  database = await createDatabase();
  await database.query('CREATE TABLE written (n int)');
});
afterAll(() => database?.drop());
beforeEach(async () => {
  dataSource = await new DataSource({ type: 'postgres', url: database.url, poolSize: 1 }).initialize();
  await database.query('TRUNCATE written');
});
afterEach(async () => {
  wrap(undefined);
  await dataSource.destroy();
});

function wrap(wrapper: Wrapper | undefined): void {
  Client.prototype.query = (wrapper?.(original) ?? original) as unknown as Client['query'];
}

const INSERT = 'INSERT INTO written VALUES ($1)';
const settle = { sql: 'INSERT INTO written VALUES ($1::int)', values: [2] };
const run = (code: (manager: EntityManager) => Promise<unknown>, refusedBy?: string) =>
  UserTransaction.run(dataSource, { timeoutMs: 20_000, onMisuse: () => undefined }, async (transaction) => {
    await transaction.asUser(() => code(transaction.manager));
    const statements = refusedBy === undefined ? [settle] : [settle, { sql: refusedBy }];
    transaction.commitWith({ statements, refusal: () => undefined });
  });
const written = async () => {
  const rows = await database.query<{ n: number }>('SELECT n FROM written ORDER BY n');
  return rows.map(({ n }) => n);
};

/** Each kind of message that the package sends. */
async function everyWay(): Promise<void> {
  await run((manager) => manager.query(INSERT, [1]));
  expect(await written()).toEqual([1, 2]);
  await expect(run((manager) => manager.query(INSERT, [3]), 'SELECT 1 / 0')).rejects.toThrow(
    'division by zero',
  );
  await expect(run((manager) => manager.query('SELECT 1 / $1::int', [0]))).rejects.toThrow(
    'division by zero',
  );
  await expect(
    run(async (manager) => {
      await manager.query(INSERT, [3]);
      throw new Error('rolled back');
    }),
  ).rejects.toThrow('rolled back');
  expect(await written()).toEqual([1, 2]);
  const limits = { lockTimeoutMs: 5_000, endAfterMs: 20_000 };
  const add = (n: number) =>
    eachInTransaction(dataSource, limits, (each) => each.commit('INSERT INTO written VALUES ($1::int)', [n]));
  await add(4);
  await expect(
    eachInTransaction(dataSource, limits, (each) => each.commit('SELECT 1 / $1::int', [0])),
  ).rejects.toThrow('division by zero');
  expect(await plannedOnce(dataSource.manager, 'SELECT $1::int AS n', [5])).toEqual([{ n: 5 }]);
  expect(await written()).toEqual([1, 2, 4]);
}

describe.each(Object.entries(WRAPPERS))('under something that %s', (_, wrapper) => {
  it('every message is sent, whole or statement by statement', async () => {
    wrap(wrapper);
    await everyWay();
  });

  it('every message is sent where it comes on later, and within a transaction', async () => {
    await run(async (manager) => {
      await manager.query(INSERT, [0]);
      wrap(wrapper);
    });
    expect(await written()).toEqual([0, 2]);
    await database.query('TRUNCATE written');
    await everyWay();
  });
});

it('says once that messages are sent statement by statement', () => {
  const lines = warn.mock.calls
    .map(([line]) => String(line))
    .filter((line) => line.includes('copies queries'));
  expect(lines).toHaveLength(1);
});
