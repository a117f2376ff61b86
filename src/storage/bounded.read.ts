import { Injectable, Inject } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';

/** Longest statement of a person's question, in milliseconds. */
const STATEMENT_TIMEOUT_MS = 2_000;
/** Questions at once: the connections are those of the claims. */
const MAX_AT_ONCE = 2;

/** Reads for people: one at a time or two, read only, and never longer than two seconds, so that no question can starve a claim. */
@Injectable()
export class BoundedRead {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(@Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource) {}

  async run<T>(read: (manager: EntityManager) => Promise<T>): Promise<T> {
    if (this.running >= MAX_AT_ONCE) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.running += 1;
    try {
      return await this.dataSource.transaction('READ COMMITTED', async (manager) => {
        await manager.query(`SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
        await manager.query(`SET TRANSACTION READ ONLY`);
        return read(manager);
      });
    } finally {
      const next = this.waiting.shift();
      // The place goes to whoever has waited longest; the number that runs stays.
      if (next === undefined) this.running -= 1;
      else next();
    }
  }
}
