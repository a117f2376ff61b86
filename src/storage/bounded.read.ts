import { Injectable, Inject } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { QuestionsQueued } from '../core/errors.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { inTransaction } from './connection.js';

/** Longest statement of a person's question, in milliseconds. */
const STATEMENT_TIMEOUT_MS = 2_000;
/** When a question's connection is given up: on a half-open one the server's own limit never arrives. */
const END_AFTER_MS = 15_000;
/** Questions at once: the connections are those of the claims. */
const MAX_AT_ONCE = 2;
/** Questions that wait for a place. */
const MAX_WAITING = 50;

// By index alone, whatever the statistics say: right after a bulk of events they may tell of a table that is nearly empty. Without
// `jit`, since before PostgreSQL 18 a scan that was ruled out and is made all the same counts as dear enough to be compiled.
const BOUNDS = `SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS};
  SET LOCAL enable_seqscan = off; SET LOCAL jit = off`;

/** Reads for people: one at a time or two, read only, and never longer than two seconds, so that no question can starve a claim. */
@Injectable()
export class BoundedRead {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(@Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource) {}

  /**
   * @param endAfterMs when the connection is given up that does not answer
   * @throws QuestionsQueued when so many wait that this one would hardly be answered while anyone still looks
   */
  async run<T>(read: (manager: EntityManager) => Promise<T>, endAfterMs = END_AFTER_MS): Promise<T> {
    if (this.running >= MAX_AT_ONCE) {
      if (this.waiting.length >= MAX_WAITING) throw new QuestionsQueued(MAX_WAITING);
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    } else this.running += 1;
    try {
      return await inTransaction(
        this.dataSource.manager,
        STATEMENT_TIMEOUT_MS,
        async (manager) => {
          await manager.query(BOUNDS);
          return read(manager);
        },
        endAfterMs,
      );
    } finally {
      const next = this.waiting.shift();
      // The place goes to whoever has waited longest; the number that runs stays.
      if (next === undefined) this.running -= 1;
      else next();
    }
  }
}
