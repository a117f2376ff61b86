import type { Client } from 'pg';
import type { SentEvent } from './sent.event.js';

/** What the receiver's tables hold about one event that was sent. */
export interface LedgerEntry {
  readonly source: string;
  readonly event_id: string;
  readonly claims: number;
  /** Null without a business record. */
  readonly applied_count: number | null;
  /** As the view says; null without a claim. */
  readonly state: string | null;
  /** Attempts of the handler. */
  readonly attempts: number;
  readonly effects: number;
  readonly effects_done: number;
}

const SENT = `unnest($1::text[], $2::text[]) AS sent(source, event_id)`;

const UNSETTLED = `
  SELECT count(*)::int AS count FROM webhook_outbox o JOIN ${SENT} USING (source, event_id) WHERE o.state = 'pending'`;

const APPLIED = `SELECT count(*)::int AS count FROM received_event JOIN ${SENT} USING (source, event_id)`;

const ENTRIES = `
  SELECT sent.source, sent.event_id, r.applied_count, v.state, coalesce(c.claims, 0)::int AS claims,
         coalesce(o.attempts, 0)::int AS attempts, coalesce(o.effects, 0)::int AS effects,
         coalesce(o.effects_done, 0)::int AS effects_done
    FROM ${SENT}
    LEFT JOIN received_event r USING (source, event_id)
    LEFT JOIN webhook_event v ON v.source = sent.source AND v.tenant = '' AND v.event_id = sent.event_id
    LEFT JOIN (SELECT source, event_id, count(*) AS claims FROM webhook_claim GROUP BY 1, 2) c
           ON c.source = sent.source AND c.event_id = sent.event_id
    LEFT JOIN (SELECT source, event_id, max(attempt) FILTER (WHERE kind = 'handler') AS attempts,
                      count(*) FILTER (WHERE kind = 'effect') AS effects,
                      count(*) FILTER (WHERE kind = 'effect' AND state = 'done') AS effects_done
                 FROM webhook_outbox GROUP BY 1, 2) o
           ON o.source = sent.source AND o.event_id = sent.event_id`;

/** Reads the receiver's tables, only about the events of this run: the database may hold those of others. */
export class Ledger {
  private readonly keys: [string[], string[]];

  constructor(
    private readonly client: Client,
    events: readonly SentEvent[],
  ) {
    this.keys = [events.map((event) => event.source), events.map((event) => event.id)];
  }

  /** Events with a business record. */
  async applied(): Promise<number> {
    return this.count(APPLIED);
  }

  /** Handler runs and effects that are still owed. */
  async unsettled(): Promise<number> {
    return this.count(UNSETTLED);
  }

  async entries(): Promise<LedgerEntry[]> {
    return (await this.client.query<LedgerEntry>(ENTRIES, this.keys)).rows;
  }

  private async count(sql: string): Promise<number> {
    return (await this.client.query<{ count: number }>(sql, this.keys)).rows[0]!.count;
  }
}
