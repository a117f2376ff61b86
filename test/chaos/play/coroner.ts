import type { Client } from 'pg';
import type { Kill, Overdue } from './log.js';

// A transaction that has inserted into a table holds this lock on it until it ends; handlers and relays never write claims.
const LOOK = `
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS "diedAt",
         (SELECT count(*)::int FROM webhook_outbox
           WHERE state = 'pending' AND leased_by = $1 AND lease_until > now()) AS leased,
         (SELECT count(*)::int FROM webhook_outbox
           WHERE state = 'pending' AND leased_by = $1 AND name = 'charge' AND begun_at IS NOT NULL) AS begun,
         (SELECT count(DISTINCT l.pid)::int FROM pg_locks l JOIN pg_stat_activity a USING (pid)
           WHERE l.relation = 'webhook_claim'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
             AND a.datname = current_database() AND a.application_name = $2) AS claiming`;

/** What a receiver that stands still has in its hands. */
export async function lookAt(
  client: Client,
  { owner, name }: { owner: string; name: string },
): Promise<Pick<Kill, 'diedAt' | 'leased' | 'begun' | 'claiming'>> {
  const { rows } = await client.query<Pick<Kill, 'diedAt' | 'leased' | 'begun' | 'claiming'>>(LOOK, [
    owner,
    name,
  ]);
  return rows[0]!;
}

/** Ends the connection on which a receiver listens and holds its lock. Returns whether there was one. */
export async function cut(client: Client, owner: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
       JOIN webhook_relay r ON l.locktype = 'advisory' AND (l.classid::bigint << 32) + l.objid::bigint = r.lock_key
      WHERE r.id = $1`,
    [owner],
  );
  return (rowCount ?? 0) > 0;
}

/** Receivers are told apart from whoever looks by their names. */
const AT_WORK = `
  SELECT (SELECT count(*)::int FROM webhook_outbox
           WHERE state = 'pending' AND leased_by IS NOT NULL
             AND lease_until > clock_timestamp() - $1 * interval '1 ms') AS leased,
         ARRAY(SELECT id::text FROM webhook_outbox
                WHERE state = 'pending' AND name = 'charge' AND begun_at IS NOT NULL) AS begun,
         (SELECT count(DISTINCT l.pid)::int FROM pg_locks l JOIN pg_stat_activity a USING (pid)
           WHERE l.relation = 'webhook_claim'::regclass AND l.mode = 'RowExclusiveLock'
             AND a.datname = current_database() AND a.application_name LIKE 'chaos-%') AS claiming`;

interface AtWork {
  readonly leased: number;
  readonly claiming: number;
  /** Ids of the rows. */
  readonly begun: readonly string[];
}

/**
 * What all receivers have in their hands, as far as the server knows.
 * @param awayMs for how long it has just been away, if it was: leases that ended meanwhile ran when it went
 */
export async function atWork(client: Client, awayMs = 0): Promise<AtWork> {
  return (await client.query<AtWork>(AT_WORK, [awayMs])).rows[0]!;
}

/** Events that are claimed. */
export async function claimed(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT source || '/' || event_id AS name FROM webhook_claim`,
  );
  return rows.map(({ name }) => name);
}

/** Leases that ended more than `ms` milliseconds ago, and that nobody has taken. */
export async function overdue(client: Client, ms: number): Promise<Omit<Overdue, 'upMs'>[]> {
  const { rows } = await client.query<Omit<Overdue, 'upMs'>>(
    `SELECT id, attempt, (extract(epoch FROM clock_timestamp() - lease_until) * 1000)::int AS ms FROM webhook_outbox
      WHERE state = 'pending' AND leased_by IS NOT NULL AND lease_until < clock_timestamp() - $1 * interval '1 ms'`,
    [ms],
  );
  return rows;
}

export async function unsettled(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM webhook_outbox WHERE state = 'pending'`,
  );
  return rows[0]!.count;
}
