import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { sqlStateOf } from '../core/classify.js';
import type { EventKey } from '../core/event.js';
import type { DeadReason, ParkedReason } from '../core/states.js';
import { storable } from '../core/event.js';
import { MAX_ERROR_BYTES } from '../core/log.js';
import type { Statement } from './message.query.js';
import { plannedOnce } from './one.message.js';
import {
  BEGIN_EFFECT,
  DUE_NAMES,
  ENQUEUE,
  EXISTING,
  FAIL,
  FAIL_LATE,
  KEEP_RESULT,
  LEASE_ALONE,
  LEASE_EVENT,
  leaseDue,
  LIVE_LEASES,
  REFUSED,
  RELEASE,
  RENEW,
  RESUME_LATE,
  SETTLE,
  SETTLE_WITH_RESULT,
  SETTLE_LATE,
  SETTLE_MANY,
  SETTLE_OR_FAIL,
  SETTLE_WITH_RESULT_OR_FAIL,
  SUPERSEDE,
} from './outbox.sql.js';
import { leaseResult, type Lease, type LeaseQueryRow, type LeaseResult } from './leased.rows.js';
import { countPending } from './pending.sql.js';

/** The end of a run that has succeeded. */
export interface Settle {
  readonly lease: Lease;
  /** As JSON, or the summary that people read. */
  readonly result: string | undefined;
}

/** A name that this process can run. */
export interface RunnableName {
  readonly name: string;
  /** Attempts until the row is dead. */
  readonly maxAttempts: number;
  /** How many rows of it to lease at most. */
  readonly limit: number;
  /** Park a row whose attempts are used up, instead of making it dead, when its last one was begun and never ended. @default false */
  readonly parks?: boolean;
  /** What it shares places with: its source. @default itself */
  readonly share?: string;
  /** How many rows of the share to lease at most. @default limit */
  readonly shareLimit?: number;
  /** Due times before this have been looked at. @default none */
  readonly since?: string;
}

export type FailedSettle =
  /** Due so long after now, or after `since` where that is given; never in the past. By the database's clock. */
  | { readonly state: 'pending'; readonly delayMs: number; readonly since?: Date }
  | { readonly state: 'dead'; readonly reason: DeadReason }
  | { readonly state: 'parked'; readonly reason: ParkedReason };

interface Release {
  readonly delayMs?: number;
  readonly running?: boolean;
  readonly since?: Date;
}

@Injectable()
export class OutboxStore {
  /** Leases due rows of the named kinds of work, ended leases among them, at most `limit`. Exhausted ones are settled instead. */
  async lease(
    manager: EntityManager,
    owner: string,
    leaseMs: number,
    names: readonly RunnableName[],
    limit: number,
  ): Promise<LeaseResult> {
    const rows = await plannedOnce<LeaseQueryRow>(manager, leaseDue(limit), [
      owner,
      leaseMs,
      names.map((n) => n.name),
      names.map((n) => n.maxAttempts),
      names.map((n) => Math.min(n.limit, n.shareLimit ?? limit, limit)),
      limit,
      names.map((n) => n.parks ?? false),
      names.map((n) => n.share ?? n.name),
      names.map((n) => Math.min(n.shareLimit ?? n.limit, limit)),
      names.map((n) => n.since ?? '-infinity'),
    ]);
    return leaseResult(rows, owner);
  }

  /** Those of the names that have rows due. */
  async dueNames(manager: EntityManager, names: readonly string[]): Promise<Set<string>> {
    const rows = await plannedOnce<{ name: string }>(manager, DUE_NAMES, [names]);
    return new Set(rows.map(({ name }) => name));
  }

  /** Leases the row of the lane whose turn it is, if it is one of the named kinds of work. */
  async leaseAlone(
    manager: EntityManager,
    owner: string,
    leaseMs: number,
    names: readonly RunnableName[],
  ): Promise<LeaseResult> {
    const rows: LeaseQueryRow[] = await manager.query(LEASE_ALONE, [
      owner,
      leaseMs,
      names.map((n) => n.name),
      names.map((n) => n.maxAttempts),
      names.map((n) => n.parks ?? false),
    ]);
    return leaseResult(rows, owner);
  }

