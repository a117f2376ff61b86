import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Statement } from './message.query.js';
import { prepared } from './one.message.js';

/** The channel of this package in a database. */
export const CHANNEL = 'webhook_inbox';

@Injectable()
export class NotifyStore {
  /**
   * Tells the listeners of every instance. Never in a claim's transaction, nor where an answer waits for it: the commit of a notification
   * takes a lock of the whole server, which whoever else notifies may hold for long; it cost 60 to 70 % of the commits when each
   * transaction did it; and it fails when the server's notification queue is full.
   * It is a hint that a crash may lose: its own commit does not wait for the disk.
   */
  statement(payload: string): Statement {
    return {
      sql: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`,
      values: [CHANNEL, payload],
    };
  }

  /** @throws when the server's notification queue is full */
  async notify(manager: EntityManager, payload: string): Promise<void> {
    const { sql, values = [] } = this.statement(payload);
    await prepared(manager, sql, values);
  }
}
