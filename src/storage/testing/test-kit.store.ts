import type { EntityManager } from 'typeorm';
import type { OutboxState } from '../../core/states.js';
import { query } from '../schema/own-schema.js';

/** An outbox row as the testing kit judges it. */
export interface KitRow {
  readonly id: string;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly key: string;
  readonly source: string | null;
  readonly tenant: string | null;
  readonly eventId: string | null;
  readonly state: OutboxState;
  readonly reason: string | null;
  readonly error: string | null;
}

/** Statements of the testing kit. No other part of the package sends them. */
export class TestKitStore {
  /**
   * Moves the due times of waiting rows: they come `ms` milliseconds sooner.
   */
  async advance(manager: EntityManager, ms: number): Promise<void> {
    await query(
      manager,
      `UPDATE webhook_outbox SET due_at = due_at - $1::float8 * interval '1 ms'
        WHERE state = 'pending' AND leased_by IS NULL`,
      [ms],
    );
  }

  /**
   * Makes waiting rows due, and ends the leases of other processes.
   * @param owner whose leases stay
   * @returns how many rows were not due before
   */
  async makeDue(manager: EntityManager, owner: string): Promise<number> {
    const rows: unknown[] = await query(
      manager,
      `UPDATE webhook_outbox SET due_at = least(due_at, clock_timestamp()), lease_until = least(lease_until, clock_timestamp())
        WHERE state = 'pending' AND leased_by IS DISTINCT FROM $1
          AND (due_at > clock_timestamp() OR leased_by IS NOT NULL AND lease_until > clock_timestamp()) RETURNING id`,
      [owner],
    );
    return rows.length;
  }

  /** How long until the next row is due that is not due yet, in milliseconds; undefined when there is none. */
  async nextDueMs(manager: EntityManager): Promise<number | undefined> {
    const [row]: { ms: number | null }[] = await query(
      manager,
      `SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 * 1000 AS ms
         FROM webhook_outbox WHERE state = 'pending' AND leased_by IS NULL AND due_at > clock_timestamp()`,
    );
    return row?.ms ?? undefined;
  }

  /** Claims of that event id, of any source and tenant unless they are given. */
  async claims(
    manager: EntityManager,
    eventId: string,
    { source, tenant }: { readonly source?: string; readonly tenant?: string },
  ): Promise<{ id: string; source: string; tenant: string }[]> {
    return query(
      manager,
      `SELECT id, source, tenant FROM webhook_claim
        WHERE event_id = $1 AND source = coalesce($2, source) AND tenant = coalesce($3, tenant) ORDER BY received_at`,
      [eventId, source ?? null, tenant ?? null],
    );
  }

  /** Ids of the youngest events, for an error text. */
  async youngest(manager: EntityManager): Promise<string[]> {
    const rows: { event_id: string }[] = await query(
      manager,
      `SELECT event_id FROM webhook_claim ORDER BY received_at DESC LIMIT 10`,
    );
    return rows.map(({ event_id }) => event_id);
  }

  async rows(manager: EntityManager): Promise<KitRow[]> {
    return query(
      manager,
      `SELECT id, kind, name, key, source, tenant, event_id AS "eventId", state, reason, error
         FROM webhook_outbox ORDER BY created_at, id`,
    );
  }

  /** Tables of the application: each one that does not carry the package's comment. */
  async tables(manager: EntityManager): Promise<string[]> {
    const rows: { name: string }[] = await query(
      manager,
      `SELECT format('%I.%I', n.nspname, c.relname) AS name
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
          AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
          AND coalesce(obj_description(c.oid, 'pg_class'), '') <> 'nestjs-webhook-inbox'
          AND has_table_privilege(c.oid, 'SELECT')
        ORDER BY 1`,
    );
    return rows.map(({ name }) => name);
  }

  /** @param table as `tables` names it */
  async content(manager: EntityManager, table: string): Promise<string[]> {
    const rows: { row: string }[] = await query(manager, `SELECT to_jsonb(t)::text AS row FROM ${table} t`);
    return rows.map(({ row }) => row);
  }

  /** Which of these server processes are still there. */
  async sessions(manager: EntityManager, pids: readonly number[]): Promise<number> {
    const [row]: { count: number }[] = await query(
      manager,
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE pid = ANY($1::int[])`,
      [pids],
    );
    return row?.count ?? 0;
  }
}
