import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable } from '../core/event.js';
import { query } from './schema/own-schema.js';

/** A destination that is not called as usual, or has a rate. */
export interface Destination {
  readonly name: string;
  /** `open`: only a probe is called, now and then. */
  readonly state: 'closed' | 'open';
  readonly openedAt: Date | null;
  /** In a row. */
  readonly failures: number;
  readonly failedAt: Date | null;
  readonly error: string | null;
  /** No call before; null for at once. The year 9999 stands for "not before a person says so". */
  readonly notBefore: Date | null;
}

/** The shared state of a destination that has failed, or asked to wait. */
export interface DestinationState {
  readonly name: string;
  readonly open: boolean;
  /** Milliseconds until it may be called: an hour at most, then it is read again. */
  readonly waitMs: number;
}

/** A failure of a destination's own. */
export interface DestinationFailure {
  /** Of the row whose call has failed. */
  readonly outboxId: string;
  readonly error: string;
  /** Failures in a row that open it; undefined for never. */
  readonly opensAfter: number | undefined;
  /** It asked not to be called for so long. */
  readonly retryAfterMs: number | undefined;
  /** It asked never to be called again. */
  readonly gone: boolean;
}

/** Longest time that a destination may ask for. */
const MAX_WAIT_MS = 86_400_000;
const NEVER = `timestamptz '9999-12-31 00:00:00Z'`;
const WAIT = (until: string) =>
  `greatest(0, extract(epoch FROM least(coalesce(${until}, now()), now() + interval '1 hour') - now()) * 1000)::float8`;
/** Of one that is open: 5 s until the first probe, then a quarter of the time that it has been open, and 10 minutes at most. */
const NEXT_PROBE = `now() + least(greatest((now() - coalesce(d.opened_at, now())) / 4, interval '5 seconds'), interval '10 minutes')`;

/** Of those that are not called as usual. */
export const DESTINATION_STATES = `
  SELECT 'destination', name, state = 'open', ${WAIT('not_before')} FROM webhook_destination
   WHERE failures > 0 OR state = 'open' OR not_before > now()`;

const FAILED = `
  INSERT INTO webhook_destination AS d (name, failures, failed_at, error, state, opened_at, not_before)
  SELECT $1::text, 1, now(), $2::text, CASE WHEN n.opens THEN 'open' ELSE 'closed' END, CASE WHEN n.opens THEN now() END,
         CASE WHEN $5::boolean THEN ${NEVER} ELSE greatest(now() + $4::float8 * interval '1 ms', CASE WHEN n.opens THEN now() + interval '5 seconds' END) END
    FROM (SELECT coalesce($5::boolean OR $3::int <= 1, false) AS opens) n
      ON CONFLICT (name) DO UPDATE
     SET failures = d.failures + 1, failed_at = now(), error = EXCLUDED.error,
         probe_until = CASE WHEN d.probe_id = $6::uuid THEN NULL ELSE d.probe_until END,
         state = CASE WHEN d.state = 'open' OR EXCLUDED.state = 'open' OR d.failures + 1 >= $3::int THEN 'open' ELSE 'closed' END,
         opened_at = CASE WHEN d.state = 'open' THEN d.opened_at
                          WHEN EXCLUDED.state = 'open' OR d.failures + 1 >= $3::int THEN now() END,
         not_before = greatest(d.not_before, EXCLUDED.not_before,
                               CASE WHEN d.state = 'open' OR d.failures + 1 >= $3::int THEN ${NEXT_PROBE} END)
  RETURNING name, state = 'open' AS open, failures, opened_at = now() AS opened, ${WAIT('not_before')} AS "waitMs"`;

// One that has only asked to wait goes on waiting: calls that were under way then end well all the same.
const ANSWERED = `
  WITH gone AS (
    DELETE FROM webhook_destination
     WHERE name = $1 AND (state = 'open' OR not_before IS NULL OR not_before <= now())
    RETURNING state
  )
  SELECT state = 'open' AS open FROM gone`;

