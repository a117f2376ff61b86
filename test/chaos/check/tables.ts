import type { Client } from 'pg';

/** What the tables hold about one claim. */
export interface ClaimFacts {
  readonly source: string;
  readonly event_id: string;
  readonly owed: number;
  readonly applied: number | null;
  readonly completions: number | null;
  readonly handlers: number;
  readonly effects: number;
  readonly done: number;
  /** Effects that were called back. */
  readonly cancelled: number;
}

export interface Tables {
  readonly claims: readonly ClaimFacts[];
  /** How often each event's work was applied, by source and event id. */
  readonly records: readonly {
    readonly source: string;
    readonly event_id: string;
    readonly applied: number;
  }[];
  /** Business records whose event has no claim. */
  readonly strays: number;
  readonly rows: number;
  readonly unsettled: number;
  readonly leased: number;
  readonly notDone: readonly { readonly id: string; readonly name: string; readonly state: string }[];
  /** Most attempts that any row has used of its budget. */
  readonly attempts: number;
  readonly lost: number;
  /** Times of claims and rows before the run began, or after now: no clock of the database's said them. */
  readonly foreignTimes: number;
  /** Rows that were leased before they were due. */
  readonly early: number;
  readonly processes: readonly ProcessFacts[];
  readonly leases: readonly LeaseFact[];
}

/** What was seen of a lease: another process ended it, its holder was lost, or an attempt began. */
export interface LeaseFact {
  readonly id: string;
  readonly what: 'taken' | 'lost' | 'attempt';
  /** Of an attempt its own process, else the one that held the lease. */
  readonly owner: string;
  /** By the clock of the database, in milliseconds. */
  readonly at: number;
}

/** What a process took the time for, against the database's: minutes, positive where it was ahead. */
export interface ProcessFacts {
  readonly process: string;
  readonly zone: string;
  readonly least: number;
  readonly most: number;
  readonly records: number;
}

const CLAIMS = `
  SELECT c.source, c.event_id, c.owed, r.applied_count AS applied, p.count AS completions,
         count(o.id) FILTER (WHERE o.kind = 'handler')::int AS handlers,
         count(o.id) FILTER (WHERE o.kind = 'effect')::int AS effects,
         count(o.id) FILTER (WHERE o.state = 'done')::int AS done,
         count(o.id) FILTER (WHERE o.state = 'cancelled')::int AS cancelled
    FROM webhook_claim c
    LEFT JOIN chaos_record r USING (source, event_id)
    LEFT JOIN chaos_completion p ON p.event_id = c.event_id
    LEFT JOIN webhook_outbox o ON o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
   GROUP BY 1, 2, 3, 4, 5`;

const TOTALS = `
  SELECT count(*)::int AS rows, count(*) FILTER (WHERE state = 'pending')::int AS unsettled,
         count(leased_by)::int AS leased, coalesce(max(attempt - attempt_base), 0)::int AS attempts,
         coalesce(sum(lost), 0)::int AS lost,
         (SELECT count(*)::int FROM chaos_early) AS early,
         (SELECT count(*)::int FROM chaos_run CROSS JOIN (
            SELECT received_at AS at FROM webhook_claim
             UNION ALL SELECT unnest(ARRAY[created_at, first_leased_at, begun_at, settled_at]) FROM webhook_outbox
             UNION ALL SELECT unnest(ARRAY[due_at, lease_until]) - interval '1 minute' FROM webhook_outbox
              WHERE name <> 'remind') times
           WHERE at NOT BETWEEN began - interval '1 minute' AND clock_timestamp()) AS "foreignTimes",
         (SELECT count(*)::int FROM chaos_record r
           WHERE NOT EXISTS (SELECT FROM webhook_claim c WHERE c.source = r.source AND c.event_id = r.event_id)) AS strays
    FROM webhook_outbox`;

const PROCESSES = `
  SELECT process, zone, count(*)::int AS records, min(minutes)::float8 AS least, max(minutes)::float8 AS most
    FROM (SELECT process, zone, extract(epoch FROM process_time - at) / 60 AS minutes FROM chaos_record) records
   GROUP BY 1, 2`;

export async function readTables(client: Client): Promise<Tables> {
  const claims = await client.query<ClaimFacts>(CLAIMS);
  const records = await client.query<Tables['records'][number]>(
    `SELECT source, event_id, applied_count AS applied FROM chaos_record`,
  );
  const totals =
    await client.query<Omit<Tables, 'claims' | 'records' | 'notDone' | 'processes' | 'leases'>>(TOTALS);
  const notDone = await client.query<Tables['notDone'][number]>(
    `SELECT id, name, state FROM webhook_outbox WHERE state NOT IN ('done', 'cancelled')`,
  );
  const processes = await client.query<ProcessFacts>(PROCESSES);
  const leases = await client.query<LeaseFact>(
    `SELECT id, what, owner, (extract(epoch FROM at) * 1000)::float8 AS at FROM chaos_lease ORDER BY at`,
  );
  return {
    leases: leases.rows,
    claims: claims.rows,
    records: records.rows,
    notDone: notDone.rows,
    processes: processes.rows,
    ...totals.rows[0]!,
  };
}
