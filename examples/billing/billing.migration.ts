import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Billing1796000003000 implements MigrationInterface {
  readonly name = 'Billing1796000003000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      `CREATE TABLE billing_invoice (id text PRIMARY KEY, email text, paid_at timestamptz NOT NULL)`,
    );
    await runner.query(`CREATE TABLE billing_subscription (id text PRIMARY KEY, status text NOT NULL)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE billing_subscription, billing_invoice`);
  }
}
