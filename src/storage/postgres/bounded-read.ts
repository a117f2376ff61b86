import { Injectable, Inject } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { NotAnswered } from '../../core/errors.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { endsWithin } from '../../core/time/waits.js';
import { inTransaction } from './connection.js';
import { Replica } from './replica.js';

/** Longest statement of a person's question, in milliseconds. */
const STATEMENT_TIMEOUT_MS = 2_000;
/** When a question's connection is given up: on a half-open one the server's own limit never arrives. */
const END_AFTER_MS = 15_000;
/** The same for a replica: afterwards the primary is asked. */
const REPLICA_END_MS = 5_000;
/** Questions at once: the connections are those of the claims. */
const MAX_AT_ONCE = 2;
/** Questions that wait for a slot. */
const MAX_WAITING = 50;

// Reads by index alone, for any statistics: right after a bulk of events they may describe a nearly empty table. `jit` is off: before
// PostgreSQL 18 a scan that was ruled out, but is made all the same, counts as expensive enough to be compiled.
const BOUNDS = `SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS};
  SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL datestyle = ISO`;

/** Reads for people: one at a time or two, read only, and never longer than two seconds, so that no question can starve a claim. */
@Injectable()
export class BoundedRead {
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  private readonly replica: Replica;

  constructor(@Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource) {
    this.replica = new Replica(dataSource);
  }

  /**
   * @param endAfterMs when its connection is given up, and its slot with it
   * @throws NotAnswered
   */
  async run<T>(read: (manager: EntityManager) => Promise<T>, endAfterMs = END_AFTER_MS): Promise<T> {
    if (this.running >= MAX_AT_ONCE) {
      if (this.waiting.length >= MAX_WAITING) throw new NotAnswered(`${MAX_WAITING} questions wait already`);
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    } else this.running += 1;
    try {
      return await this.answered(read, endAfterMs);
    } finally {
      const next = this.waiting.shift();
      // The slot goes to the question that has waited longest, so the number of running ones stays.
      if (next === undefined) this.running -= 1;
      else next();
    }
  }

  /** The primary answers what the replica does not. */
  private async answered<T>(read: (manager: EntityManager) => Promise<T>, endAfterMs: number): Promise<T> {
    if (!this.replica.isAsked) return this.inTime(read, endAfterMs);
    const checked = async (manager: EntityManager) => {
      await this.replica.check(manager);
      return read(manager);
    };
    try {
      return await this.inTime(checked, Math.min(endAfterMs, REPLICA_END_MS), 'slave');
    } catch (error) {
      this.replica.avoid(error);
      return this.inTime(read, endAfterMs);
    }
  }

  /** A connection that is being made can hang as well as one that is there, and the driver ends only the latter. */
  private async inTime<T>(
    read: (manager: EntityManager) => Promise<T>,
    endAfterMs: number,
    on: 'master' | 'slave' = 'master',
  ): Promise<T> {
    const late = new NotAnswered(`the database did not answer within ${endAfterMs} ms`);
    let isLate = false;
    const reading = inTransaction(
      this.dataSource.manager,
      STATEMENT_TIMEOUT_MS,
      async (manager) => {
        if (isLate) throw late;
        await manager.query(BOUNDS);
        return read(manager);
      },
      endAfterMs,
      on,
    );
    const ended = reading.catch(() => undefined);
    if (!(await endsWithin(ended, endAfterMs))) {
      isLate = true;
      throw late;
    }
    return reading;
  }
}
