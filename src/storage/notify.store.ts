import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import type { Statement } from './postgres/message-query.js';
import { prepared } from './postgres/one-message.js';
import { channelOf } from './schema/own-schema.js';

@Injectable()
export class NotifyStore {
  constructor(@Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource) {}

  /**
   * Notifies the listeners of every instance. It is never sent in a claim's transaction, and no answer waits for it. The commit of a
   * notification takes a lock of the whole server, which another application may hold for long. It cost 60 to 70 % of the commits when each
   * transaction did it, and it fails when the server's notification queue is full. A notification is a hint that a crash may lose, so its
   * own commit does not wait for the disk.
   */
  statement(payload: string): Statement {
    return {
      sql: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`,
      values: [channelOf(this.dataSource), payload],
    };
  }

  /** @throws when the server's notification queue is full */
  async notify(manager: EntityManager, payload: string): Promise<void> {
    const { sql, values = [] } = this.statement(payload);
    await prepared(manager, sql, values);
  }
}
