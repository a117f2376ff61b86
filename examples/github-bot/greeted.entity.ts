import { Column, Entity, PrimaryColumn, type MigrationInterface, type QueryRunner } from 'typeorm';

/** A person who was greeted in a repository. */
@Entity('bot_greeted')
export class Greeted {
  @PrimaryColumn('text')
  repository!: string;

  @PrimaryColumn('text')
  login!: string;

  /** Number of the issue that has the greeting. */
  @Column('integer')
  issue!: number;
}

export class Greeted1796000004000 implements MigrationInterface {
  readonly name = 'Greeted1796000004000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      `CREATE TABLE bot_greeted (repository text, login text, issue integer NOT NULL, PRIMARY KEY (repository, login))`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE bot_greeted`);
  }
}
