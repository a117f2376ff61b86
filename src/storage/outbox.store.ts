import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../core/event.js';
import {
  leaseResult,
  type ExhaustedRow,
  type Lease,
  type LeaseQueryRow,
  type LeaseResult,
} from './leased-rows.js';
import { plannedOnce } from './postgres/one-message.js';
import {
  BEGIN_EFFECT,
  EXCUSE,
  EXHAUSTED_SINCE,
  LEASE_ALONE,
  LEASE_EVENT,
  leaseDue,
  LIVE_LEASES,
  RELEASE,
  RENEW,
} from './outbox.sql.js';
import { query } from './schema/own-schema.js';
import { countPending, fence, fences } from './pending.sql.js';

/** A name that this process can run. */
export interface RunnableName {
  readonly name: string;
  /** Attempts until the row is dead. */
  readonly maxAttempts: number;
  /** How many rows of it to lease at most. */
  readonly limit: number;
  /** Park a row whose attempts are used up, instead of making it dead, when its last one was begun and never ended. @default false */
  readonly parks?: boolean;
  /** The key by which it shares slots: its source. @default itself */
  readonly share?: string;
  /** How many rows of the share to lease at most. @default limit */
  readonly shareLimit?: number;
  /** A lease has read the due times before this one already. @default none */
  readonly since?: string;
}

type DiedRow = Pick<LeaseQueryRow, 'id' | 'name' | 'attempt' | 'error' | 'source' | 'tenant' | 'event_id'> & {
  reason: ExhaustedRow['reason'];
};

interface Release {
  readonly delayMs?: number;
  readonly running?: boolean;
  readonly since?: Date;
}

/** Rows that are owed, as they are leased, held and given back. How a run ends is `SettleStore`'s. */
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

  /** Leases the first row of the quarantine, if it has one of the names. */
  async leaseAlone(
    manager: EntityManager,
    owner: string,
    leaseMs: number,
    names: readonly RunnableName[],
  ): Promise<LeaseResult> {
    const rows: LeaseQueryRow[] = await query(manager, LEASE_ALONE, [
      owner,
      leaseMs,
      names.map((n) => n.name),
      names.map((n) => n.maxAttempts),
      names.map((n) => n.parks ?? false),
    ]);
    return leaseResult(rows, owner);
  }

  /**
   * Leases an event's unsettled handler rows that no live lease holds, due or not, for a redelivery. `busy` is the number of rows that
   * another process runs at this moment.
   */
  async leaseEvent(
    manager: EntityManager,
    owner: string,
    leaseMs: number,
    key: EventKey,
    names: readonly Pick<RunnableName, 'name' | 'maxAttempts'>[],
  ): Promise<LeaseResult & { readonly busy: number }> {
    const rows: LeaseQueryRow[] = await query(manager, LEASE_EVENT, [
      owner,
      leaseMs,
      key.source,
      key.tenant,
      key.eventId,
      names.map((n) => n.name),
      names.map((n) => n.maxAttempts),
    ]);
    const ours = rows.map((row) => row.id);
    const [count]: { pending: number }[] = await query(manager, LIVE_LEASES, [
      key.source,
      key.tenant,
      key.eventId,
      ours,
    ]);
    return { ...leaseResult(rows, owner), busy: count!.pending };
  }

  /** Records that an effect's call is about to be made. False when the lease is no longer ours: it must not be made. */
  async begin(manager: EntityManager, lease: Lease): Promise<boolean> {
    const rows: unknown[] = await query(manager, BEGIN_EFFECT, fence(lease));
    return rows.length === 1;
  }

  /** The loss of this attempt is not to be counted; a failure that is recorded is, by `fail` with `excused`. */
  async excuse(manager: EntityManager, lease: Lease): Promise<void> {
    await query(manager, EXCUSE, fence(lease));
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
    const rows: unknown[] = await query(manager, RELEASE, [...fences(leases), delayMs, running, since]);
    return rows.length;
  }

  /** Prolongs leases by `leaseMs` from now. Returns the ids of those still ours; a row locked by its own settle counts as ours. */
  async renew(manager: EntityManager, leases: readonly Lease[], leaseMs: number): Promise<Set<string>> {
    const rows: { id: string }[] = await query(manager, RENEW, [...fences(leases), leaseMs]);
    return new Set(rows.map((row) => row.id));
  }

  /**
   * Rows of these names that a lease or a claim has made dead or parked in the last `ms` milliseconds: 1,000 at most.
   * @param settled ids of rows that a settle may have made dead
   */
  async exhaustedSince(
    manager: EntityManager,
    names: readonly string[],
    ms: number,
    settled: readonly string[],
  ): Promise<ExhaustedRow[]> {
    const rows: DiedRow[] = await query(manager, EXHAUSTED_SINCE, [names, ms, settled]);
    return rows.map(({ id, name, attempt, reason, error, source, tenant, event_id: eventId }) => ({
      id,
      name,
      attempt,
      reason,
      error: error ?? undefined,
      event: eventId === null ? undefined : { source: source!, tenant: tenant!, eventId },
    }));
  }

  /** Number of dead rows, counted to `limit` at most. */
  async countDead(manager: EntityManager, limit: number): Promise<number> {
    const [row]: { count: number }[] = await query(
      manager,
      `SELECT count(*)::int AS count FROM (SELECT FROM webhook_outbox WHERE state = 'dead' LIMIT $1) dead`,
      [limit],
    );
    return row!.count;
  }

  /** Number of pending rows, counted to `limit` at most. */
  async countPending(manager: EntityManager, limit: number): Promise<number> {
    const [row]: { count: number }[] = await query(manager, countPending('$1'), [limit]);
    return row!.count;
  }
}
