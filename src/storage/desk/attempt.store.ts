import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { ATTEMPTS, type AttemptOutcome, type RowAct } from './attempt.sql.js';
import { query } from '../schema/own-schema.js';

/** One attempt of a row, or what a person did to the row. */
export interface Attempt {
  readonly outboxId: string;
  readonly attempt: number;
  /** When it was leased. Null of what a person did. */
  readonly begunAt: Date | null;
  /** Null while it runs. Of a lost attempt: the end of its lease. */
  readonly endedAt: Date | null;
  readonly outcome: AttemptOutcome | RowAct | 'running';
  readonly reason: string | null;
  readonly error: string | null;
  /** Where the error was thrown in the application's code: `file:line:column`. */
  readonly place: string | null;
  /** The process that ran it: the id of its relay. */
  readonly instance: string | null;
  /** That process as `host:pid`, where it was known when the attempt ended. */
  readonly host: string | null;
  readonly build: string | null;
  /** The person, and the reason that they gave. */
  readonly by: string | null;
  readonly why: string | null;
}

/** The history of rows. The statement that ends an attempt writes it down, and so does the statement of a person's deed. */
@Injectable()
export class AttemptStore {
  /** All attempts of some rows, in the order of their ends: 1,000 at most. */
  async of(manager: EntityManager, outboxIds: readonly string[]): Promise<Attempt[]> {
    return query(manager, ATTEMPTS, [outboxIds]);
  }
}
