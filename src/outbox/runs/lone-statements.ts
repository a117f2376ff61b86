import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { isWholeDatabases } from '../../core/classify.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { inTransaction, onConnection, poolSize } from '../../storage/postgres/connection.js';

/** A machine that is very busy takes its time, however short the lease. */
const MIN_ANSWER_MS = 5_000;

/**
 * Statements about leased rows, outside of any transaction of the application. Their records must not wait for the lease to end. After a
 * failover the pool may be full of connections to a server that takes no writes. After a network fault it may be full of half-open ones.
 * Each such connection is given up, and the statement is sent on the next. The first may have been done, so all of them are fenced, and a
 * second one finds nothing to do.
 */
@Injectable()
export class LoneStatements {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** On a connection of its own. */
  send<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    return this.untilAnswered(() => onConnection(this.dataSource, work, this.answerMs));
  }

  /** Several that are committed together. */
  commit<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const { answerMs } = this;
    return this.untilAnswered(() => inTransaction(this.dataSource.manager, answerMs, work, answerMs));
  }

  private async untilAnswered<T>(attempt: () => Promise<T>): Promise<T> {
    const end = performance.now() + 3 * this.answerMs;
    for (let connections = poolSize(this.dataSource); ; connections -= 1) {
      try {
        return await attempt();
      } catch (error) {
        if (!isWholeDatabases(error) || connections === 0 || performance.now() >= end) throw error;
      }
    }
  }

  /** Three fit into a lease of 15 s or more. */
  private get answerMs(): number {
    const { relay } = this.options;
    return relay === false ? MIN_ANSWER_MS : Math.max(MIN_ANSWER_MS, relay.leaseMs / 3);
  }
}
