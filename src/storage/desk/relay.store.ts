import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import { storable } from '../../core/event.js';
import { countPending, OVERDUE, UNKNOWN_NAMES } from '../pending.sql.js';

/** A running process, as it describes itself. */
export interface Instance {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  /** Version of Node. */
  readonly node: string;
  /** Whether it runs what is owed, or only receives. */
  readonly relays: boolean;
  /** Whether LISTEN notifies it of commits. Otherwise it polls. */
  readonly listens: boolean;
  /** Rows it runs right now. */
  readonly running: number;
  /** Handlers and effects that it has, by every name of theirs. */
  readonly names: readonly string[];
  /** Sources that it has configured. */
  readonly sources: readonly string[];
}
/** A process that has reported within the hour. */
export interface SeenInstance extends Omit<Instance, 'names' | 'sources'> {
  readonly startedAt: Date;
  readonly seenAt: Date;
  /** Milliseconds since its last sign of life, by the database's clock. */
  readonly silentMs: number;
}

/** A job that one instance at a time may do, and its present holder. */
export interface HeldLease {
  readonly name: string;
  readonly owner: string;
  readonly until: Date;
}

/** Effects of one name that an engine has, and that no consumer has reported yet. */
export interface HandedEffects {
  readonly name: string;
  readonly rows: number;
  /** Milliseconds since the oldest was handed over first. */
  readonly ageMs: number;
  /** Effects whose report did not come in its time, at this hand-over or an earlier one. */
  readonly unheard: number;
}

/** How much is owed right now. Counts stop at 10,000. */
export interface Backlog {
  readonly pending: number;
  readonly dead: number;
  readonly parked: number;
  /** By name, the oldest first. Of more than 10,000 rows, those whose reports are due first. */
  readonly handed: readonly HandedEffects[];
  /** How long the most overdue row of each name has been due, longest first. */
  readonly overdue: readonly { readonly name: string; readonly ageMs: number }[];
}

@Injectable()
export class RelayStore {
  async beat(manager: EntityManager, one: Instance): Promise<void> {
    await query(
      manager,
      `INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
           ON CONFLICT (id) DO UPDATE SET running = EXCLUDED.running, listens = EXCLUDED.listens, seen_at = now()`,
      [
        one.id,
        storable(one.host, 255),
        one.pid,
        one.node,
        one.relays,
        one.listens,
        one.running,
        one.names,
        one.sources,
      ],
    );
  }

  async leave(manager: EntityManager, id: string): Promise<void> {
    await query(manager, `DELETE FROM webhook_relay WHERE id = $1`, [id]);
  }

  async list(manager: EntityManager): Promise<SeenInstance[]> {
    return query(
      manager,
      `SELECT id, host, pid, node, relays, listens, running, started_at AS "startedAt", seen_at AS "seenAt",
              (extract(epoch FROM now() - seen_at) * 1000)::float8 AS "silentMs"
         FROM webhook_relay ORDER BY seen_at DESC LIMIT 200`,
    );
  }

  async leases(manager: EntityManager): Promise<HeldLease[]> {
    return query(
      manager,
      `SELECT name, owner, until FROM webhook_lease WHERE until > now() ORDER BY name LIMIT 100`,
    );
  }

  /** Forgets instances that have been silent for `ageMs` milliseconds. */
  async prune(manager: EntityManager, ageMs: number): Promise<void> {
    await query(manager, `DELETE FROM webhook_relay WHERE seen_at < now() - $1 * interval '1 ms'`, [ageMs]);
  }

  /** Sources of the instances that have been seen since the last pruning. */
  async sources(manager: EntityManager): Promise<string[]> {
    const rows: { source: string }[] = await query(
      manager,
      `SELECT DISTINCT unnest(sources) AS source FROM webhook_relay`,
    );
    return rows.map(({ source }) => source);
  }

  /** Handlers and effects of the instances that have been seen since the last pruning, by every name of theirs. */
  async names(manager: EntityManager): Promise<string[]> {
    const rows: { name: string }[] = await query(
      manager,
      `SELECT DISTINCT unnest(names) AS name FROM webhook_relay`,
    );
    return rows.map(({ name }) => name);
  }

  async counts(manager: EntityManager): Promise<Pick<Backlog, 'pending' | 'dead' | 'parked'>> {
    const [row]: [{ pending: number; dead: number; parked: number }] = await query(manager, COUNTS);
    return row;
  }

  async backlog(manager: EntityManager): Promise<Backlog> {
    const row = await this.counts(manager);
    const overdue: { name: string; ageMs: number }[] = await query(manager, OVERDUE);
    const handed: HandedEffects[] = await query(manager, HANDED);
    return { ...row, overdue, handed };
  }

  /** Names with rows that have been due for `ageMs` milliseconds and that no instance knows which was seen within `silentMs`. */
  async unknownNames(
    manager: EntityManager,
    ageMs: number,
    silentMs: number,
  ): Promise<{ name: string; rows: number }[]> {
    const known: { name: string }[] = await query(
      manager,
      `SELECT DISTINCT unnest(names) AS name FROM webhook_relay WHERE seen_at > now() - $1 * interval '1 ms'`,
      [silentMs],
    );
    return query(manager, UNKNOWN_NAMES, [known.map(({ name }) => name), ageMs]);
  }
}

const COUNTS = `
  SELECT (${countPending('10000')}) AS pending,
         (SELECT count(*)::int FROM (SELECT FROM webhook_outbox WHERE state = 'dead' LIMIT 10000) d) AS dead,
         (SELECT count(*)::int FROM (SELECT FROM webhook_outbox WHERE state = 'parked' LIMIT 10000) k) AS parked`;

// The history is asked about rows of more than one attempt only: others were handed over once.
const HANDED = `
  WITH handed AS MATERIALIZED (
    SELECT id, name, attempt, begun_at, due_at FROM webhook_outbox WHERE state = 'handed' ORDER BY due_at LIMIT 10000
  )
  SELECT name, count(*)::int AS rows, coalesce(extract(epoch FROM now() - min(begun_at)) * 1000, 0)::float8 AS "ageMs",
         count(*) FILTER (WHERE CASE
           WHEN h.due_at <= now() THEN true
           WHEN h.attempt > 1 THEN 'unheard' = (
             SELECT a.outcome FROM webhook_attempt a
              WHERE a.outbox_id = h.id AND a.outcome IN ('unheard', 'revived', 'decided')
              ORDER BY a.attempt DESC, a.ended_at DESC LIMIT 1)
           ELSE false END)::int AS unheard
    FROM handed h GROUP BY name ORDER BY 3 DESC, name`;