const PROBE = `
  WITH taken AS (
    UPDATE webhook_destination SET probe_id = $2, probe_until = now() + $3 * interval '1 ms'
     WHERE name = $1 AND state = 'open' AND not_before <= now() AND (probe_until IS NULL OR probe_until <= now())
    RETURNING name
  )
  SELECT EXISTS (SELECT FROM taken) AS taken, ${WAIT('greatest(not_before, probe_until)')} AS "waitMs"
    FROM webhook_destination WHERE name = $1 AND state = 'open'`;

// The row is locked first: the tokens are those that others have left.
const TAKE = `
  WITH d AS MATERIALIZED (
    SELECT name, least($3::float8, coalesce(tokens + extract(epoch FROM clock_timestamp() - refilled_at) * $2, $3)) AS filled
      FROM webhook_destination WHERE name = $1 FOR UPDATE
  ), spent AS (
    UPDATE webhook_destination w SET tokens = d.filled - least(floor(d.filled), $4), refilled_at = clock_timestamp()
      FROM d WHERE w.name = d.name
  )
  SELECT least(floor(filled), $4)::int AS taken, (filled - least(floor(filled), $4))::float8 AS tokens FROM d`;

/** The shared states of the destinations of effects. A destination without failures and without a rate has no row. */
@Injectable()
export class DestinationStore {
  async recordFailure(
    manager: EntityManager,
    name: string,
    { outboxId, error, opensAfter, retryAfterMs, gone }: DestinationFailure,
  ): Promise<DestinationState & { readonly failures: number; readonly opened: boolean }> {
    const wait = retryAfterMs === undefined ? null : Math.min(retryAfterMs, MAX_WAIT_MS);
    const values = [name, storable(error, 500), opensAfter ?? null, wait, gone, outboxId];
    const [row]: (DestinationState & { failures: number; opened: boolean | null })[] = await query(
      manager,
      FAILED,
      values,
    );
    return { ...row!, opened: row!.opened === true };
  }

  /** It works: true when it was open. */
  async recordAnswer(manager: EntityManager, name: string): Promise<boolean> {
    const [row]: { open: boolean }[] = await query(manager, ANSWERED, [name]);
    return row?.open === true;
  }

  /** Milliseconds to wait, if another row is its probe or the time has not come; undefined when this row may call. */
  async takeProbe(
    manager: EntityManager,
    name: string,
    outboxId: string,
    forMs: number,
  ): Promise<number | undefined> {
    const [row]: { taken: boolean; waitMs: number }[] = await query(manager, PROBE, [name, outboxId, forMs]);
    return row === undefined || row.taken ? undefined : row.waitMs;
  }

  /** Takes up to `wanted` calls from the rate of a destination. Returns how many it got, and the rest of the rate. */
  async take(
    manager: EntityManager,
    name: string,
    { perSecond, burst }: { readonly perSecond: number; readonly burst: number },
    wanted: number,
  ): Promise<{ readonly taken: number; readonly tokens: number }> {
    for (;;) {
      const [row]: { taken: number; tokens: number }[] = await query(manager, TAKE, [
        name,
        perSecond,
        burst,
        wanted,
      ]);
      if (row !== undefined) return row;
      await query(manager, `INSERT INTO webhook_destination (name) VALUES ($1) ON CONFLICT DO NOTHING`, [
        name,
      ]);
    }
  }

  /** Calls it again, from now on. False when it was called as usual. */
  async resume(manager: EntityManager, name: string): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `WITH resumed AS (
         DELETE FROM webhook_destination WHERE name = $1 AND (failures > 0 OR state = 'open' OR not_before > now()) RETURNING name
       ) SELECT name FROM resumed`,
      [name],
    );
    return rows.length > 0;
  }

  async list(manager: EntityManager): Promise<Destination[]> {
    return query(
      manager,
      `SELECT name, state, opened_at AS "openedAt", failures, failed_at AS "failedAt", error,
              CASE WHEN not_before > now() THEN not_before END AS "notBefore"
         FROM webhook_destination ORDER BY state DESC, failed_at DESC NULLS LAST, name LIMIT 500`,
    );
  }

  /** Those that nothing has been heard of for an hour, and that are called. */
  async prune(manager: EntityManager): Promise<void> {
    await query(
      manager,
      `DELETE FROM webhook_destination
        WHERE state = 'closed' AND coalesce(not_before, '-infinity') < now()
          AND greatest(failed_at, refilled_at) < now() - interval '1 hour'`,
    );
  }
}
