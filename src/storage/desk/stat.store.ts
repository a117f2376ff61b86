import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import { storable } from '../../core/event.js';
import type { Counted, SecretUse } from '../../core/telemetry/tally.js';

const MAX_METRIC_BYTES = 100;

/** A metric's value in one step of time. */
export interface StatPoint {
  readonly at: Date;
  readonly source: string;
  readonly metric: string;
  readonly value: number;
}

/** Counts for each minute and source, and counts for each event and each secret. Gauges are metrics named `max:…`. */
@Injectable()
export class StatStore {
  /** For the rest of the transaction: counts may be lost with the server; they must not cost the claims an fsync, nor wait for a lock. */
  async lightly(manager: EntityManager): Promise<void> {
    await query(manager, `SET LOCAL synchronous_commit = off`);
    await query(manager, `SET LOCAL lock_timeout = 2000`);
  }

  /** Adds what a process counted. In the caller's transaction. */
  async flush(manager: EntityManager, { metrics, duplicates, secrets }: Counted): Promise<void> {
    // Sorted: two instances that flush in opposite orders deadlock.
    const stats = withTotals(metrics).toSorted(by((m) => `${m.source} ${m.metric}`));
    const again = duplicates.toSorted(by((d) => JSON.stringify([d.source, d.tenant, d.eventId])));
    const used = secrets.toSorted(by((s) => `${s.source} ${s.fingerprint}`));
    if (stats.length > 0) {
      await query(manager, ADD, [
        stats.map((m) => m.source),
        // A provider of the application's own may give any reason.
        stats.map((m) => storable(m.metric, MAX_METRIC_BYTES)),
        stats.map((m) => m.value),
      ]);
    }
    if (again.length > 0) {
      await query(manager, ADD_DUPLICATES, [
        again.map((d) => d.source),
        again.map((d) => d.tenant),
        again.map((d) => d.eventId),
        again.map((d) => d.count),
        again.map((d) => d.lastAt),
      ]);
    }
    if (used.length > 0) {
      await query(manager, ADD_SECRETS, [
        used.map((s) => s.source),
        used.map((s) => s.fingerprint),
        used.map((s) => s.deliveries),
        used.map((s) => s.lastAt),
      ]);
    }
  }

  /**
   * Sums (of gauges: the largest) since `sinceMs` milliseconds ago, in steps of `stepMs` milliseconds.
   * @param sources each by itself; undefined: all together
   */
  async series(
    manager: EntityManager,
    sinceMs: number,
    stepMs: number,
    sources?: readonly string[],
  ): Promise<StatPoint[]> {
    const rows: { at: Date; source: string; metric: string; value: string }[] = await query(
      manager,
      sources === undefined ? SERIES : SERIES_BY_SOURCE,
      sources === undefined ? [sinceMs, stepMs] : [sinceMs, stepMs, sources],
    );
    return rows.map((row) => ({ ...row, value: Number(row.value) }));
  }

  async secretUses(
    manager: EntityManager,
    sources: readonly string[],
  ): Promise<(SecretUse & { readonly firstAt: Date })[]> {
    const rows: { source: string; fingerprint: string; deliveries: string; first_at: Date; last_at: Date }[] =
      await query(
        manager,
        `SELECT source, fingerprint, deliveries, first_at, last_at FROM webhook_secret_use
          WHERE source = ANY($1::text[]) ORDER BY source, last_at DESC LIMIT 2000`,
        [sources],
      );
    return rows.map((row) => ({
      source: row.source,
      fingerprint: row.fingerprint,
      deliveries: Number(row.deliveries),
      firstAt: row.first_at,
      lastAt: row.last_at,
    }));
  }

  async prune(manager: EntityManager, ageMs: number): Promise<void> {
    await query(manager, `DELETE FROM webhook_stat WHERE minute < now() - $1 * interval '1 ms'`, [ageMs]);
  }
}

/** Each metric also of all sources together, under the source '': five hundred sources cost the overview no more than one. */
function withTotals(metrics: Counted['metrics']): Counted['metrics'] {
  const totals = new Map<string, number>();
  for (const { metric, value } of metrics) {
    const before = totals.get(metric) ?? 0;
    totals.set(metric, metric.startsWith('max:') ? Math.max(before, value) : before + value);
  }
  return [
    ...metrics.filter(({ source }) => source !== ''),
    ...[...totals].map(([metric, value]) => ({ source: '', metric, value })),
  ];
}

function by<T>(key: (item: T) => string): (a: T, b: T) => number {
  return (a, b) => (key(a) < key(b) ? -1 : 1);
}

const ADD = `
  INSERT INTO webhook_stat AS s (minute, source, metric, value)
  SELECT date_trunc('minute', now()), i.source, i.metric, i.value
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS i(source, metric, value)
      ON CONFLICT (minute, source, metric) DO UPDATE
     SET value = CASE WHEN s.metric LIKE 'max:%' THEN greatest(s.value, EXCLUDED.value) ELSE s.value + EXCLUDED.value END`;

const ADD_DUPLICATES = `
  INSERT INTO webhook_duplicate AS d (source, tenant, event_id, count, last_at)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::timestamptz[])
      ON CONFLICT (source, tenant, event_id) DO UPDATE
     SET count = d.count + EXCLUDED.count, last_at = greatest(d.last_at, EXCLUDED.last_at)`;

const ADD_SECRETS = `
  INSERT INTO webhook_secret_use AS u (source, fingerprint, deliveries, first_at, last_at)
  SELECT i.source, i.fingerprint, i.deliveries, i.last_at, i.last_at
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]) AS i(source, fingerprint, deliveries, last_at)
      ON CONFLICT (source, fingerprint) DO UPDATE
     SET deliveries = u.deliveries + EXCLUDED.deliveries, last_at = greatest(u.last_at, EXCLUDED.last_at)`;

const series = (source: string, where: string) => `
  SELECT date_bin($2 * interval '1 ms', minute, '2000-01-01') AS at, ${source} AS source, metric,
         CASE WHEN metric LIKE 'max:%' THEN max(value) ELSE sum(value) END AS value
    FROM webhook_stat
   WHERE minute > now() - $1 * interval '1 ms' AND ${where}
   GROUP BY 1, 2, 3 ORDER BY 1`;
const SERIES = series(`''`, `source = ''`);
const SERIES_BY_SOURCE = series('source', 'source = ANY($3::text[])');
