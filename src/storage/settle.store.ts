import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { sqlStateOf } from '../core/classify.js';
import { storable } from '../core/event.js';
import { MAX_ERROR_BYTES } from '../core/log/log.js';
import type { DeadReason, ParkedReason } from '../core/states.js';
import { fence, fences } from './pending.sql.js';
import type { Lease, NamedEffect } from './leased-rows.js';
import type { Statement } from './postgres/message-query.js';
import { plannedOnce } from './postgres/one-message.js';
import { query } from './schema/own-schema.js';
import {
  FAIL,
  FAIL_LATE,
  KEEP_RESULT,
  REFUSE_RERUN,
  REFUSED,
  RESUME_LATE,
  SETTLE,
  SETTLE_LATE,
  SETTLE_MANY,
  SETTLE_OR_FAIL,
  SETTLE_WITH_RESULT,
  SETTLE_WITH_RESULT_OR_FAIL,
  SUPERSEDE,
} from './settle.sql.js';

/** The end of a run that has succeeded. */
export interface Settle {
  readonly lease: Lease;
  /** As JSON, or the summary that people read. */
  readonly result: string | undefined;
}

export type FailedSettle =
  /** Due so long after now, or after `since` where that is given; never in the past. By the database's clock. */
  | { readonly state: 'pending'; readonly delayMs: number; readonly since?: Date }
  | { readonly state: 'dead'; readonly reason: DeadReason }
  | { readonly state: 'parked'; readonly reason: ParkedReason };

/** How runs end. Behind the fence: only while the lease is ours, except for late results. */
@Injectable()
export class SettleStore {
  /** Settles a row as done, with its result as JSON. False when the lease is no longer ours. */
  async settle(manager: EntityManager, lease: Lease, result: string | undefined): Promise<boolean> {
    if (result === undefined) {
      // TypeORM's answer to an UPDATE: the rows it returned, and their number.
      const [, count]: [unknown[], number] = await query(manager, SETTLE, fence(lease));
      return count === 1;
    }
    const [row]: { settled: number }[] = await query(manager, SETTLE_WITH_RESULT, [...fence(lease), result]);
    return row!.settled === 1;
  }

  /** The same, for one message with the COMMIT: it fails, by `isRefusal`, when the lease is no longer ours. */
  settleOrFail(lease: Lease, result: string | undefined): Statement {
    return result === undefined
      ? { sql: SETTLE_OR_FAIL, values: fence(lease) }
      : { sql: SETTLE_WITH_RESULT_OR_FAIL, values: [...fence(lease), result] };
  }

  isRefusal(error: unknown): boolean {
    return sqlStateOf(error) === '22P02' && String(error).includes(REFUSED);
  }

  /** Settles rows as done, each with its result. Returns the ids of those that were still ours. */
  async settleMany(manager: EntityManager, settles: readonly Settle[]): Promise<Set<string>> {
    const sorted = settles.toSorted((a, b) => (a.lease.id < b.lease.id ? -1 : 1));
    const rows = await plannedOnce<{ id: string }>(manager, SETTLE_MANY, [
      ...fences(sorted.map(({ lease }) => lease)),
      sorted.map(({ result }) => result ?? null),
    ]);
    return new Set(rows.map((row) => row.id));
  }

  /** Settles a row as superseded: something newer of its key has been handled. False when the lease is no longer ours. */
  async supersede(manager: EntityManager, lease: Lease): Promise<boolean> {
    const rows: unknown[] = await query(manager, SUPERSEDE, fence(lease));
    return rows.length === 1;
  }

  /** Settles an attempt whose lease had ended, if it was not repeated. */
  async settleLate(manager: EntityManager, lease: Lease, result: string | undefined): Promise<boolean> {
    const rows: unknown[] = await query(manager, SETTLE_LATE, [lease.id, lease.attempt, result ?? null]);
    return rows.length === 1;
  }

