import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What the repeat-safe handlers write. */
export class Billing1796000002000 implements MigrationInterface {
  readonly name = 'Billing1796000002000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      `CREATE TABLE IF NOT EXISTS invoice (id text PRIMARY KEY, status text NOT NULL, paid_at timestamptz)`,
    );
    await runner.query(`CREATE TABLE IF NOT EXISTS subscription (id text PRIMARY KEY, status text NOT NULL)`);
    await runner.query(`CREATE TABLE IF NOT EXISTS customer (id text PRIMARY KEY, email text)`);
    await runner.query(`CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, credits integer NOT NULL)`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS account_grant (account text NOT NULL, plan text NOT NULL, PRIMARY KEY (account, plan))`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE IF EXISTS account_grant, account, customer, subscription, invoice`);
  }
}