  /**
   * Leases an event's unsettled handler rows that no live lease holds, whatever their due time: a redelivery's right.
   * `busy` says how many another process runs right now.
   */
  async leaseEvent(
    manager: EntityManager,
    owner: string,
    leaseMs: number,
    key: EventKey,
    names: readonly Pick<RunnableName, 'name' | 'maxAttempts'>[],
  ): Promise<LeaseResult & { readonly busy: number }> {
    const rows: LeaseQueryRow[] = await manager.query(LEASE_EVENT, [
      owner,
      leaseMs,
      key.source,
      key.tenant,
      key.eventId,
      names.map((n) => n.name),
      names.map((n) => n.maxAttempts),
    ]);
    const ours = rows.map((row) => row.id);
    const [count]: { pending: number }[] = await manager.query(LIVE_LEASES, [
      key.source,
      key.tenant,
      key.eventId,
      ours,
    ]);
    return { ...leaseResult(rows, owner), busy: count!.pending };
  }

  /** Settles a row as done, with its result as JSON. False when the lease is no longer ours. */
  async settle(manager: EntityManager, lease: Lease, result: string | undefined): Promise<boolean> {
    if (result === undefined) {
      // TypeORM's answer to an UPDATE: the rows it returned, and their number.
      const [, count]: [unknown[], number] = await manager.query(SETTLE, fence(lease));
      return count === 1;
    }
    const [row]: { settled: number }[] = await manager.query(SETTLE_WITH_RESULT, [...fence(lease), result]);
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
    const rows: unknown[] = await manager.query(SUPERSEDE, fence(lease));
    return rows.length === 1;
  }

  /** Records that an effect's call is about to be made. False when the lease is no longer ours: it must not be made. */
  async begin(manager: EntityManager, lease: Lease): Promise<boolean> {
    const rows: unknown[] = await manager.query(BEGIN_EFFECT, fence(lease));
    return rows.length === 1;
  }

  /** Settles an attempt whose lease had ended, if nobody has repeated it. */
  async settleLate(manager: EntityManager, lease: Lease, result: string | undefined): Promise<boolean> {
    const rows: unknown[] = await manager.query(SETTLE_LATE, [lease.id, lease.attempt, result ?? null]);
    return rows.length === 1;
  }

  /** Keeps the result of an attempt whose lease had ended, and has the row run again when it was parked. False when it was not. */
  async resumeLate(manager: EntityManager, lease: Lease, result: string): Promise<boolean> {
    await this.keepResult(manager, lease.id, result);
    const rows: unknown[] = await manager.query(RESUME_LATE, [lease.id, lease.attempt]);
    return rows.length === 1;
  }

  /** Makes a row dead that waits for its next attempt, after the late end of its last one. False when it does not wait for that. */
  async failLate(
    manager: EntityManager,
    lease: Lease,
    { reason }: FailedSettle & { state: 'dead' },
    error: string,
  ): Promise<boolean> {
    const rows: unknown[] = await manager.query(FAIL_LATE, [
      lease.id,
      lease.attempt,
      reason,
      storable(error, MAX_ERROR_BYTES),
    ]);
    return rows.length === 1;
  }

  /**
   * Settles a failed attempt. False when the lease is no longer ours.
   * @param inDoubt an effect's call may have gone through: the next attempt asks first
   */
  async fail(
    manager: EntityManager,
    lease: Lease,
    to: FailedSettle,
    error: string,
    inDoubt = false,
  ): Promise<boolean> {
    const rows: unknown[] = await manager.query(FAIL, [
      ...fence(lease),
      to.state,
      to.state === 'pending' ? to.delayMs : 0,
      reasonOf(to),
      storable(error, MAX_ERROR_BYTES),
      inDoubt,
      to.state === 'pending' ? to.since : undefined,
    ]);
    return rows.length === 1;
  }

  /** Whether this very failure was recorded, and nothing has happened to the row since. */
  async hasFailed(manager: EntityManager, lease: Lease, to: FailedSettle, error: string): Promise<boolean> {
    const rows: unknown[] = await manager.query(
      `SELECT 1 FROM webhook_outbox
        WHERE id = $1 AND attempt = $2 AND leased_by IS NULL AND state = $3 AND reason IS NOT DISTINCT FROM $4 AND error = $5`,
      [lease.id, lease.attempt, to.state, reasonOf(to), storable(error, MAX_ERROR_BYTES)],
    );
    return rows.length === 1;
  }

  /**
   * Gives leases back; the attempt counted at the lease is forgiven, never taken back.
   * @param delayMs until they are due again @default 0
   * @param since what `delayMs` counts from @default now
   * @param running their runs have begun, so that an effect's key may have been used @default false
   */
  async release(
    manager: EntityManager,
    leases: readonly Lease[],
    { delayMs = 0, running = false, since }: Release = {},
  ): Promise<number> {
    if (leases.length === 0) return 0;
    const rows: unknown[] = await manager.query(RELEASE, [...fences(leases), delayMs, running, since]);
    return rows.length;
  }

