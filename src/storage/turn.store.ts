import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { dataSourceOf } from './postgres/connection.js';
import type { Statement } from './postgres/message-query.js';
import { lockName, query } from './schema/own-schema.js';
import { ADVANCE_TENANTS, GIVE_TURNS, PASS_TURN } from './turn.sql.js';

/** Rows of one run one after the other. Two are one when both parts are. */
export interface OrderKey {
  /** The first name of the handler or effect: under a new one it still waits for work under the old. */
  readonly name: string;
  readonly key: string;
}

const START: OrderKey = { name: '', key: '' };
const KEYS_A_LOOK = 500;

/**
 * Order per key: of the pending rows with one order key, one at most has the turn and can be leased. Turns are given by one
 * relay at a time (an advisory lock that is tried, never waited for), and passed on by the settle of the row that has it.
 */
@Injectable()
export class TurnStore {
  /**
   * Gives the turn to waiting keys without one. Must run in a transaction.
   * @param names first names of handlers and effects
   * @param blocked names of those whose dead and parked rows hold their key
   * @returns how many turns were given, and the next cursor (undefined: from the start); undefined when another relay gives turns
   */
  async give(
    manager: EntityManager,
    names: readonly string[],
    blocked: readonly string[],
    after: OrderKey = START,
  ): Promise<{ given: number; next: OrderKey | undefined } | undefined> {
    const [lock]: { locked: boolean }[] = await query(
      manager,
      `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS locked`,
      [lockName(dataSourceOf(manager), 'turns')],
    );
    if (!lock!.locked) return undefined;
    // A statement of its own after the lock: its snapshot sees what the former holder has committed.
    const [row]: { given: number; looked: number; last_name: string; last_key: string }[] = await query(
      manager,
      GIVE_TURNS,
      [names, KEYS_A_LOOK, after.name, after.key, blocked],
    );
    const next = row!.looked < KEYS_A_LOOK ? undefined : { name: row!.last_name, key: row!.last_key };
    return { given: row!.given, next };
  }

  /** Brings rows of tenants forward that wait behind a backlog of others. Returns how many. */
  async advanceTenants(manager: EntityManager, name: string): Promise<number> {
    const [row]: { moved: number }[] = await query(manager, ADVANCE_TENANTS, [name]);
    return row!.moved;
  }

  /** Passes the turn to the next row of the key, in the transaction that settled the one before. */
  async pass(manager: EntityManager, key: OrderKey): Promise<boolean> {
    const { sql, values } = this.passing(key);
    const rows: unknown[] = await query(manager, sql, [...values!]);
    return rows.length === 1;
  }

  /** The same, for one message with the COMMIT: it returns a row where the turn was passed. */
  passing({ name, key }: OrderKey): Statement {
    return { sql: PASS_TURN, values: [name, key] };
  }
}
