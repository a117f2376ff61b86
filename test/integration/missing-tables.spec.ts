import type { INestApplication } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { migrate, StartupReconciler } from '../../src/index.js';
import { until } from '../support/application.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { startInbox, type TestInbox } from './support/inbox.js';

const HINT =
  /the table webhook_\w+ is missing\. Run the package's migrations: list webhookInboxMigrations .*await migrate\(dataSource\)/;

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase({ empty: true });
});
afterAll(() => database?.drop());

describe('a database without the tables', () => {
  const lines: string[] = [];
  const keep = (line: unknown) => void lines.push(String(line));
  let inbox: TestInbox;
  beforeAll(async () => {
    inbox = await startInbox({
      database,
      loop: true,
      configure: (app: INestApplication) => app.useLogger({ log: keep, warn: keep, error: keep }),
    });
  });
  afterAll(() => inbox?.stop());

  it.each([
    ['the relay', 'the outbox could not be read: ', async () => undefined],
    ['a claim', 'answered 503: not claimed, ', () => inbox.deliver('d-1')],
    ['the reconciler', 'reconciliation failed: ', () => inbox.app.get(StartupReconciler).reconcileQuietly()],
    ['the desk', 'counts could not be written down: ', async () => undefined],
  ])('%s says which is missing and what to run', async (_, beginning, act) => {
    await act();
    const line = await until(() => lines.find((one) => one.startsWith(beginning)));
    expect(line).toMatch(HINT);
  });
});

describe('migrate() of a DataSource that does not list the package’s migrations', () => {
  it('says what to add, instead of finding nothing to run', async () => {
    const dataSource = new DataSource(options(database.url));
    try {
      await expect(migrate(dataSource)).rejects.toThrow(
        /expected webhookInboxMigrations among the migrations of the DataSource, found 0 others\. Add them/,
      );
    } finally {
      await dataSource.destroy();
    }
  });
});
