import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The application's own table. */
export class ReceivedEvent1796000001000 implements MigrationInterface {
  readonly name = 'ReceivedEvent1796000001000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE IF NOT EXISTS received_event (
        source        text    NOT NULL,
        event_id      text    NOT NULL,
        event_type    text    NOT NULL,
        applied_count integer NOT NULL DEFAULT 1,
        PRIMARY KEY (source, event_id)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE IF EXISTS received_event`);
  }
}
