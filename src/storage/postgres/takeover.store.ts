import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { DUE, LANE } from '../pending.sql.js';
import { qualified, query } from '../schema/own-schema.js';

/** A connection that is never lent, so that its locks stay until it ends. */
export interface LockSession {
  query<T>(sql: string, values?: readonly unknown[]): Promise<T[]>;
}

/** The registered lock of an instance. */
export interface InstanceLock {
  readonly owner: string;
  /** Of an advisory lock, as text: JavaScript's numbers are too short. Another one for each registration. */
  readonly key: string;
}

/** A registered lock, as another instance's session has found it. */
export interface SeenLock extends InstanceLock {
  /** No session holds it. It is always false for the session's own lock. */
  readonly free: boolean;
}

/**
 * The locks by which instances see each other end. PostgreSQL frees a session's lock some milliseconds after its process has died, and
 * within three seconds where the network was cut.
 */
@Injectable()
export class TakeoverStore {
  constructor(@Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource) {}

  /** Settings of the session, then its lock. False when something else holds that key. */
  async lock(session: LockSession, { key }: InstanceLock): Promise<boolean> {
    for (const setting of SETTINGS) await session.query(setting);
    // Tried, and not waited for: a statement that waits pins its snapshot, and VACUUM removes nothing behind it.
    const [row] = await session.query<{ locked: boolean }>(`SELECT pg_try_advisory_lock($1) AS locked`, [
      key,
    ]);
    return row!.locked;
  }

  /** Registers the lock, which is held already, for the others. False while the instance has given no sign of life. */
  async register(session: LockSession, { owner, key }: InstanceLock): Promise<boolean> {
    const rows = await this.send(session, REGISTER, [owner, key]);
    return rows.length === 1;
  }

  /** Withdraws the lock, since its instance may live without it. A late withdrawal finds the next registration's key, and does nothing. */
  async withdraw(manager: EntityManager, { owner, key }: InstanceLock): Promise<void> {
    await query(manager, WITHDRAW, [owner, key]);
  }

  /** Every registered lock. */
  listLocks(session: LockSession, owner: string): Promise<SeenLock[]> {
    return this.send<SeenLock>(session, LOOK, [owner]);
  }

  /**
   * Ends the leases of an instance whose lock is free. Its rows keep their holder, as after any lease that has ended: the next lease counts
   * the attempt as lost. Once there is no lease left the instance is forgotten.
   * @returns how many leases were ended
   */
  async take(session: LockSession, { owner, key }: InstanceLock): Promise<number> {
    const [row] = await this.send<{ taken: number }>(session, TAKE, [owner, key]);
    return row!.taken;
  }

  private send<T>(session: LockSession, sql: string, values: readonly unknown[]): Promise<T[]> {
    return session.query<T>(qualified(this.dataSource, sql), values);
  }
}

// A cut network shows no end: the server asks the other side after a second of silence, and gives up after two without an answer.
const SETTINGS = [
  `SET tcp_keepalives_idle = 1`,
  `SET tcp_keepalives_interval = 1`,
  `SET tcp_keepalives_count = 2`,
  `SET tcp_user_timeout = 2000`,
  // A lock on our row in webhook_relay must not keep the session from polling.
  `SET lock_timeout = 200`,
  `SET default_transaction_isolation = 'read committed'`,
];

const REGISTER = `
  WITH registered AS (UPDATE webhook_relay SET lock_key = $2, registered_at = now() WHERE id = $1 RETURNING id)
  SELECT id FROM registered`;

const WITHDRAW = `UPDATE webhook_relay SET lock_key = NULL WHERE id = $1 AND lock_key = $2`;

// A lock for the transaction, which is this statement: it is free again when the answer comes. Shared, so that several may poll at once.
const LOOK = `
  SELECT id AS owner, lock_key::text AS key,
         CASE WHEN id = $1 THEN false ELSE pg_try_advisory_xact_lock_shared(lock_key) END AS free
    FROM webhook_relay WHERE lock_key IS NOT NULL`;

/**
 * It takes the lock itself, so that no session holds it meanwhile, and the lock of the instance's row. A registration that is being
 * withdrawn is passed over. One that was withdrawn or registered anew has another key. A locked lease is being settled by a statement that
 * the instance sent before its end: the next poll finds the result.
 */
const TAKE = `
  WITH gone AS MATERIALIZED (
    SELECT id, names FROM webhook_relay WHERE id = $1 AND lock_key = $2 FOR UPDATE SKIP LOCKED
  ), dead AS MATERIALIZED (
    SELECT id, names FROM gone WHERE pg_try_advisory_xact_lock($2)
  ), held AS MATERIALIZED (
    SELECT o.id FROM dead CROSS JOIN LATERAL unnest(dead.names) AS n(name)
     CROSS JOIN LATERAL (
       SELECT id FROM webhook_outbox WHERE ${DUE} AND name = n.name AND lease_until > now() AND leased_by = dead.id) o
    UNION ALL
    SELECT o.id FROM dead CROSS JOIN LATERAL (
       SELECT id FROM webhook_outbox WHERE ${LANE} AND lease_until > now() AND leased_by = dead.id) o
  ), free AS MATERIALIZED (
    SELECT o.id FROM webhook_outbox o JOIN held ON held.id = o.id
     WHERE o.state = 'pending' AND o.leased_by = $1
     ORDER BY o.id FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE webhook_outbox o SET lease_until = clock_timestamp(), due_at = least(o.due_at, clock_timestamp())
      FROM free WHERE o.id = free.id RETURNING o.id
  ), forgotten AS (
    UPDATE webhook_relay r SET lock_key = NULL FROM dead WHERE r.id = dead.id AND NOT EXISTS (SELECT FROM held)
    RETURNING r.id
  )
  SELECT count(*)::int AS taken FROM taken`;