  /** Prolongs leases by `leaseMs` from now. Returns the ids of those still ours; a row locked by its own settle counts as ours. */
  async renew(manager: EntityManager, leases: readonly Lease[], leaseMs: number): Promise<Set<string>> {
    const rows: { id: string }[] = await manager.query(RENEW, [...fences(leases), leaseMs]);
    return new Set(rows.map((row) => row.id));
  }

  /** How this very attempt has ended, if it was settled: how a COMMIT in doubt is resolved. */
  async endOf(manager: EntityManager, lease: Lease): Promise<'done' | 'superseded' | undefined> {
    const rows: { state: 'done' | 'superseded' }[] = await manager.query(
      `SELECT state FROM webhook_outbox WHERE id = $1 AND attempt = $2 AND state IN ('done', 'superseded')`,
      [lease.id, lease.attempt],
    );
    return rows[0]?.state;
  }

  /** Keeps an effect's result beside the row before it is settled: what the outside world has done must not be forgotten. */
  async keepResult(manager: EntityManager, outboxId: string, result: string): Promise<void> {
    await manager.query(KEEP_RESULT, [outboxId, result]);
  }

  /** Inserts effects with their frozen payloads. Returns the ids of those that were not there already: those stay as they are. */
  async enqueue(manager: EntityManager, effects: readonly NewEffect[]): Promise<Set<string>> {
    let end = 1;
    const payloadAt = effects.map(({ payload }) => (end += payload.length) - payload.length);
    const rows: { id: string }[] = await manager.query(ENQUEUE, [
      effects.map((e) => e.id),
      effects.map((e) => e.name),
      effects.map((e) => e.key),
      effects.map((e) => e.parentId ?? null),
      effects.map((e) => e.event?.source ?? null),
      effects.map((e) => e.event?.tenant ?? null),
      effects.map((e) => e.event?.eventId ?? null),
      effects.map((e) => e.orderKey ?? null),
      effects.map((e) => e.runAt ?? null),
      effects.map((e) => e.delayMs ?? 0),
      effects.map((e) => e.firstName),
      payloadAt,
      effects.map((e) => e.payload.length),
      Buffer.concat(effects.map((e) => e.payload)),
    ]);
    return new Set(rows.map(({ id }) => id));
  }

  /** The first of `ids` that exists, with whether its payload is other than `payload`; that difference is recorded on it. */
  async existing(
    manager: EntityManager,
    ids: readonly string[],
    payload: Buffer,
  ): Promise<{ id: string; otherPayload: boolean } | undefined> {
    const rows: { id: string; other: boolean }[] = await manager.query(EXISTING, [ids, payload]);
    return rows[0] && { id: rows[0].id, otherPayload: rows[0].other };
  }

  /** The id of the effect that was enqueued outside a run under this key, by any of these as its first name. */
  async idOfKey(manager: EntityManager, names: readonly string[], key: string): Promise<string | undefined> {
    const rows: { id: string }[] = await manager.query(
      `SELECT id FROM webhook_outbox
        WHERE order_name = ANY($1) AND key = $2 AND parent_id IS NULL AND kind = 'effect' AND key <> ''`,
      [names, key],
    );
    return rows[0]?.id;
  }

  /** Number of dead rows, counted to `limit` at most. */
  async countDead(manager: EntityManager, limit: number): Promise<number> {
    const [row]: { count: number }[] = await manager.query(
      `SELECT count(*)::int AS count FROM (SELECT FROM webhook_outbox WHERE state = 'dead' LIMIT $1) dead`,
      [limit],
    );
    return row!.count;
  }

  /** Number of pending rows, counted to `limit` at most. */
  async countPending(manager: EntityManager, limit: number): Promise<number> {
    const [row]: { count: number }[] = await manager.query(countPending('$1'), [limit]);
    return row!.count;
  }
}

export interface NewEffect {
  readonly id: string;
  readonly name: string;
  /** By which its keys are known, whatever its name is now. */
  readonly firstName: string;
  readonly key: string;
  readonly parentId?: string;
  readonly event?: EventKey;
  readonly payload: Buffer;
  readonly orderKey?: string;
  /** Not before; `delayMs` counts from now by the database's clock. */
  readonly runAt?: Date;
  readonly delayMs?: number;
}

const reasonOf = (to: FailedSettle) => (to.state === 'pending' ? null : to.reason);
const fence = (lease: Lease) => [lease.id, lease.attempt, lease.owner];
// Sorted by id: batches that lock rows in opposite orders deadlock.
const fences = (leases: readonly Lease[]) => {
  const sorted = leases.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return [sorted.map((l) => l.id), sorted.map((l) => l.attempt), sorted.map((l) => l.owner)];
};