  /** Keeps the result of an attempt whose lease had ended, and has the row run again when it was parked. False when it was not. */
  async resumeLate(manager: EntityManager, lease: Lease, result: string): Promise<boolean> {
    await this.keepResult(manager, lease.id, result);
    const rows: unknown[] = await query(manager, RESUME_LATE, [lease.id, lease.attempt]);
    return rows.length === 1;
  }

  /** Makes a row dead that waits for its next attempt, after the late end of its last one. False when it does not wait for that. */
  async failLate(
    manager: EntityManager,
    lease: Lease,
    { reason }: FailedSettle & { state: 'dead' },
    error: string,
    place?: string,
  ): Promise<boolean> {
    const rows: unknown[] = await query(manager, FAIL_LATE, [
      lease.id,
      lease.attempt,
      reason,
      storable(error, MAX_ERROR_BYTES),
      place === undefined ? null : storable(place, MAX_PLACE_BYTES),
    ]);
    return rows.length === 1;
  }

  /**
   * Settles a failed attempt. False when the lease is no longer ours.
   * @param inDoubt an effect's call may have gone through: the next attempt asks first
   * @param excused its loss was not to be counted; its failure is
   * @param place of the error in the application's code
   */
  async fail(
    manager: EntityManager,
    lease: Lease,
    to: FailedSettle,
    error: string,
    inDoubt = false,
    excused = false,
    place?: string,
  ): Promise<boolean> {
    const rows: unknown[] = await query(manager, FAIL, [
      ...fence(lease),
      to.state,
      to.state === 'pending' ? to.delayMs : 0,
      reasonOf(to),
      storable(error, MAX_ERROR_BYTES),
      inDoubt,
      to.state === 'pending' ? to.since : undefined,
      excused,
      place === undefined ? null : storable(place, MAX_PLACE_BYTES),
    ]);
    return rows.length === 1;
  }

  /** Makes a row what it was before a run that would have enqueued effects for the first time. False when the lease is no longer ours. */
  async refuseRerun(
    manager: EntityManager,
    lease: Lease,
    effects: readonly NamedEffect[],
    error: string,
  ): Promise<boolean> {
    const values = [...fence(lease), storable(error, MAX_ERROR_BYTES), JSON.stringify(effects)];
    const rows: unknown[] = await query(manager, REFUSE_RERUN, values);
    return rows.length === 1;
  }

  /** Whether this very refusal was recorded, and nothing has happened to the row since. */
  async isRefusedRerun(manager: EntityManager, lease: Lease): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `SELECT 1 FROM webhook_outbox
        WHERE id = $1 AND attempt = $2 AND state <> 'pending' AND rerun ? 'refused'`,
      [lease.id, lease.attempt],
    );
    return rows.length === 1;
  }

  /** Whether this very failure was recorded, and nothing has happened to the row since. */
  async hasFailed(manager: EntityManager, lease: Lease, to: FailedSettle, error: string): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `SELECT 1 FROM webhook_outbox
        WHERE id = $1 AND attempt = $2 AND leased_by IS NULL AND state = $3 AND reason IS NOT DISTINCT FROM $4 AND error = $5`,
      [lease.id, lease.attempt, to.state, reasonOf(to), storable(error, MAX_ERROR_BYTES)],
    );
    return rows.length === 1;
  }

  /** How this very attempt has ended, if it was settled: how a COMMIT in doubt is resolved. */
  async endOf(manager: EntityManager, lease: Lease): Promise<'done' | 'superseded' | undefined> {
    const rows: { state: 'done' | 'superseded' }[] = await query(
      manager,
      `SELECT state FROM webhook_outbox WHERE id = $1 AND attempt = $2 AND state IN ('done', 'superseded')`,
      [lease.id, lease.attempt],
    );
    return rows[0]?.state;
  }

  /** Keeps an effect's result beside the row before the settle, so that a call that was made is not forgotten. */
  async keepResult(manager: EntityManager, outboxId: string, result: string): Promise<void> {
    await query(manager, KEEP_RESULT, [outboxId, result]);
  }
}

export const MAX_PLACE_BYTES = 1_000;

const reasonOf = (to: FailedSettle) => (to.state === 'pending' ? null : to.reason);
