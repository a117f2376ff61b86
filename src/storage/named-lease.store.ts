import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { dataSourceOf, onConnection } from './postgres/connection.js';
import { query } from './schema/own-schema.js';

/** When a statement's connection is given up: a half-open one never answers. */
const END_MS = 10_000;

/**
 * Named jobs that one instance at a time may run. Rows with an end, not session locks: those break behind a pooler that lends
 * each transaction another connection.
 */
@Injectable()
export class NamedLeaseStore {
  /** Takes the job for `ms` milliseconds, or prolongs it. False while another owner has it. */
  async take(manager: EntityManager, name: string, owner: string, ms: number): Promise<boolean> {
    const take = (one: EntityManager) => query<unknown[]>(one, TAKE, [name, owner, ms]);
    return (await onConnection(dataSourceOf(manager), take, END_MS)).length === 1;
  }

  async giveBack(manager: EntityManager, name: string, owner: string): Promise<void> {
    const drop = (one: EntityManager) =>
      query(one, `DELETE FROM webhook_lease WHERE name = $1 AND owner = $2`, [name, owner]);
    await onConnection(dataSourceOf(manager), drop, END_MS);
  }
}

const TAKE = `
  INSERT INTO webhook_lease AS l (name, owner, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms')
      ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, until = EXCLUDED.until
   WHERE l.owner = EXCLUDED.owner OR l.until <= clock_timestamp()
  RETURNING name`;
